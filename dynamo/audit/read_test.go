package audit_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestAuditPages(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	for i := range 12 {
		fixture.SetLimits(t, s, level, []store.Limit{limiter.PerMinute("rpm", int64(i+1))})
		if i%4 == 3 {
			if err := s.DeleteLimits(t.Context(), level); err != nil {
				t.Fatal(err)
			}
		}
	}
	fixture.CreateEntity(t, s, store.Entity{ID: "user2"})
	all := fixture.Trail(t, s, "user")
	slices.Reverse(all)
	for _, page := range []int{0, 1, 2, 7} { // items per page of the table
		if f.Set(nil); page > 0 {
			f.Set(faults.Pages(page))
		}
		for _, action := range []string{"", "limits_set", "limits_deleted", "nothing"} {
			for _, limit := range []int{1, 3, 4, 5, 15, 0} {
				var want []string
				for _, e := range all {
					if action == "" || e.Action == action {
						want = append(want, e.ID)
					}
				}
				var got []string
				q := audit.Query{Entity: "user", Action: action, Limit: limit}
				for {
					p, err := s.AuditEvents(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range p.Events {
						got = append(got, e.ID)
					}
					if p.Cursor == "" {
						break
					}
					if len(p.Events) != limit {
						t.Fatalf("%d events before a cursor, want %d", len(p.Events), limit)
					}
					q.Cursor = p.Cursor
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("pages of %d, action %q, limit %d (-want +got):\n%s", page, action, limit, diff)
				}
			}
		}
	}
}

func TestAuditQueriesAreChecked(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	fixture.SetLimits(t, s, level, rpm10)
	fixture.SetLimits(t, s, level, tpm20)
	page, err := s.AuditEvents(t.Context(), audit.Query{Entity: "user", Limit: 1})
	if err != nil || page.Cursor == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	f.Take()
	for field, q := range map[string]audit.Query{
		"entity":   {Entity: "$NAMESPACE:x"},
		"resource": {Entity: "$RESOURCE:a#b"},
		"limit":    {Entity: "user", Limit: -1},
		"cursor":   {Entity: "user2", Cursor: page.Cursor},
	} {
		_, err := s.AuditEvents(t.Context(), q)
		invalid := (*store.ValidationError)(nil)
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: got error %v, want one of %s", q, err, field)
		}
	}
	for _, cursor := range []string{"x", "####", "dXNlcg"} {
		_, err := s.AuditEvents(t.Context(), audit.Query{Entity: "user", Cursor: cursor})
		fixture.WantErr(t, err, store.ErrInvalid)
	}
	_, err = s.AuditEvents(t.Context(), audit.Query{Entity: "user", Limit: 10_001})
	fixture.WantErr(t, err, store.ErrInvalid)
	if len(f.Ops()) != 0 {
		t.Errorf("requests were sent: %q", f.Ops())
	}
}

