//go:build conformance

package conformance_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// text is a manifest of a namespace, which both libraries read.
func (b *both) text(resource, entity int) string {
	namespace, _ := b.store.Namespace()
	return fmt.Sprintf(`{"namespace": %q, "system": {"limits": {"rpm": {"capacity": 10, "refill_amount": 10, "burst": 15}}},
		"resources": {"gpt-4": {"limits": {"rpm": {"capacity": %d}}}},
		"entities": {"user": {"resources": {"gpt-4": {"limits": {"rpm": {"capacity": %d, "refill_period": 3600}}}}}}}`, namespace, resource, entity)
}

// provision calls the peer's function, and returns the actions of its changes.
func (b *both) provision(action, text string) []string {
	b.Helper()
	_, id := b.store.Namespace()
	var reply struct {
		Changes []struct{ Action, Level string }
		Errors  []string
	}
	b.py.do("provision", args{"region": peers.Region, "endpoint": b.py.local.Endpoint, "event": args{
		"action": action, "table_name": b.table, "namespace_id": id, "manifest": json.RawMessage(text),
	}}, &reply)
	if len(reply.Errors) > 0 {
		b.Errorf("Python's %s: %v", action, reply.Errors)
	}
	all := []string{}
	for _, c := range reply.Changes {
		all = append(all, c.Action+" "+c.Level)
	}
	slices.Sort(all)
	return all
}

// plan plans, and returns the actions.
func (b *both) plan(text string) []string {
	b.Helper()
	m, of := b.manager(text)
	p, err := m.Plan(b.Context(), of, true)
	b.must(err)
	all := []string{}
	for i := range p.Changes {
		level, _ := p.Changes[i].Level()
		all = append(all, string(p.Changes[i].Action)+" "+level)
	}
	slices.Sort(all)
	return all
}

func (b *both) manager(text string) (*manifest.Manager, *manifest.Manifest) {
	b.Helper()
	of, err := manifest.Parse("limits.json", []byte(text))
	b.must(err)
	m, err := manifest.New(b.store)
	b.must(err)
	return m, of
}

func (b *both) apply(text string) {
	b.Helper()
	m, of := b.manager(text)
	r, err := m.Apply(b.Context(), of, manifest.ApplyOptions{Prune: true})
	b.must(err)
	for _, o := range r.Failures() {
		b.Error(o.Err)
	}
}

func (b *both) actions(who string, got []string, want ...string) {
	b.Helper()
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		b.Errorf("%s (-want +got):\n%s", who, diff)
	}
}

var manifestCases = []interopCase{
	// Python compares whole items, and ours have the index keys and the version that its own
	// lack. So it plans updates of equal levels, but nothing to create or to delete.
	{"Python reads what an apply wrote, and knows who owns it", func(b *both) {
		b.apply(b.text(20, 30))
		var limits []pythonLimit
		b.py.call("get_limits", args{"entity_id": "user", "resource": "gpt-4"}, &limits)
		if len(limits) != 1 || limits[0].Name != "rpm" {
			b.Errorf("Python reads %+v", limits)
		}
		var resources []string
		b.py.call("list_resources_with_defaults", nil, &resources)
		if !slices.Equal(resources, []string{"gpt-4"}) {
			b.Errorf("Python lists %v", resources)
		}
		b.actions("Python", b.provision("plan", b.text(20, 30)), "update entity", "update resource", "update system")
		b.actions("we", b.plan(b.text(20, 30)), "unchanged entity", "unchanged resource", "unchanged system")
	}},
	{"a manifest that Python applied goes on as ours, and back", func(b *both) {
		b.actions("Python", b.provision("apply", b.text(20, 30)), "create entity", "create resource", "create system")
		b.actions("we", b.plan(b.text(20, 31)), "unchanged resource", "unchanged system", "update entity")
		b.apply(b.text(20, 31))
		b.actions("Python", b.provision("plan", b.text(20, 31)), "update entity") // the only one that we wrote
		b.actions("Python", b.provision("apply", b.text(25, 31)), "update entity", "update resource")
		b.actions("we", b.plan(b.text(25, 31)), "unchanged entity", "unchanged resource", "unchanged system")
		namespace, _ := b.store.Namespace()
		empty := fmt.Sprintf(`{"namespace": %q}`, namespace)
		b.actions("Python", b.provision("plan", empty), "delete entity", "delete resource", "delete system")
		b.apply(empty)
		b.actions("Python", b.provision("plan", empty))
	}},
}

// A plan reads 100 levels in a request. It logs how long 10,000 entities take, and gives each
// request more time than a busy machine needs.
func TestAPlanOfTenThousandEntities(t *testing.T) {
	t.Parallel()
	local := peers.DynamoDBLocal(t)
	if err := dynamo.CreateTable(t.Context(), local.Client, dynamo.TableOptions{Name: "limits"}); err != nil {
		t.Fatal(err)
	}
	meter := dynamo.NewMeter(local.Client)
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: meter, Table: "limits", Principal: "deployer", Timeout: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.New(s)
	if err != nil {
		t.Fatal(err)
	}
	of := &manifest.Manifest{Name: "large", Namespace: dynamo.DefaultNamespace, Levels: map[limiter.ConfigKey]manifest.Level{}}
	for i := range 10_000 {
		k := limiter.ConfigKey{Entity: fmt.Sprintf("entity-%05d", i), Resource: "gpt-4"}
		of.Levels[k] = manifest.Level{Limits: []limiter.Limit{limiter.PerMinute("rpm", int64(i+1))}}
	}
	start := time.Now()
	r, err := m.Apply(t.Context(), of, manifest.ApplyOptions{})
	if err != nil || len(r.Failures()) > 0 {
		t.Fatalf("%d failures, %v", len(r.Failures()), err)
	}
	t.Logf("applied in %v", time.Since(start))
	before, start := meter.Totals(), time.Now()
	p, err := m.Plan(t.Context(), of, true)
	if err != nil || p.Count(manifest.Unchanged) != 10_000 {
		t.Fatalf("%d unchanged, %v", p.Count(manifest.Unchanged), err)
	}
	requests := meter.Totals().Sub(before).Sum().Requests
	t.Logf("planned in %v", time.Since(start))
	if requests > 120 {
		t.Errorf("planned with %d requests", requests)
	}
}
