package manifest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A world is a table with a manager on it.
type world struct {
	*testbed.World
	manager *manifest.Manager
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := testbed.New(t, testbed.Options{Store: dynamo.Options{Principal: "deployer"}})
	return &world{w, managerOf(t, w.Store)}
}

func managerOf(tb testing.TB, s *dynamo.Store) *manifest.Manager {
	tb.Helper()
	m, err := manifest.New(s)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// levels is a manifest of one limit for each level. A level is written as "system=5",
// "r=5" or "e/r=5".
func levels(name string, spec ...string) *manifest.Manifest {
	m := &manifest.Manifest{Name: name, Namespace: "default", Levels: map[store.ConfigKey]manifest.Level{}}
	for _, s := range spec {
		target, number, _ := strings.Cut(s, "=")
		var capacity int64
		_, _ = fmt.Sscan(number, &capacity)
		m.Levels[keyOf(target)] = manifest.Level{Limits: []store.Limit{limit("rpm", capacity, capacity, minute)}}
	}
	return m
}

func keyOf(target string) store.ConfigKey {
	if target == "system" {
		return store.ConfigKey{}
	}
	if entity, resource, ok := strings.Cut(target, "/"); ok {
		return key(entity, resource)
	}
	return key("", target)
}

// plan plans and compares the actions, written as "create e/r". A level that drifted
// has a "!".
func (w *world) plan(m *manifest.Manifest, prune bool, want ...string) *manifest.Plan {
	w.Helper()
	p, err := w.manager.Plan(w.Context(), m, prune)
	w.Must(err)
	w.want("plan", actions(p.Changes), want)
	return p
}

// apply applies without failures and compares the actions.
func (w *world) apply(m *manifest.Manifest, prune bool, want ...string) {
	w.Helper()
	r, err := w.manager.Apply(w.Context(), m, manifest.ApplyOptions{Prune: prune})
	w.Must(err)
	var changes []manifest.Change
	for _, o := range r.Outcomes {
		changes = append(changes, o.Change)
		w.Check(o.Err)
	}
	w.want("apply", actions(changes), want)
}

func (w *world) want(what string, got, want []string) {
	w.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func actions(changes []manifest.Change) []string {
	var all []string
	for _, c := range changes {
		target := strings.Trim(c.Key.Entity+"/"+c.Key.Resource, "/")
		if target == "" {
			target = "system"
		}
		action := string(c.Action) + " " + target
		if c.Drift {
			action += "!"
		}
		if c.Unowned {
			action += "?"
		}
		if c.Owner != "" {
			action += " of " + c.Owner
		}
		all = append(all, action)
	}
	return all
}

// owned compares the levels that manifests own.
func (w *world) owned(want map[string][]string) {
	w.Helper()
	records, err := w.Store.Manifests(w.Context())
	w.Must(err)
	got := map[string][]string{}
	for _, r := range records {
		for k := range maps.Keys(r.Levels) {
			got[r.Name] = append(got[r.Name], strings.TrimPrefix(k.Entity+"/"+k.Resource, "/"))
		}
		slices.Sort(got[r.Name])
		if r.Holder != "" {
			w.Errorf("manifest %s is still held", r.Name)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("owned (-want +got):\n%s", diff)
	}
}

// set sets a limit by hand.
func (w *world) set(target string, capacity int64) {
	w.Helper()
	w.Must(w.Store.SetLimits(w.Context(), keyOf(target), []store.Limit{limit("rpm", capacity, capacity, minute)}))
}

// holds compares the capacity of a level; 0 is a level without limits.
func (w *world) holds(target string, want int64) {
	w.Helper()
	c, err := w.Store.Limits(w.Context(), keyOf(target))
	var got int64
	if err == nil && len(c.Limits) > 0 {
		got = c.Limits[0].Capacity
	}
	if got != want {
		w.Errorf("%s has %d, want %d (%v)", target, got, want, err)
	}
}

// put writes an item past the store.
func (w *world) put(it schema.Item) {
	w.Helper()
	_, err := w.Engine.PutItem(w.Context(), &dynamodb.PutItemInput{TableName: aws.String(testbed.Table), Item: it})
	w.Must(err)
}

// get reads an item past the store.
func (w *world) get(k schema.Key) schema.Item {
	w.Helper()
	out, err := w.Engine.GetItem(w.Context(), &dynamodb.GetItemInput{TableName: aws.String(testbed.Table), Key: k.Item()})
	w.Must(err)
	return out.Item
}

// each calls yield with the keys of every item in the index of a namespace.
func (w *world) each(ns string, yield func(schema.Item)) {
	w.Helper()
	out, err := w.Engine.Query(w.Context(), &dynamodb.QueryInput{
		TableName: aws.String(testbed.Table), IndexName: aws.String(schema.GSI4),
		KeyConditionExpression: aws.String("GSI4PK = :ns"), ExpressionAttributeValues: schema.Item{":ns": schema.S(ns)},
	})
	w.Must(err)
	for _, it := range out.Items {
		yield(it)
	}
}
