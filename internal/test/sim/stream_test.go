package sim_test

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// A recording is the content of the engine's stream so far, divided into shards by the seed:
// the engine's own shards depend on keys with a random id.
type recording struct {
	db   *link
	arn  *string
	read map[string]string // last number read of each engine shard; "" at its end

	mu     sync.Mutex
	until  int // number of applied requests when it was read
	shards [][]stream.Record
	raw    [][]streamtypes.Record
	dealt  int // ignored records that were distributed
}

func newStream(l *link, shards int) *recording {
	out, err := l.w.db.DescribeTable(context.Background(), &dynamodb.DescribeTableInput{TableName: aws.String(tableName)})
	must(err)
	return &recording{db: l, arn: out.Table.LatestStreamArn, read: map[string]string{}, shards: make([][]stream.Record, shards), raw: make([][]streamtypes.Record, shards)}
}

// from returns up to n records of a shard from a position.
func (s *recording) from(shard, place, n int) []stream.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readLocked()
	all := s.shards[shard]
	return all[min(place, len(all)):min(place+n, len(all))]
}

// readLocked reads the records since the last call.
func (s *recording) readLocked() {
	w := s.db.w
	w.mu.Lock()
	unchanged := s.until == w.applied
	s.until = w.applied
	w.mu.Unlock()
	if unchanged {
		return
	}
	ctx, db := context.Background(), w.db
	d, err := db.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: s.arn})
	must(err)
	var records []streamtypes.Record
	for _, sh := range d.StreamDescription.Shards {
		after, begun := s.read[*sh.ShardId]
		if begun && after == "" {
			continue
		}
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: s.arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if begun {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &after
		}
		it, err := db.GetShardIterator(ctx, in)
		must(err)
		next := it.ShardIterator
		for more := true; more && next != nil; {
			page, err := db.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: next})
			must(err)
			records = append(records, page.Records...)
			if more = len(page.Records) > 0; more {
				s.read[*sh.ShardId] = *page.Records[len(page.Records)-1].Dynamodb.SequenceNumber
			}
			next = page.NextShardIterator
		}
		if next == nil {
			s.read[*sh.ShardId] = ""
		}
	}
	slices.SortFunc(records, func(a, b streamtypes.Record) int {
		return stream.CompareSequences(*a.Dynamodb.SequenceNumber, *b.Dynamodb.SequenceNumber)
	})
	for i, r := range stream.Decode(records) {
		shard := s.dealt
		if img := cmp.Or(r.New, r.Old); img != nil {
			h := fnv.New32a()
			fmt.Fprintf(h, "%s %s %d", img.Entity, img.Resource, img.Shard)
			shard = int(h.Sum32())
		} else {
			s.dealt++
		}
		if r.Err != nil {
			w.violate("usage", w.now(), nil, "%s of %v cannot be read: %v", records[i].EventName, r.Key, r.Err)
		}
		shard %= len(s.shards)
		s.shards[shard] = append(s.shards[shard], r)
		s.raw[shard] = append(s.raw[shard], records[i])
	}
}

// keep reads records before the engine drops them, until the world ends.
func (s *recording) keep() {
	for {
		t := time.NewTimer(s.db.w.unique(time.Hour))
		select {
		case <-s.db.w.end:
			t.Stop()
			return
		case <-t.C:
			s.from(0, 0, 0)
		}
	}
}

// A follower is an aggregator that follows the stream, with all its lives.
type follower struct {
	*play
	name string

	mu    sync.Mutex
	taken []int // position by shard
	total aggregator.Result
}

// A reader is one life of a follower.
type reader struct {
	*follower
	c *client
	a *aggregator.Aggregator
}

// observe sums the results of batches.
func (f *follower) observe(r aggregator.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &f.total
	t.Records += r.Records
	t.Pages += r.Pages
	t.Refills += r.Refills
	t.Doublings += r.Doublings
	t.Mends += r.Mends
	t.Errors += r.Errors
	t.Failed = append(t.Failed, r.Failed...)
}

