package schema_test

import (
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

// Details of limits are those of the Python package, where it can evaluate the limits.
func TestQuotasInDetails(t *testing.T) {
	t.Parallel()
	quota := func(words string) store.Limit {
		r, err := store.ParseRenewal(words, "Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		return store.Limit{Name: "q", Capacity: 7, Renews: r}
	}
	entry := func(cron string) types.AttributeValue {
		return schema.Map(schema.Item{"cron": schema.S(cron), "tz": schema.S("Europe/Berlin")})
	}
	of := func(more schema.Item) types.AttributeValue {
		item := schema.Item{"name": schema.S("q"), "capacity": schema.N(int64(7)), "refill_amount": schema.N(int64(0)), "refill_period_seconds": schema.N(int64(1))}
		maps.Copy(item, more)
		return &types.AttributeValueMemberL{Value: []types.AttributeValue{schema.Map(item)}}
	}
	for words, want := range map[string]types.AttributeValue{
		"day; week from monday at 06:30": of(schema.Item{"reset_schedule": &types.AttributeValueMemberL{Value: []types.AttributeValue{entry("0 0 * * *"), entry("30 6 * * 1")}}}),
		"month from day 31":              of(schema.Item{"renews": schema.S("month from last day"), "zone": schema.S("Europe/Berlin")}),
	} {
		got := schema.LimitsDetail([]store.Limit{quota(words)})
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(types.AttributeValueMemberL{}, types.AttributeValueMemberM{}, types.AttributeValueMemberS{}, types.AttributeValueMemberN{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", words, diff)
		}
	}
}
