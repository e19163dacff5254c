//go:build conformance

package aggregator_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// One history on both engines leaves the same table, item by item and attribute by
// attribute. The records are read from each engine's stream and processed in the same
// batches.
//
// Values that cannot be equal are renamed first. IDs of namespaces, of audit events, of processes and of
// lives of entities are random. A sequence number is replaced by its item and the number of
// its write. Records carry the time of the story instead of the engine's. Within a step of
// the story they are sorted by key, since two items of one transaction have no order. Both
// engines use the time of the story.
func TestBothEnginesEndWithTheSameTable(t *testing.T) {
	t.Parallel()
	local := peers.DynamoDBLocal(t)
	engine := testbed.NewEngine(t, dynamolite.Options{})

	embedded := newStory(t, engine, engine, nil)
	actual := newStory(t, atOnce{local.Client}, localStreams(local), embedded.steps)
	want, got := embedded.dump(engine), actual.dump(local.Client)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(
		types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberM{}, types.AttributeValueMemberL{},
		types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberSS{},
	)); diff != "" {
		t.Errorf("%d items in the embedded engine, %d in DynamoDB Local (+):\n%s", len(want), len(got), diff)
	}
	if diff := cmp.Diff(embedded.sum, actual.sum); diff != "" {
		t.Errorf("done in the embedded engine, and in DynamoDB Local (+):\n%s", diff)
	}
	// The story covers all the work of an aggregator.
	pages := 0
	for key := range want {
		if strings.Contains(key, "/USAGE#"+testbed.Resource) {
			pages++
		}
	}
	if s := embedded.sum; s.Refills < 4 || s.Doublings != 2 || s.Mends == 0 || pages != 2 {
		t.Errorf("too little was done: %d pages, %+v", pages, s)
	}
}

// atOnce is the client of a server that uses the story's clock, like an engine in the same
// process: stores take the time from the story, not from response dates.
type atOnce struct{ *dynamodb.Client }

func (atOnce) Immediate() bool { return true }

// A story is a world in which events happen one after another, at instants of its own.
type story struct {
	*world

	at      time.Time
	steps   []int // number of records that each step has left in the stream
	wait    []int // the same from the previous story; nil for the first
	pending []stream.Record
	sum     aggregator.Result
}

// newStory plays the story.
func newStory(t *testing.T, api dynamo.API, streams stream.API, wait []int) *story {
	t.Helper()
	// Later than any test, so that nothing expires by an engine's clock.
	s := &story{at: time.Date(2100, 2, 28, 23, 40, 0, 0, time.UTC), wait: wait}
	var dice atomic.Int64
	s.world = newWorldOn(t, testbed.Options{
		API: api, Store: dynamo.Options{Now: func() time.Time { return s.at }},
		Limiter: limiter.Options{Rand: func(n int64) int64 { return dice.Add(7) % n }},
	}, streams)
	s.at = s.at.Add(time.Second) // event IDs sort by their milliseconds and by store
	s.tell()
	return s
}

// step runs one event and reads its records from the stream. Limiters live for one step:
// closing a limiter waits for its background work.
func (s *story) step(f func(l *limiter.Limiter)) {
	s.Helper()
	l, err := limiter.New(s.Store, limiter.Options{Rand: s.options.Rand, InFlight: -1})
	s.Must(err)
	f(l)
	s.Must(l.Close())
	s.read()
	s.at = s.at.Add(700 * time.Millisecond)
}

// read reads the records of the last step.
func (s *story) read() {
	s.Helper()
	records := s.drain()
	if i := len(s.steps); s.wait != nil {
		if i >= len(s.wait) {
			s.Fatalf("a step more than the %d of the other story", i)
		}
		for late := time.Now().Add(30 * time.Second); len(records) < s.wait[i] && time.Now().Before(late); {
			records = append(records, s.drain()...) // the stream lags behind
		}
		if len(records) != s.wait[i] {
			s.Fatalf("step %d left %d records, and %d in the other engine", i, len(records), s.wait[i])
		}
	}
	s.steps = append(s.steps, len(records))
	slices.SortStableFunc(records, func(a, b stream.Record) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return stream.CompareSequences(a.Sequence, b.Sequence)
	})
	for i := range records {
		r := &records[i]
		r.At = s.at.Truncate(time.Second)
	}
	s.pending = append(s.pending, records...)
}

// process processes the records read so far, in batches of size records. Each batch also
// repeats the end of the previous one.
func (s *story) process(size int) {
	s.Helper()
	again := 0
	for len(s.pending) > again {
		n := min(len(s.pending), again+size)
		res := s.world.process(slices.Clone(s.pending[:n]))
		s.sum.Records += res.Records
		s.sum.Buckets += res.Buckets
		s.sum.Pages += res.Pages
		s.sum.Refills += res.Refills
		s.sum.Doublings += res.Doublings
		s.sum.Mends += res.Mends
		again = min(3, n)
		s.pending = s.pending[n-again:]
	}
	s.pending = nil
	s.read()
}

// startAggregator replaces the aggregator. After a doubling its limiter lets a bucket
// settle, by a clock that is not the story's; a new limiter does not wait.
func (s *story) startAggregator() {
	s.aggregator = s.aggregate(aggregator.Options{Now: s.now, Concurrency: 1})
}