func (f *follower) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &f.total
	return fmt.Sprintf("%s: %d records, %d pages, %d refills, %d doublings, %d mends, %d errors, %d failed",
		f.name, t.Records, t.Pages, t.Refills, t.Doublings, t.Mends, t.Errors, len(t.Failed))
}

// begin starts an aggregator process. It finds its namespace by the id in the records, with
// requests that may fail like any others.
func (f *follower) begin(name string) *reader {
	c := newClient(f.w, name, f.ttl)
	c.follows = true
	broken := f.w.broken
	tended := c.through
	if broken.tender != nil {
		tended = broken.tender(clocked{c.store, c})
	}
	f.play.mu.Lock()
	f.cast = append(f.cast, c)
	f.play.mu.Unlock()
	a, err := aggregator.New(func(ctx context.Context, id string) (aggregator.Namespace, error) {
		s, err := dynamo.OpenID(ctx, dynamo.Options{API: c.api(), Table: tableName, Now: c.clock}, id)
		if err != nil {
			return aggregator.Namespace{}, err
		}
		var usage aggregator.Usage = s.Usage()
		if broken.usage != nil {
			usage = broken.usage(usage)
		}
		return aggregator.Namespace{Store: tended, Usage: usage}, nil
	}, aggregator.Options{Now: c.clock, Observe: f.observe, Rand: c.draw})
	must(err)
	c.follower = a
	return &reader{f, c, a}
}

// follow follows the stream until it is stopped. A process that crashes is started again,
// from further back.
func (f *follower) follow(stop <-chan struct{}) {
	r := f.w.dice.stream("follower", f.name)
	for life := 0; ; life++ {
		one := f.begin(fmt.Sprintf("%s.%d", f.name, life))
		done := make(chan struct{}, len(f.taken))
		for shard := range f.taken {
			f.workers.Go(func() {
				one.read(shard, stop)
				done <- struct{}{}
			})
		}
		for range f.taken {
			select {
			case <-done:
			case <-one.c.dead:
			}
		}
		if !one.c.standsStill() {
			return
		}
		f.w.sleep(span(r, time.Second, pick(r, 10*time.Second, 2*time.Minute)))
		select {
		case <-stop:
			return
		default:
		}
		f.mu.Lock()
		for shard := range f.taken {
			f.taken[shard] = max(0, f.taken[shard]-r.IntN(pick(r, 1, 30, 300)+1))
		}
		f.mu.Unlock()
	}
}

// read follows one shard.
func (r *reader) read(shard int, stop <-chan struct{}) {
	dice := r.w.dice.stream("reader", r.c.name, strconv.Itoa(shard))
	for n, idle := 0, 0; !r.c.standsStill(); n++ {
		t := time.NewTimer(r.w.unique(r.pause(dice, idle)))
		select {
		case <-stop:
			t.Stop()
			return
		case <-t.C:
		}
		idle++
		if r.deliver(dice, shard, n) {
			idle = 0
		}
	}
}

// pause is the time between two looks at a shard: longer if no records come, but not beyond
// the next round.
func (r *reader) pause(dice *rand.Rand, idle int) time.Duration {
	const patient = 20
	if idle < patient {
		return span(dice, 50*time.Millisecond, pick(dice, 500*time.Millisecond, 4*time.Second))
	}
	d := span(dice, time.Minute, 30*time.Minute)
	for _, at := range r.start {
		if left := at - r.w.now(); left > 0 {
			d = min(d, left+time.Second)
		}
	}
	return d
}