// The retention is stored where it is read, and holds for the events that follow (peer
// defect 9.14).
func TestAuditRetention(t *testing.T) {
	t.Parallel()
	instant := start
	f := faults.NewTap(fixture.NewTable(t))
	open := func() *dynamo.Store {
		s, err := dynamo.Open(t.Context(), dynamo.Options{API: fixture.AtOnce(f), Table: table, Now: func() time.Time { return instant }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s, other := open(), open()
	_, ns := s.Namespace()
	entities := 0
	kept := func(want int) {
		t.Helper()
		entities++
		id := fmt.Sprintf("user-%d", entities)
		fixture.CreateEntity(t, s, store.Entity{ID: id})
		e := fixture.Trail(t, s, id)[0]
		if days := int(e.Expires.Sub(e.Time) / (24 * time.Hour)); days != want {
			t.Errorf("the event is kept for %d days, want %d", days, want)
		}
	}
	kept(90)
	if err := other.SetAuditRetention(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	kept(90) // a read retention holds for a minute
	instant = instant.Add(time.Minute)
	kept(7)
	if err := s.SetAuditRetention(t.Context(), 36_500); err != nil {
		t.Fatal(err)
	}
	kept(36_500)
	// Setting and deleting limits keep the retention.
	fixture.SetLimits(t, s, store.ConfigKey{}, rpm10)
	if err := s.DeleteLimits(t.Context(), store.ConfigKey{}); err != nil {
		t.Fatal(err)
	}
	if days, err := other.AuditRetention(t.Context()); err != nil || days != 36_500 {
		t.Errorf("retention is %d, %v", days, err)
	}
	// The retention is stored where the peer reads it.
	if n := schema.PlainMap(fixture.Get(t, f, schema.Key{PK: ns + "/SYSTEM#", SK: "#CONFIG"}))["audit_retention_days"]; n != int64(36_500) {
		t.Errorf("the item says %v", n)
	}
	for _, days := range []int{0, -1, 36_501} {
		invalid := (*store.ValidationError)(nil)
		if err := s.SetAuditRetention(t.Context(), days); !errors.As(err, &invalid) || invalid.Field != "audit retention" {
			t.Errorf("%d: got error %v", days, err)
		}
	}
	// An unreadable retention counts as the default, and can be set again.
	fixture.Put(t, f, schema.Item{
		schema.PK: schema.S(schema.SystemPK(ns)), schema.SK: schema.S(schema.ConfigSK), schema.AuditRetentionDays: schema.S("ever"),
	})
	instant = instant.Add(time.Minute)
	kept(90)
	if err := s.SetAuditRetention(t.Context(), 90); err != nil {
		t.Fatal(err)
	}
	if days, err := s.AuditRetention(t.Context()); err != nil || days != 90 {
		t.Errorf("retention is %d, %v", days, err)
	}
}

// Setting the retention sees a value that another store sets in the meantime.
func TestSettingTheRetentionLosesNoOther(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	other := fixture.OpenStore(t, f.Table)
	done := false
	f.Set(faults.Before(func(c *faults.Call) error {
		if c.Op != "TransactWriteItems" || done {
			return nil
		}
		done = true
		return other.SetAuditRetention(t.Context(), 5)
	}))
	if err := s.SetAuditRetention(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range fixture.Trail(t, s, audit.System) {
		got = append(got, fmt.Sprintf("%v to %v", e.Details["old_days"], e.Details["days"]))
	}
	slices.Sort(got) // IDs of two stores in one millisecond have no order
	if diff := cmp.Diff([]string{"5 to 6", "90 to 5"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Events written by a peer or by a newer version are read as far as possible.
func TestForeignEventsAreRead(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	key := schema.AuditKey(ns, "user", "01M7YGVFY66932SWP0QKT1WNT2")
	bare, full := key.Item(), key.Item()
	bare[schema.SK] = schema.S("#AUDIT#01")
	full[schema.Action], full[schema.Principal] = schema.S("bucket_topped_up"), schema.S("arn:aws:iam::1:user/x")
	full[schema.EventTime], full[schema.TTL] = schema.S("2026-11-21T07:41:39Z"), schema.N(1)
	full[schema.Details] = schema.Map(schema.Item{
		"amounts": schema.Map(schema.Item{"rpm": schema.N(3)}), "set": schema.Set("a"), "no": schema.Bool(false),
		"scale": &types.AttributeValueMemberN{Value: "0.5"},
	})
	fixture.Put(t, f, bare)
	fixture.Put(t, f, full)
	want := []audit.Event{
		{ID: "01", Entity: "user", Details: map[string]any{}},
		{
			ID: "01M7YGVFY66932SWP0QKT1WNT2", Time: time.Date(2026, 11, 21, 7, 41, 39, 0, time.UTC), Action: "bucket_topped_up", Entity: "user",
			Principal: "arn:aws:iam::1:user/x", Expires: time.Unix(1, 0).UTC(),
			Details: map[string]any{"amounts": map[string]any{"rpm": int64(3)}, "set": []any{"a"}, "no": false, "scale": 0.5},
		},
	}
	if diff := cmp.Diff(want, fixture.Trail(t, s, "user")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
