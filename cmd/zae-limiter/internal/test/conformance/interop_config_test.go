//go:build conformance

package conformance_test

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A level of configuration, and the peer's methods for it.
type level struct {
	key              limiter.ConfigKey
	where            args
	set, get, remove string
}

var interopLevels = []level{
	{limiter.ConfigKey{}, args{}, "set_system_defaults", "get_system_limits", "delete_system_defaults"},
	{limiter.ConfigKey{Resource: "gpt-4"}, args{"resource": "gpt-4"}, "set_resource_defaults", "get_resource_defaults", "delete_resource_defaults"},
	{
		limiter.ConfigKey{Entity: "user", Resource: limiter.DefaultResource},
		args{"entity_id": "user", "resource": "_default_"},
		"set_limits", "get_limits", "delete_limits",
	},
	{
		limiter.ConfigKey{Entity: "user", Resource: "gpt-4"},
		args{"entity_id": "user", "resource": "gpt-4"},
		"set_limits", "get_limits", "delete_limits",
	},
}

// with is a level's arguments, and the limits.
func (l level) with(limits ...limiter.Limit) args {
	a := args{"limits": asPython(limits...)}
	maps.Copy(a, l.where)
	return a
}

// limits are limits of the level, by name, different for each level.
func (l level) limits() []limiter.Limit {
	n := int64(len(l.key.Entity)*1000 + len(l.key.Resource)*10 + 100)
	return []limiter.Limit{
		perDay("rpd", n), limiter.PerMinute("tpm.x-y_z", 7, limiter.Burst(n)), limiter.Custom("w", limiter.MaxTokens, limiter.MaxPeriod),
	}
}

// A pythonLimit is a limit as the peer reads it.
type pythonLimit struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Amount   int64  `json:"refill_amount"`
	Period   int64  `json:"refill_period_seconds"`
}

// reads checks that both libraries read the limits of a level; none if want is nil.
func (b *both) reads(l level, want []limiter.Limit) {
	b.Helper()
	got, err := b.store.Limits(b.Context(), l.key)
	if want == nil && !errors.Is(err, limiter.ErrNotFound) {
		b.Errorf("Go reads %v, %v of %v", got, err, l.key)
	}
	if want != nil {
		b.must(err)
		if diff := cmp.Diff(want, got.Limits); diff != "" {
			b.Errorf("Go reads of %v (-want +got):\n%s", l.key, diff)
		}
	}
	var theirs []pythonLimit
	b.py.call(l.get, l.where, &theirs)
	slices.SortFunc(theirs, func(a, b pythonLimit) int { return strings.Compare(a.Name, b.Name) })
	var ours []pythonLimit
	for _, w := range want {
		ours = append(ours, pythonLimit{w.Name, w.Capacity, w.Amount, int64(w.Period.Seconds())})
	}
	if diff := cmp.Diff(ours, theirs, cmpopts.EquateEmpty()); diff != "" {
		b.Errorf("Python reads of %v (-want +got):\n%s", l.key, diff)
	}
}

// lists checks the registries: resources with defaults, resources with entity
// limits, and the entities that have limits for a resource.
func (b *both) lists(defaults, owned []string, resource string, entities []string) {
	b.Helper()
	for _, list := range []struct {
		name string
		want []string
		ours func() ([]string, error)
		call string
		with args
	}{
		{"resources with defaults", defaults, func() ([]string, error) { return b.store.ResourcesWithDefaults(b.Context()) }, "list_resources_with_defaults", nil},
		{"resources with entity limits", owned, func() ([]string, error) { return b.store.ResourcesWithEntityLimits(b.Context()) }, "list_resources_with_entity_configs", nil},
		{"entities with limits for " + resource, entities, func() ([]string, error) { return b.store.EntitiesWithLimits(b.Context(), resource) }, "list_entities_with_custom_limits", args{"resource": resource}},
	} {
		got, err := list.ours()
		b.must(err)
		if diff := cmp.Diff(list.want, got, cmpopts.EquateEmpty()); diff != "" {
			b.Errorf("Go lists %s (-want +got):\n%s", list.name, diff)
		}
		var names []string
		if list.with == nil {
			b.py.call(list.call, nil, &names)
		} else {
			// The peer answers with a page: the names, and where to continue.
			b.py.call(list.call, list.with, &[]any{&names, new(any)})
		}
		slices.Sort(names)
		if diff := cmp.Diff(list.want, names, cmpopts.EquateEmpty()); diff != "" {
			b.Errorf("Python lists %s (-want +got):\n%s", list.name, diff)
		}
	}
}

