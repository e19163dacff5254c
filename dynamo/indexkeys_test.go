package dynamo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A table that only this library uses gets spread keys. A table of the peer's form never does, and
// no other one after the peer, or an older version of this library, has changed the record.
func TestIndexKeysAreThoseThatTheTableIsFor(t *testing.T) {
	t.Parallel()
	type step = func(w *keyed)
	create := func(o dynamo.TableOptions) step {
		return func(w *keyed) { w.must(dynamo.CreateTable(w.Context(), w.DB, w.of(o))) }
	}
	deploy := func(to dynamo.Versions) step {
		return func(w *keyed) {
			_, err := dynamo.RaiseVersions(w.Context(), dynamo.Options{API: w.DB, Table: table, Now: w.now}, to)
			w.must(err)
		}
	}
	change := func(update string) step { return func(w *keyed) { w.change(update) } }
	peerDeploys := change("SET updated_at = :new")
	peerRaises := change("SET client_min_version = :min")
	unrecorded := change("REMOVE index_partitions, index_partitions_at")
	ours, all := create(dynamo.TableOptions{}), create(dynamo.TableOptions{GSI2Projection: dynamo.ProjectAll})
	shared, spread := create(dynamo.TableOptions{IndexKeys: dynamo.SharedKeys}), create(dynamo.TableOptions{IndexKeys: dynamo.SpreadKeys})
	for name, c := range map[string]struct {
		want  dynamo.IndexKeys
		steps []step
	}{
		"ours":                                   {dynamo.SpreadKeys, []step{ours}},
		"the peer's form":                        {dynamo.SharedKeys, []step{all}},
		"the peer's form, deployed":              {dynamo.SharedKeys, []step{all, deploy(dynamo.Versions{Lambda: "0.18.0"})}},
		"shared":                                 {dynamo.SharedKeys, []step{shared}},
		"shared from now on":                     {dynamo.SharedKeys, []step{ours, shared, ours, deploy(dynamo.Versions{Lambda: "0.18.0"})}},
		"ours, deployed":                         {dynamo.SpreadKeys, []step{ours, deploy(dynamo.Versions{Lambda: "0.18.0", ClientMin: "0.16.0"})}},
		"an older version's, created again":      {dynamo.SpreadKeys, []step{ours, unrecorded, ours}},
		"an older version's, deployed":           {dynamo.SpreadKeys, []step{ours, unrecorded, deploy(dynamo.Versions{})}},
		"an older version's":                     {dynamo.SharedKeys, []step{ours, unrecorded}},
		"an older version's with peers":          {dynamo.SharedKeys, []step{ours, unrecorded, peerRaises, deploy(dynamo.Versions{}), ours}},
		"the peer has deployed":                  {dynamo.SharedKeys, []step{ours, peerDeploys}},
		"the peer has deployed, and ours after":  {dynamo.SharedKeys, []step{ours, peerDeploys, deploy(dynamo.Versions{Lambda: "0.18.0"}), ours}},
		"a peer has raised the oldest client":    {dynamo.SharedKeys, []step{ours, peerRaises}},
		"spread again, although a peer was here": {dynamo.SpreadKeys, []step{ours, peerDeploys, peerRaises, spread}},
		"no longer shared":                       {dynamo.SpreadKeys, []step{shared, spread}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &keyed{T: t, DB: testbed.NewEngine(t, dynamolite.Options{}), at: fixture.Start}
			for _, do := range c.steps {
				w.at = w.at.Add(time.Minute)
				do(w)
			}
			if got := w.keys(); got != c.want {
				t.Errorf("%s keys, want %s", got, c.want)
			}
		})
	}
	w := &keyed{T: t, DB: testbed.NewEngine(t, dynamolite.Options{}), at: fixture.Start}
	all(w)
	fixture.WantErr(t, dynamo.CreateTable(t.Context(), w.DB, w.of(dynamo.TableOptions{IndexKeys: dynamo.SpreadKeys})), store.ErrExists)
	fixture.WantErr(t, dynamo.CreateTable(t.Context(), w.DB, w.of(dynamo.TableOptions{IndexKeys: "some"})), store.ErrInvalid)
}

// keyed is a table whose index keys are tested.
type keyed struct {
	*testing.T
	*dynamolite.DB

	at time.Time
}

func (w *keyed) now() time.Time { return w.at }

func (w *keyed) of(o dynamo.TableOptions) dynamo.TableOptions {
	o.Name, o.Now = table, w.now
	return o
}

func (w *keyed) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// change changes the version record as somebody does who does not know of spread keys.
func (w *keyed) change(update string) {
	w.Helper()
	in := &dynamodb.UpdateItemInput{TableName: aws.String(table), Key: schema.VersionKey().Item(), UpdateExpression: &update}
	for alias, value := range map[string]string{":new": schema.Timestamp(w.at), ":min": "0.15.0"} {
		if strings.Contains(update, alias) {
			in.ExpressionAttributeValues = schema.Item{alias: schema.S(value)}
		}
	}
	_, err := w.UpdateItem(w.Context(), in)
	w.must(err)
}

// keys are those of a bucket that a newly opened store makes.
func (w *keyed) keys() dynamo.IndexKeys {
	w.Helper()
	s := fixture.OpenStore(w.T, w.DB)
	_, ns := s.Namespace()
	b := store.Bucket{Entity: "user", Resource: "gpt-4"}
	limit := store.NewLimit{NamedParams: store.NamedParams{Limit: "rpm", Params: store.Params{Capacity: 1000, Amount: 1000, Period: 1000}}}
	_, err := s.Create(w.Context(), &store.Create{Bucket: b, Now: fixture.Start.UnixMilli(), ShardCount: 1, Limits: []store.NewLimit{limit}, Writes: limit})
	w.must(err)
	it := fixture.Get(w.T, w.DB, schema.BucketKey(ns, b))
	gsi2, gsi4, resource := fixture.Notation(it[schema.GSI2PK]), fixture.Notation(it[schema.GSI4PK]), "S "+schema.ResourcePK(ns, "gpt-4")
	switch {
	case gsi2 == resource && gsi4 == "S "+ns:
		return dynamo.SharedKeys
	case strings.HasPrefix(gsi2, resource+"#") && strings.HasPrefix(gsi4, "S "+ns+"/"): // as a policy for one namespace allows
		return dynamo.SpreadKeys
	}
	w.Fatalf("keys %q and %q", gsi2, gsi4)
	return ""
}
