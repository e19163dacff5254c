//go:build conformance

package conformance_test

import (
	"encoding/json"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A pythonEvent is an audit event as the peer reads it.
type pythonEvent struct {
	ID        string         `json:"event_id"`
	Time      string         `json:"timestamp"`
	Action    string         `json:"action"`
	Entity    string         `json:"entity_id"`
	Principal string         `json:"principal"`
	Resource  string         `json:"resource"`
	Details   map[string]any `json:"details"`
}

// trails checks that both libraries read the same events about an entity, newest first, and
// returns them.
func (b *both) trails(entity string, want ...string) []audit.Event {
	b.Helper()
	page, err := b.store.AuditEvents(b.Context(), audit.Query{Entity: entity})
	b.must(err)
	ours := make([]pythonEvent, 0, len(page.Events))
	var actions []string
	for _, e := range page.Events {
		actions = append(actions, e.Action+" by "+e.Principal)
		ours = append(ours, pythonEvent{e.ID, schema.Timestamp(e.Time), e.Action, e.Entity, e.Principal, e.Resource, e.Details})
	}
	if diff := cmp.Diff(want, actions); diff != "" {
		b.Errorf("events about %s (-want +got):\n%s", entity, diff)
	}
	var theirs []pythonEvent
	b.py.call("get_audit_events", args{"entity_id": entity}, &theirs)
	// JSON has no integer type, so our events take the same way as theirs.
	text, err := json.Marshal(ours)
	b.must(err)
	b.must(json.Unmarshal(text, &ours))
	if diff := cmp.Diff(theirs, ours, cmpopts.EquateEmpty()); diff != "" {
		b.Errorf("events about %s (-Python +Go):\n%s", entity, diff)
	}
	return page.Events
}

// kept checks for how many days an event is kept, within the second in which it was made.
func (b *both) kept(e audit.Event, days int) {
	b.Helper()
	if d := e.Expires.Sub(e.Time) - time.Duration(days)*24*time.Hour; d.Abs() > 2*time.Second {
		b.Errorf("%s is kept for %v, want %d days", e.Action, e.Expires.Sub(e.Time), days)
	}
}

var auditCases = []interopCase{
	{"audit events of both are read by both", func(b *both) {
		jo, err := dynamo.Open(b.Context(), dynamo.Options{API: b.api, Table: b.table, Namespace: b.name(), Principal: "jo"})
		b.must(err)
		system, user := limiter.ConfigKey{}, limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}
		b.must(errOf(jo.CreateEntity(b.Context(), limiter.Entity{ID: "user", Metadata: map[string]string{"plan": "free"}})))
		b.py.call("set_limits", args{
			"entity_id": "user", "resource": "gpt-4", "limits": asPython(perDay("rpd", 7)), "principal": "ann",
		}, nil)
		b.must(jo.SetLimits(b.Context(), user, []limiter.Limit{perDay("tpd", 9)}))
		b.must(jo.DeleteLimits(b.Context(), user))
		b.py.call("delete_entity", args{"entity_id": "user", "principal": "arn:aws:iam::1:user/x"}, nil)
		b.trails("user", "entity_deleted by arn:aws:iam::1:user/x", "limits_deleted by jo", "limits_set by jo", "limits_set by ann", "entity_created by jo")

		b.must(jo.SetLimits(b.Context(), limiter.ConfigKey{Resource: "a/b"}, []limiter.Limit{perDay("rpd", 7)}))
		b.py.call("delete_resource_defaults", args{"resource": "a/b", "principal": "ann"}, nil)
		b.trails(audit.Resource("a/b"), "limits_deleted by ann", "limits_set by jo")

		b.must(jo.SetSystem(b.Context(), []limiter.Limit{perDay("rpd", 7)}, limiter.Allow))
		b.py.call("set_system_defaults", args{"limits": asPython(perDay("rpd", 8)), "principal": "ann"}, nil)
		b.must(jo.DeleteLimits(b.Context(), system))
		b.trails(audit.System, "limits_deleted by jo", "limits_set by ann", "limits_set by jo")
	}},
	{"the retention that one sets, the other honours", func(b *both) {
		b.must(b.store.SetAuditRetention(b.Context(), 7))
		b.py.call("create_entity", args{"entity_id": "theirs", "principal": "ann"}, nil)
		b.must(errOf(b.store.CreateEntity(b.Context(), limiter.Entity{ID: "ours"})))
		b.kept(b.trails("theirs", "entity_created by ann")[0], 7)
		b.kept(b.trails("ours", "entity_created by ")[0], 7)
	}},
}

// name is the name of the case's namespace.
func (b *both) name() string {
	name, _ := b.store.Namespace()
	return name
}

func errOf[T any](_ T, err error) error { return err }
