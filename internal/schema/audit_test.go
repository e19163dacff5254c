package schema_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestAuditEventsAreReadBack(t *testing.T) {
	t.Parallel()
	for _, ns := range []string{"ns1", schema.TableNamespace} {
		for _, entity := range []string{"user", schema.AuditSystem, schema.AuditResource("a/b"), schema.AuditNamespace("team/b")} {
			want := schema.AuditEvent{
				ID: "01M7YGVFY66932SWP0QKT1WNT2", Time: time.Unix(1_700_000_000, 0).UTC(), Action: "limits_set", Entity: entity,
				Resource: "a/b", Details: schema.Item{}, Expires: time.Unix(1_700_086_400, 0).UTC(),
			}
			gotNS, got, ok := schema.DecodeAuditEvent(schema.EncodeAuditEvent(ns, &want))
			if diff := cmp.Diff(want, got); diff != "" || gotNS != ns || !ok {
				t.Errorf("in %q, %v (-want +got):\n%s", gotNS, ok, diff)
			}
		}
	}
	for _, k := range []schema.Key{
		{PK: "AUDIT#user", SK: "#AUDIT#01"},
		{PK: "/AUDIT#user", SK: "#AUDIT#01"},
		{PK: "ns1/AUDIT#", SK: "#AUDIT#01"},
		{PK: "ns1/AUDIT#user", SK: "#AUDIT#"},
		{PK: "ns1/AUDIT#user", SK: "#META"},
		{PK: "ns1/ENTITY#user", SK: "#AUDIT#01"},
		{},
	} {
		if _, e, ok := schema.DecodeAuditEvent(k.Item()); ok {
			t.Errorf("%s is %+v", k, e)
		}
	}
}

func TestAuditedNamesAreChecked(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"user": true, "$SYSTEM": true, "$RESOURCE:a/b": true, "": false, "$RESOURCE:": false, "$RESOURCE:a#b": false,
		"$RESOURCE:" + store.DefaultResource: false, "$NAMESPACE:x": false, "$SYSTEM#": false, "a#b": false,
	} {
		if err := schema.CheckAudited(name); ok != (err == nil) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestRetentionIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		item schema.Item
		days int
		ok   bool
	}{
		"nothing":    {schema.Item{}, 90, true},
		"no item":    {nil, 90, true},
		"a number":   {schema.Item{"audit_retention_days": schema.N(7)}, 7, true},
		"very long":  {schema.Item{"audit_retention_days": schema.N(1 << 40)}, 36_500, true},
		"none":       {schema.Item{"audit_retention_days": schema.N(0)}, 90, false},
		"no number":  {schema.Item{"audit_retention_days": schema.S("7")}, 90, false},
		"a fraction": {schema.Item{"audit_retention_days": n("7.5")}, 90, false},
	} {
		if days, ok := schema.AuditRetention(c.item); days != c.days || ok != c.ok {
			t.Errorf("%s: %d, %v", name, days, ok)
		}
	}
}
