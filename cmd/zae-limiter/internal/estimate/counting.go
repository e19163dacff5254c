package estimate

import (
	"context"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// A counting is an aggregator that gets the table's records as its function does on AWS: those that
// pass the filters, with a call when a batch is full, or when its first record is as old as the
// batch window.
type counting struct {
	r          *rehearsal
	aggregator *aggregator.Aggregator
	meter      *dynamo.Meter // of what the aggregator sends
	// next are the iterators of the engine's stream shards.
	next map[string]*string
	// shards are the batches that fill up, by stream shard: AWS has one for each partition.
	shards  []batch
	records atomic.Int64 // that pass the filters
	batches atomic.Int64 // calls of the function
	writes  int          // to items
	began   time.Time    // of the counting

	stop    func()
	stopped chan struct{}
	failed  error // why it ended
}

type batch struct {
	records []stream.Record
	first   time.Time // when the first of them was read
}

// follow starts an aggregator.
func (r *rehearsal) follow(ctx context.Context) *counting {
	c := &counting{
		r: r, meter: dynamo.NewMeter(r.engine), next: map[string]*string{},
		began:   r.now(),
		stopped: make(chan struct{}),
	}
	stopping, stop := context.WithCancel(ctx)
	c.stop = stop
	c.aggregator, c.failed = aggregator.New(c.open, aggregator.Options{})
	go func() {
		defer close(c.stopped)
		if c.failed == nil {
			c.failed = c.follow(ctx, stopping.Done())
		}
	}()
	return c
}

// open opens the namespace of records.
func (c *counting) open(ctx context.Context, id string) (of aggregator.Namespace, err error) {
	s, err := dynamo.OpenID(ctx, dynamo.Options{API: c.meter, Table: table}, id)
	if err != nil {
		return of, err
	}
	return aggregator.Namespace{Store: s, Usage: s.Usage()}, nil
}

// end lets the aggregator process what is left.
func (c *counting) end() error {
	c.stop()
	<-c.stopped
	return c.failed
}

// close ends what the aggregator has begun.
func (c *counting) close() {
	c.stop()
	<-c.stopped
	if c.aggregator != nil {
		c.aggregator.Close()
	}
}

// follow reads the stream, about as often as AWS Lambda does.
func (c *counting) follow(ctx context.Context, stopping <-chan struct{}) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		isLast := false
		select {
		case <-tick.C:
		case <-stopping:
			isLast = true
		}
		if err := c.read(ctx); err != nil {
			return err
		}
		for i := range c.shards {
			if err := c.deliver(ctx, &c.shards[i], isLast); err != nil {
				return err
			}
		}
		if isLast {
			return nil
		}
	}
}

// deliver calls the function with the batches that are due.
func (c *counting) deliver(ctx context.Context, b *batch, isLast bool) error {
	f := &c.r.o.Function
	for len(b.records) > 0 {
		if len(b.records) < f.BatchRecords && !isLast && c.r.now().Sub(b.first) < f.BatchWindow {
			return nil
		}
		n := min(len(b.records), f.BatchRecords)
		c.batches.Add(1)
		if _, err := c.aggregator.Process(ctx, b.records[:n]); err != nil {
			return err
		}
		b.records = slices.Clone(b.records[n:])
		b.first = c.r.now()
	}
	return nil
}

// read reads what was written since the last time, in the order of the writes.
func (c *counting) read(ctx context.Context) error {
	arn, shards, err := c.describe(ctx)
	if err != nil {
		return err
	}
	var records []stream.Record
	for _, sh := range shards {
		id := aws.ToString(sh.ShardId)
		if _, known := c.next[id]; !known {
			it, err := c.r.engine.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
				StreamArn: arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
			})
			if err != nil {
				return err
			}
			c.next[id] = it.ShardIterator
		}
		more, err := c.drain(ctx, id)
		if err != nil {
			return err
		}
		records = append(records, more...)
	}
	slices.SortFunc(records, func(a, b stream.Record) int { return stream.CompareSequences(a.Sequence, b.Sequence) })
	c.spread(records)
	return nil
}

// drain reads the rest of a shard of the engine's stream.
func (c *counting) drain(ctx context.Context, shard string) (records []stream.Record, err error) {
	for c.next[shard] != nil {
		page, err := c.r.engine.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: c.next[shard]})
		if err != nil {
			return nil, err
		}
		if c.next[shard] = page.NextShardIterator; len(page.Records) == 0 {
			break
		}
		c.writes += len(page.Records)
		for _, r := range stream.Decode(page.Records) {
			if Reaches(&r) {
				records = append(records, r)
			}
		}
	}
	return records, nil
}

func (c *counting) describe(ctx context.Context) (arn *string, shards []streamtypes.Shard, err error) {
	t, err := c.r.engine.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if err != nil {
		return nil, nil, err
	}
	arn = t.Table.LatestStreamArn
	d, err := c.r.engine.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	if err != nil {
		return nil, nil, err
	}
	return arn, d.StreamDescription.Shards, nil
}

// Reaches reports whether a bucket's record passes the filters of the stack's event source mapping:
// that of a deletion, of several shards, or of a hidden write limit whose stored number begins
// with 1 (ADR 020).
func Reaches(r *stream.Record) bool {
	if r.New == nil {
		return r.Old != nil
	}
	return r.New.ShardCount != 1 || strings.HasPrefix(strconv.FormatInt(r.New.Writes.Tokens, 10), "1")
}

// spread adds records to the batches of the stream shards. A partition takes so many writes a
// second, and has a stream shard.
func (c *counting) spread(records []stream.Record) {
	const perPartition = 1000
	c.records.Add(int64(len(records)))
	seconds := max(1, c.r.now().Sub(c.began).Seconds())
	for partitions := 1 + int(float64(c.writes)/seconds/perPartition); len(c.shards) < partitions; {
		c.shards = append(c.shards, batch{})
	}
	for _, r := range records {
		b := &c.shards[int(crc32.ChecksumIEEE([]byte(r.Key)))%len(c.shards)]
		if len(b.records) == 0 {
			b.first = c.r.now()
		}
		b.records = append(b.records, r)
	}
}
