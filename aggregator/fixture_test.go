package aggregator_test

import (
	"context"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

const table = testbed.Table

var (
	ask    = testbed.Ask
	askAll = testbed.AskAll
)

type tokens = testbed.Tokens

// A world is a table with a stream, and an aggregator of its records.
type world struct {
	*testbed.World
	streams    stream.API
	books      *books
	aggregator *aggregator.Aggregator

	now     func() time.Time // of the aggregators; nil is time.Now
	options limiter.Options  // of the limiters

	arn   *string
	after map[string]string // last sequence number drained, by stream shard
}

func newWorld(t *testing.T) *world {
	t.Helper()
	engine := testbed.NewEngine(t, dynamolite.Options{})
	return newWorldOn(t, testbed.Options{API: engine}, engine)
}

// newWorldOn makes a table with a stream on an API, its limiters and its aggregator.
func newWorldOn(t *testing.T, o testbed.Options, streams stream.API) *world {
	t.Helper()
	o.Store.Principal = "tester"
	o.Table = dynamo.TableOptions{Stream: true, IndexKeys: o.Table.IndexKeys, Now: o.Store.Now, Principal: o.Store.Principal}
	w := &world{
		World: testbed.New(t, o), streams: streams, now: o.Store.Now, options: o.Limiter,
		books: &books{}, after: map[string]string{},
	}
	out, err := w.API.DescribeTable(w.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	w.Must(err)
	w.arn = out.Table.LatestStreamArn
	w.aggregator = w.aggregate(aggregator.Options{Now: w.now})
	return w
}

// aggregate makes an aggregator of the world's table.
func (w *world) aggregate(o aggregator.Options) *aggregator.Aggregator {
	w.Helper()
	o.Rand = w.options.Rand
	a, err := aggregator.New(func(ctx context.Context, id string) (aggregator.Namespace, error) {
		s, err := dynamo.OpenID(ctx, w.StoreOptions(dynamo.Options{}), id)
		if err != nil {
			return aggregator.Namespace{}, err
		}
		ns := aggregator.Namespace{Store: s, Usage: &ledger{w.books, s}}
		if s.IndexKeys() == dynamo.SharedKeys {
			ns.Peers = s.Usage()
		}
		return ns, nil
	}, o)
	w.Must(err)
	w.Cleanup(a.Close)
	return a
}

// drain reads the records since the last call.
func (w *world) drain() (records []stream.Record) {
	w.Helper()
	d, err := w.streams.DescribeStream(w.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: w.arn})
	w.Must(err)
	for _, sh := range d.StreamDescription.Shards {
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: w.arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if after := w.after[*sh.ShardId]; after != "" {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &after
		}
		it, err := w.streams.GetShardIterator(w.Context(), in)
		w.Must(err)
		for next := it.ShardIterator; next != nil; {
			page, err := w.streams.GetRecords(w.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: next})
			w.Must(err)
			if len(page.Records) == 0 {
				break
			}
			records = append(records, stream.Decode(page.Records)...)
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
	w.Must(err)
	if len(res.Failed) > 0 || len(res.Poisoned) > 0 || res.Errors > 0 {
		w.Fatalf("failed %v, poisoned %v, %d errors", res.Failed, res.Poisoned, res.Errors)
	}
	return res
}

// books check what is saved.
type books struct {
	mu sync.Mutex
	// fail, if not nil, returns the error for diaries, nil if there is none.
	fail  func([]usage.Diary) error
	calls int
}

func (b *books) note(all []usage.Diary) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.fail == nil {
		return nil
	}
	return b.fail(all)
}

// A ledger saves in a store, unless the books make it fail.
type ledger struct {
	*books
	store *dynamo.Store
}

func (l *ledger) Save(ctx context.Context, all ...usage.Diary) error {
	if err := l.note(all); err != nil {
		return err
	}
	return l.store.Usage().Save(ctx, all...)
}

// drop deletes the buckets of entities, as the table does on expiry.
func (w *world) drop(entities ...string) {
	w.Helper()
	_, ns := w.Store.Namespace()
	for _, entity := range entities {
		for _, img := range w.Images(entity) {
			_, err := w.API.BatchWriteItem(w.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
				table: {{DeleteRequest: &types.DeleteRequest{Key: schema.BucketKey(ns, img.Bucket).Item()}}},
			}})
			w.Must(err)
		}
	}
}

// total is the usage of an entity in windows of a kind, as text.
func (w *world) total(s *dynamo.Store, q usage.Query) string {
	w.Helper()
	sum, err := s.Usage().Sum(w.Context(), q)
	w.Must(err)
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