// deliver passes on the next records, and now and then some earlier ones. Failed records
// come again, with later ones or alone. It reports whether there was anything new.
func (r *reader) deliver(dice *rand.Rand, shard, n int) (came bool) {
	if o := &r.w.odds; chance(dice, o.throttled+o.unreachable+o.lostBefore+o.lostAfter+o.hangs) {
		return false // the stream could not be read
	}
	r.mu.Lock()
	place := r.taken[shard]
	r.mu.Unlock()
	before := place
	if chance(dice, 0.1) {
		place = max(0, place-dice.IntN(50))
	}
	records := r.stream.from(shard, place, pick(dice, 1, 7, 50, 1000))
	name := fmt.Sprintf("%s/%d#%d", r.c.name, shard, n)
	for tries := 0; len(records) > 0 && !r.c.standsStill(); tries++ {
		res := r.process(fmt.Sprintf("%s.%d", name, tries), records, dice)
		if r.c.standsStill() {
			break
		}
		if len(res.Failed) > 0 && chance(dice, 0.5) {
			records = onlyFailed(records, res.Failed)
			r.w.sleep(span(dice, 100*time.Millisecond, time.Second))
			continue
		}
		place += len(records)
		if len(res.Failed) > 0 {
			place += res.Failed[0].Index - len(records)
		}
		r.mu.Lock()
		r.taken[shard] = place
		r.mu.Unlock()
		break
	}
	return place > before
}

// onlyFailed empties all records except the failed ones.
func onlyFailed(records []stream.Record, failed []aggregator.Failure) []stream.Record {
	left := make([]stream.Record, len(records))
	for i := range records {
		left[i] = stream.Record{ID: records[i].ID, Sequence: records[i].Sequence, At: records[i].At}
	}
	for _, f := range failed {
		left[f.Index] = records[f.Index]
	}
	return left
}

// process passes a batch to the aggregator, with a time limit for some batches.
func (r *reader) process(name string, records []stream.Record, dice *rand.Rand) aggregator.Result {
	k := &call{name: name, kind: administering, client: r.c}
	ctx := k.begin(r.w)
	if dice != nil && chance(dice, 0.1) {
		d := r.w.unique(span(dice, 5*time.Millisecond, pick(dice, 100*time.Millisecond, 3*time.Second)))
		k.deadline = k.start + d
		limited, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		ctx = limited
	}
	res, err := r.a.Process(ctx, records)
	k.finish(r.w, err)
	return res
}

// drain processes all remaining records, without faults.
func (f *follower) drain() {
	one := f.begin(f.name + ".last")
	if f.w.odds.tailed {
		end := one.run(true)
		time.Sleep(time.Minute)
		end()
		return
	}
	const most = 1000
	for n, left := 0, true; left; n++ {
		left = false
		for shard := range f.taken {
			records := f.stream.from(shard, f.taken[shard], most)
			if len(records) == 0 {
				continue
			}
			left = true
			res := one.process(fmt.Sprintf("%s/%d#%d", one.c.name, shard, n), records, nil)
			for _, failed := range res.Failed {
				f.w.violate("usage", f.w.now(), nil, "%s: record %s was not taken in: %v", one.c.name, failed.Sequence, failed.Err)
			}
			f.taken[shard] += len(records)
		}
		if n == most {
			panic("what an aggregator writes makes it write more, without end")
		}
		f.w.sleep(time.Millisecond)
	}
}

// accompany lets the aggregators follow the stream; calling the result ends that.
func (p *play) accompany() (end func()) {
	if p.w.odds.followers == 0 {
		return func() {}
	}
	r := p.w.dice.stream("followers")
	p.stream = newStream(&link{p.w, p.admin}, pick(r, 1, 2, 4))
	p.workers.Go(p.stream.keep)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range p.w.odds.followers {
		f := &follower{play: p, name: fmt.Sprint("follower", i), taken: make([]int, len(p.stream.shards))}
		p.followers = append(p.followers, f)
		all.Go(func() {
			if p.w.odds.tailed {
				f.tail(stop)
			} else {
				f.follow(stop)
			}
		})
	}
	return func() {
		close(stop)
		all.Wait()
	}
}

// drain brings every aggregator to the end of the stream.
func (p *play) drain() {
	for _, f := range p.followers {
		f.drain()
	}
}

// aggregates describes the work of the aggregators.
func (p *play) aggregates() string {
	var b strings.Builder
	for _, f := range p.followers {
		fmt.Fprintf(&b, "; %v", f)
	}
	return b.String()
}
