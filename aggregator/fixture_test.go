package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/store"
	"github.com/zeroae/zae-limiter-go/tend"
)

const table = "limits"

// A world is a table with a stream, limiters on it, and an aggregator of its
// records.
type world struct {
	*testing.T
	api     dynamo.API
	streams stream.API
	store   *dynamo.Store
	*limiter.Limiter
	books      *books
	aggregator *aggregator.Aggregator

	now  func() time.Time    // of the stores; nil is time.Now
	rand func(n int64) int64 // of the limiters; nil is random

	arn   *string
	after map[string]string // last sequence number drained, by stream shard
}

func newWorld(t *testing.T) *world {
	t.Helper()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return newWorldOn(t, engine, engine)
}

func newWorldOn(t *testing.T, api dynamo.API, streams stream.API) *world {
	t.Helper()
	w := &world{T: t, api: api, streams: streams}
	w.begin()
	return w
}

// begin makes the table, its limiters and its aggregator.
func (w *world) begin() {
	w.Helper()
	w.books, w.after = &books{}, map[string]string{}
	w.must(dynamo.CreateTable(w.Context(), w.api, dynamo.TableOptions{Name: table, Stream: true, Now: w.now, Principal: "tester"}))
	name := table
	out, err := w.api.DescribeTable(w.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	w.must(err)
	w.arn = out.Table.LatestStreamArn
	w.store = w.open("")
	w.Limiter = w.limiter(w.store, w.options())
	w.aggregator = w.aggregate(aggregator.Options{Now: w.now})
}

// options are the options of the world's limiters.
func (w *world) options() limiter.Options { return limiter.Options{Rand: w.rand} }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) open(namespace string) *dynamo.Store {
	w.Helper()
	s, err := dynamo.Open(w.Context(), dynamo.Options{API: w.api, Table: table, Namespace: namespace, Now: w.now, Principal: "tester"})
	w.must(err)
	return s
}

func (w *world) limiter(s limiter.Store, o limiter.Options) *limiter.Limiter {
	w.Helper()
	l, err := limiter.New(s, o)
	w.must(err)
	w.Cleanup(func() { w.check(l.Close()) })
	return l
}

func (w *world) keeper(s store.Store) *tend.Keeper {
	w.Helper()
	k, err := tend.New(s, tend.Options{Rand: w.rand})
	w.must(err)
	w.Cleanup(func() { w.check(k.Close()) })
	return k
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Error(err)
	}
}

// aggregate makes an aggregator that counts in the world's table, with its own keeper for
// each namespace.
func (w *world) aggregate(o aggregator.Options) *aggregator.Aggregator {
	w.Helper()
	a, err := aggregator.New(func(ctx context.Context, id string) (aggregator.Namespace, error) {
		s, err := dynamo.OpenID(ctx, dynamo.Options{API: w.api, Table: table, Now: w.now}, id)
		if err != nil {
			return aggregator.Namespace{}, err
		}
		return aggregator.Namespace{Keeper: w.keeper(s), Usage: &ledger{w.books, s}}, nil
	}, o)
	w.must(err)
	return a
}

// drain reads the records since the last call.
func (w *world) drain() (records []stream.Record) {
	w.Helper()
	d, err := w.streams.DescribeStream(w.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: w.arn})
	w.must(err)
	for _, sh := range d.StreamDescription.Shards {
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: w.arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if after := w.after[*sh.ShardId]; after != "" {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &after
		}
		it, err := w.streams.GetShardIterator(w.Context(), in)
		w.must(err)
		for next := it.ShardIterator; next != nil; {
			page, err := w.streams.GetRecords(w.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: next})
			w.must(err)
			if len(page.Records) == 0 {
				break
			}
			records = append(records, stream.DecodeAll(page.Records)...)
			w.after[*sh.ShardId] = records[len(records)-1].Sequence
			next = page.NextShardIterator
		}
	}
	return records
}

// process processes records, none of which may fail.
func (w *world) process(records []stream.Record) aggregator.Result {
	w.Helper()
	res, err := w.aggregator.Process(w.Context(), records)
	w.must(err)
	if len(res.Failed) > 0 || len(res.Poisoned) > 0 || res.Errors > 0 {
		w.Fatalf("failed %v, poisoned %v, %d errors", res.Failed, res.Poisoned, res.Errors)
	}
	return res
}

// take acquires and commits; false means refused.
func (w *world) take(l *limiter.Limiter, entity string, limits ...any) bool {
	w.Helper()
	lease, err := l.Acquire(w.Context(), ask(entity, limits...))
	if errors.Is(err, limiter.ErrExceeded) {
		return false
	}
	w.must(err)
	w.must(lease.Commit(w.Context()))
	return true
}

func ask(entity string, limits ...any) limiter.Request {
	r := limiter.Request{Entity: entity, Resource: "gpt-4", Consume: map[string]int64{}}
	for i := 0; i < len(limits); i += 2 {
		r.Consume[limits[i].(string)] = int64(limits[i+1].(int))
	}
	return r
}

func (w *world) system(limits ...limiter.Limit) {
	w.Helper()
	w.must(w.store.SetSystem(w.Context(), limits, ""))
}

// shards are the items of a bucket.
func (w *world) shards(entity string) []*store.Image {
	w.Helper()
	images, err := w.store.Buckets(w.Context(), entity, "gpt-4", limiter.MaxShards)
	w.must(err)
	return images
}

// books check what is counted.
type books struct {
	mu sync.Mutex
	// fail, if not nil, returns the error for a delta, nil if there is none.
	fail  func(*usage.Delta) error
	calls int
}

func (b *books) note(d *usage.Delta) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.fail == nil {
		return nil
	}
	return b.fail(d)
}

// A ledger counts in a store, unless the books make it fail.
type ledger struct {
	*books
	store *dynamo.Store
}

func (l *ledger) Add(ctx context.Context, d *usage.Delta) error {
	if err := l.note(d); err != nil {
		return err
	}
	return l.store.Usage().Add(ctx, d)
}

// total is what a store has counted of an entity in windows of a kind, as text.
func (w *world) total(s *dynamo.Store, q usage.Query) string {
	w.Helper()
	sum, err := s.Usage().Sum(w.Context(), q)
	w.must(err)
	if sum.Snapshots == 0 {
		return "nothing"
	}
	tokens := map[string]*big.Int{}
	for _, l := range sum.Limits {
		if l.Total.Sign() != 0 {
			tokens[l.Limit] = l.Total
		}
	}
	return fmt.Sprint(sum.Events, tokens)
}