func (s *story) tell() {
	s.Helper()
	s.startAggregator()
	s.step(func(*limiter.Limiter) {
		s.System(limiter.PerMinute("rpm", 600), limiter.PerHour("tph", 90_000))
		for _, e := range []limiter.Entity{{ID: "team"}, {ID: "key", Parent: "team", Cascade: true}, {ID: "leaver"}} {
			_, err := s.Store.CreateEntity(s.Context(), e)
			s.Must(err)
		}
		for _, entity := range []string{"bursts", "hot"} {
			s.Must(s.Store.SetLimits(s.Context(), limiter.ConfigKey{Entity: entity, Resource: "gpt-4"}, []limiter.Limit{limiter.PerSecond("rps", 600), limiter.PerDay("rpd", 1_000_000)}))
		}
	})
	for i := range 24 {
		s.step(func(l *limiter.Limiter) { s.Take(l, askAll("user", tokens{"rpm": 40, "tph": 500})) })
		s.step(func(l *limiter.Limiter) { s.Take(l, ask("key", "rpm", 1)) })
		s.step(func(l *limiter.Limiter) { s.Take(l, ask("leaver", "tph", 7)) })
		s.step(func(l *limiter.Limiter) {
			lease, err := l.Acquire(s.Context(), askAll("user", tokens{"rpm": 2, "tph": 100}))
			s.Must(err)
			s.settle(lease, "tph", i)
		})
		if i%6 == 5 {
			s.step(func(l *limiter.Limiter) { s.Take(l, askAll("bursts", tokens{"rps": 400, "rpd": 3})) })
			s.process(7)
			s.at = s.at.Add(13 * time.Minute) // into the next hour, day and month
		}
	}
	// Pressed, so that it is doubled, twice; the aggregator's own writes are read too.
	for shard := range 2 {
		s.step(func(l *limiter.Limiter) { s.Take(l, askAll("hot", tokens{"rps": 90, "rpd": 900})) })
		s.step(func(*limiter.Limiter) {
			s.set("hot", shard, map[string]int64{schema.WCUTokens: 90_000, schema.RF: s.at.UnixMilli()})
		})
		s.process(100)
		s.process(100)
		s.startAggregator()
		s.at = s.at.Add(time.Minute)
	}
	// A half-finished doubling.
	s.step(func(*limiter.Limiter) { s.set("user", 0, map[string]int64{schema.ShardCount: 4}) })
	s.process(100)
	s.step(func(l *limiter.Limiter) { s.Take(l, askAll("user", tokens{"rpm": 3, "tph": 3})) })
	s.step(func(l *limiter.Limiter) { s.Take(l, ask("leaver", "rpm", 5)) })
	s.step(func(*limiter.Limiter) { s.drop("bursts") }) // as when it expires; with hours of two months
	s.step(func(*limiter.Limiter) {
		_, err := s.Store.DeleteEntity(s.Context(), "leaver") // with its usage
		s.Must(err)
	})
	s.process(5)
	s.process(5)
}

// A scanner is what both engines offer beyond a store's needs.
type scanner interface {
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// dump is the whole table by key, with names in place of random values.
func (s *story) dump(from scanner) map[string]schema.Item {
	s.Helper()
	var items []map[string]types.AttributeValue
	name := table
	for in := (&dynamodb.ScanInput{TableName: &name}); ; {
		out, err := from.Scan(s.Context(), in)
		s.Must(err)
		items = append(items, out.Items...)
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			break
		}
	}
	_, ns := s.Store.Namespace()
	replace := []string{ns, "(namespace)"}
	var events []string
	for _, it := range items {
		if id, ok := it[schema.EventID].(*types.AttributeValueMemberS); ok {
			events = append(events, id.Value)
		}
		if id, ok := it[schema.PInc].(*types.AttributeValueMemberS); ok && schema.KeyOf(it).SK == schema.MetaSK {
			replace = append(replace, id.Value, "(life of "+strings.TrimPrefix(schema.KeyOf(it).PK, ns)+")")
		}
	}
	slices.Sort(events)
	for i, id := range events {
		replace = append(replace, id, fmt.Sprintf("(event %d)", i))
	}
	named := strings.NewReplacer(replace...)
	all := map[string]schema.Item{}
	for _, it := range items {
		it = rename(it, named)
		all[schema.KeyOf(it).String()] = it
	}
	return all
}

// partition is the end of the spread index keys of a bucket.
var partition = regexp.MustCompile(`(/RESOURCE#[^#]+|/NAMESPACE)#\d+$`)

// rename replaces parts of all strings of an item, and leaves out what has the random names of processes.
func rename(it schema.Item, named *strings.Replacer) schema.Item {
	out := make(schema.Item, len(it))
	for attr, v := range it {
		switch v := v.(type) {
		case *types.AttributeValueMemberN:
			if !strings.HasPrefix(attr, schema.PositionAttr("")) { // which of them a write removes depends on the names
				out[attr] = v
			}
		case *types.AttributeValueMemberS:
			text := v.Value
			if attr == schema.GSI2PK || attr == schema.GSI4PK { // the partition depends on the namespace's random ID
				text = partition.ReplaceAllString(text, "$1#(partition)")
			}
			out[attr] = schema.S(named.Replace(text))
		case *types.AttributeValueMemberM:
			out[attr] = &types.AttributeValueMemberM{Value: rename(v.Value, named)}
		default:
			out[attr] = v
		}
	}
	return out
}