// keys are all keys of the namespace.
func (b *both) keys() []schema.Key {
	b.Helper()
	_, ns := b.store.Namespace()
	out, err := b.api.Query(b.Context(), &dynamodb.QueryInput{
		TableName: &b.table, IndexName: aws.String(schema.GSI4),
		KeyConditionExpression:    aws.String("GSI4PK = :ns"),
		ExpressionAttributeValues: schema.Item{":ns": schema.S(ns)},
	})
	b.must(err)
	var keys []schema.Key
	for _, it := range out.Items {
		keys = append(keys, schema.KeyOf(it))
	}
	return keys
}

var configCases = []interopCase{
	{"limits of every level set by Python", func(b *both) {
		for _, l := range interopLevels {
			b.reads(l, nil)
			b.py.call(l.set, l.with(l.limits()...), nil)
			b.reads(l, l.limits())
		}
		b.lists([]string{"gpt-4"}, []string{"_default_", "gpt-4"}, "gpt-4", []string{"user"})
		for _, l := range interopLevels {
			b.must(b.store.DeleteLimits(b.Context(), l.key))
			b.reads(l, nil)
		}
		b.lists(nil, nil, "gpt-4", nil)
	}},
	{"limits of every level set by Go", func(b *both) {
		for _, l := range interopLevels {
			if l.key == (limiter.ConfigKey{}) {
				b.system(l.limits()...)
			} else {
				b.must(b.store.SetLimits(b.Context(), l.key, l.limits()))
			}
			b.reads(l, l.limits())
		}
		b.lists([]string{"gpt-4"}, []string{"_default_", "gpt-4"}, "gpt-4", []string{"user"})
		for _, l := range interopLevels {
			b.py.call(l.remove, l.where, nil)
			b.reads(l, nil)
		}
		b.lists(nil, nil, "gpt-4", nil)
	}},
	{"limits set by one, replaced by the other, counted once", func(b *both) {
		for _, l := range interopLevels[1:] {
			b.py.call(l.set, l.with(l.limits()...), nil)
			b.must(b.store.SetLimits(b.Context(), l.key, l.limits()[:1]))
			b.reads(l, l.limits()[:1])
			b.py.call(l.set, l.with(l.limits()[1:]...), nil)
			b.reads(l, l.limits()[1:])
		}
		b.lists([]string{"gpt-4"}, []string{"_default_", "gpt-4"}, "gpt-4", []string{"user"})
		for _, l := range interopLevels[1:] {
			b.py.call(l.remove, l.where, nil)
		}
		b.lists(nil, nil, "gpt-4", nil)
	}},
	{"the level that wins is the same", func(b *both) {
		for _, l := range interopLevels {
			if l.key == (limiter.ConfigKey{}) {
				b.system(l.limits()...)
			} else {
				b.must(b.store.SetLimits(b.Context(), l.key, l.limits()))
			}
		}
		for i, c := range []struct{ entity, resource string }{{"other", "gpt-3.5"}, {"other", "gpt-4"}, {"user", "gpt-3.5"}, {"user", "gpt-4"}} {
			n := interopLevels[i].limits()[0].Capacity
			if i%2 == 0 {
				b.py.take(c.entity, c.resource, args{"rpd": 1})
			} else {
				b.take(c.entity, c.resource, args{"rpd": 1})
			}
			b.balance(c.entity, c.resource, "rpd", n-1)
		}
	}},
	{"what the system does when the store is unavailable", func(b *both) {
		b.py.call("set_system_defaults", args{"limits": asPython(perDay("rpd", 5)), "on_unavailable": "allow"}, nil)
		got, err := b.store.Limits(b.Context(), limiter.ConfigKey{})
		b.must(err)
		if got.OnUnavailable != limiter.Allow {
			b.Errorf("Go reads %q", got.OnUnavailable)
		}
		b.must(b.store.SetSystem(b.Context(), []limiter.Limit{perDay("rpd", 5)}, limiter.Block))
		var on string
		b.py.call("resolve_on_unavailable", nil, &on)
		if on != "block" {
			b.Errorf("Python reads %q", on)
		}
	}},
	{"entities and their children", func(b *both) {
		b.project(true)
		_, err := b.store.CreateEntity(b.Context(), limiter.Entity{ID: "user-2", Name: "Two", Parent: "project", Metadata: map[string]string{"tier": "gold"}})
		b.must(err)
		children, err := b.store.Children(b.Context(), "project")
		b.must(err)
		if len(children) != 2 || children[0].ID != "user" || !children[0].Cascade || children[0].Name != "user" || children[1].ID != "user-2" {
			b.Errorf("Go lists %v", children)
		}
		var theirs []struct {
			ID       string `json:"id"`
			Name     string `json:"name"`
			Parent   string `json:"parent_id"`
			Cascade  bool   `json:"cascade"`
			Metadata map[string]string
		}
		b.py.call("get_children", args{"parent_id": "project"}, &theirs)
		if len(theirs) != 2 || theirs[1].ID != "user-2" || theirs[1].Name != "Two" || theirs[1].Cascade ||
			theirs[1].Parent != "project" || theirs[1].Metadata["tier"] != "gold" {
			b.Errorf("Python lists %v", theirs)
		}
		if err := b.py.try("call", args{"method": "create_entity", "entity_id": "user-2"}, nil); err == nil {
			b.Error("Python created an entity of ours again")
		}
		if _, err := b.store.CreateEntity(b.Context(), limiter.Entity{ID: "user"}); !errors.Is(err, limiter.ErrExists) {
			b.Errorf("Go created an entity of Python's again: %v", err)
		}
	}},
	{"namespaces", func(b *both) {
		name, _ := b.store.Namespace()
		var id string
		b.py.call("register_namespace", args{"namespace": name + "-p"}, &id)
		got, err := b.namespaces.Register(b.Context(), name+"-p")
		b.must(err)
		if got.ID != id {
			b.Errorf("Go has the id %s, Python %s", got.ID, id)
		}
		ours, err := b.namespaces.Register(b.Context(), name+"-g")
		b.must(err)
		b.py.call("register_namespace", args{"namespace": name + "-g"}, &id)
		if ours.ID != id {
			b.Errorf("Python has the id %s, Go %s", id, ours.ID)
		}
		b.py.open(b.table, name+"-g")
		b.py.call("set_system_defaults", args{"limits": asPython(perDay("rpd", 5))}, nil)
		s, err := dynamo.Open(b.Context(), dynamo.Options{API: b.api, Table: b.table, Namespace: name + "-g"})
		b.must(err)
		c, err := s.Limits(b.Context(), limiter.ConfigKey{})
		b.must(err)
		if len(c.Limits) != 1 {
			b.Errorf("Go reads %v in the namespace", c)
		}
		b.py.call("delete_namespace", args{"namespace": name + "-g"}, nil)
		if _, err := b.namespaces.Get(b.Context(), name+"-g"); !errors.Is(err, limiter.ErrNotFound) {
			b.Errorf("Go still finds what Python deleted: %v", err)
		}
		b.must(b.namespaces.Delete(b.Context(), name+"-p"))
		var found *struct{}
		b.py.call("get_namespace", args{"namespace": name + "-p"}, &found)
		if found != nil {
			b.Error("Python still finds what Go deleted")
		}
		var orphans []map[string]string
		b.py.call("list_orphan_namespaces", nil, &orphans)
		for _, want := range []string{ours.ID, got.ID} {
			if !slices.ContainsFunc(orphans, func(o map[string]string) bool { return o["namespace_id"] == want }) {
				b.Errorf("Python does not list %s as deleted: %v", want, orphans)
			}
		}
	}},
}
