package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// A tail is the streams' API as one process sees it: the seed's stream over the process's
// link.
type tail struct {
	*recording
	l *link
}

var _ stream.API = tail{}

// tailed is one request of it. Requests change nothing, so that a lost request simply
// fails.
func tailed[Out any](ctx context.Context, t tail, op, target string, answer func() (*Out, error)) (*Out, error) {
	w, c := t.l.w, t.l.c
	r := w.stream(strings.Join([]string{c.name, op, target}, " ")).stream()
	there, f := w.odds.latency(r)+w.odds.latency(r), w.odds.draw(r)
	if w.calm.Load() != nil {
		there, f = time.Duration(1+r.IntN(500)), arrives
	}
	switch {
	case c.standsStill():
		return nil, c.gone()
	case f == crashesBefore || f == crashesAfter:
		c.crash()
		return nil, c.gone()
	case f == hangsOn:
		there = time.Hour
	}
	switch {
	case !t.l.wait(ctx, there):
		return nil, c.answer(operationError(op, &smithy.CanceledError{Err: ctx.Err()}))
	case c.standsStill():
		return nil, c.gone()
	case f == isThrottled || f == isConflict:
		return nil, operationError(op, &streamtypes.LimitExceededException{Message: aws.String("slow down")})
	case f != arrives:
		return nil, operationError(op, errLost(r))
	case op == "GetRecords" && chance(r, 0.01):
		return nil, operationError(op, &streamtypes.ExpiredIteratorException{Message: aws.String("ask for another one")})
	}
	return answer()
}

func (t tail) DescribeStream(ctx context.Context, _ *dynamodbstreams.DescribeStreamInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	return tailed(ctx, t, "DescribeStream", "", func() (*dynamodbstreams.DescribeStreamOutput, error) {
		d := &streamtypes.StreamDescription{StreamArn: t.arn}
		for shard := range t.shards {
			d.Shards = append(d.Shards, streamtypes.Shard{ShardId: aws.String(strconv.Itoa(shard))})
		}
		return &dynamodbstreams.DescribeStreamOutput{StreamDescription: d}, nil
	})
}

func (t tail) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	return tailed(ctx, t, "GetShardIterator", *in.ShardId, func() (*dynamodbstreams.GetShardIteratorOutput, error) {
		shard, err := strconv.Atoi(*in.ShardId)
		must(err)
		place := 0
		if in.ShardIteratorType == streamtypes.ShardIteratorTypeAfterSequenceNumber {
			place = t.after(shard, *in.SequenceNumber)
		}
		return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: iterator(shard, place)}, nil
	})
}

func iterator(shard, place int) *string { return aws.String(fmt.Sprintf("%d %d", shard, place)) }

func (t tail) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	var shard, place int
	_, err := fmt.Sscan(*in.ShardIterator, &shard, &place)
	must(err)
	return tailed(ctx, t, "GetRecords", strconv.Itoa(shard), func() (*dynamodbstreams.GetRecordsOutput, error) { //nolint:contextcheck // the link does not see this read of the engine
		records := t.told(shard, place, int(*in.Limit))
		return &dynamodbstreams.GetRecordsOutput{Records: records, NextShardIterator: iterator(shard, place+len(records))}, nil
	})
}

// told returns up to n records of a shard from a position, in the engine's form.
func (s *recording) told(shard, place, n int) []streamtypes.Record {
	s.from(shard, 0, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.raw[shard]
	return all[min(place, len(all)):min(place+n, len(all))]
}

// after is the position in a shard after a sequence number.
func (s *recording) after(shard int, sequence string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, _ := slices.BinarySearchFunc(s.raw[shard], sequence, func(r streamtypes.Record, sequence string) int {
		if stream.CompareSequences(*r.Dynamodb.SequenceNumber, sequence) > 0 {
			return 1
		}
		return -1
	})
	return place
}

// tail follows the stream as a process does: with a [stream.Follower], which keeps its
// position in the table. tail stops it during long pauses, and restarts it, also after a
// crash.
func (f *follower) tail(stop <-chan struct{}) {
	r := f.w.dice.stream("follower", f.name)
	const long = 3 * time.Minute
	for life := 0; ; life++ {
		one := f.begin(fmt.Sprintf("%s.%d", f.name, life))
		ended := one.run(r.Int64N(2) == 0)
		t := time.NewTimer(f.w.unique(pick(r, 5*time.Second, 30*time.Second, long)))
		stopped := false
		select {
		case <-stop:
			stopped = true
		case <-one.c.dead:
		case <-t.C:
		}
		t.Stop()
		ended()
		away := span(r, time.Second, 30*time.Second)
		for _, at := range f.start {
			if left := at - f.w.now(); left > long && !one.c.standsStill() {
				away = left
				break
			}
		}
		t = time.NewTimer(f.w.unique(away))
		if !stopped {
			select {
			case <-stop:
				stopped = true
			case <-t.C:
			}
		}
		t.Stop()
		if stopped {
			return
		}
	}
}

// run follows the stream until its result is called. The result returns when the follower
// has ended or crashed.
func (r *reader) run(brisk bool) (end func()) {
	o := stream.Options{
		API: r.c.api(), Table: tableName, Now: r.c.clock,
		Streams: tail{r.stream, &link{r.w, r.c}}, Batch: 20, Poll: 3 * time.Second,
	}
	if brisk {
		o.Batch, o.Poll, o.Checkpoint = 200, 300*time.Millisecond, time.Second
	}
	f, err := stream.NewFollower(o)
	must(err)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), callKey{}, &call{name: r.c.name, kind: administering, client: r.c}))
	ended := make(chan error, 1)
	r.workers.Go(func() { ended <- r.a.Follow(ctx, f) })
	return func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, errCrashed) {
				r.w.violate("usage", r.w.now(), nil, "%s gave up: %v", r.c.name, err)
			}
		case <-r.c.dead:
		}
	}
}
