package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

var errLost = errors.New("connection reset by peer")

// flaky loses writes of pages, answers to them, and reads of namespaces.
func flaky(dice *rand.Rand) faults.Hook {
	var mu sync.Mutex
	roll := func(sides int) bool {
		mu.Lock()
		defer mu.Unlock()
		return dice.IntN(sides) == 0
	}
	return func(ctx context.Context, c *faults.Call, next faults.Next) error {
		ofUsage := savesPages(c.Input)
		if ofUsage && roll(3) || c.Op == faults.GetItem && roll(8) {
			return errLost
		}
		err := next(ctx)
		if ofUsage && err == nil && roll(3) {
			return errLost
		}
		return err
	}
}

func savesPages(request any) bool {
	isPage := func(it schema.Item) bool { return strings.Contains(schema.KeyOf(it).PK, "/USAGE#") }
	switch in := request.(type) {
	case *dynamodb.PutItemInput:
		return isPage(in.Item)
	case *dynamodb.UpdateItemInput:
		return isPage(in.Key)
	case *dynamodb.BatchWriteItemInput:
		return slices.ContainsFunc(in.RequestItems[table], func(w types.WriteRequest) bool { return w.PutRequest != nil && isPage(w.PutRequest.Item) })
	}
	return false
}

// An account is the oracle's record of what one entity used in one hour.
type account struct {
	entity string
	hour   time.Time
}

type used struct {
	events int64
	tokens map[string]int64
}

// A lossy is a history, with the order in which its records are delivered.
type lossy struct {
	*world
	dice *rand.Rand

	want     map[account]*used
	poisoned map[string]bool // sequence numbers; true once reported
	lanes    [][]stream.Record
	done     []int // processed records, by lane
	mu       sync.Mutex
}

// uses notes what an entity is about to acquire and keep.
func (l *lossy) uses(entity string, tokens map[string]int64) {
	key := account{entity, time.Now().UTC().Truncate(time.Hour)}
	if l.want[key] == nil {
		l.want[key] = &used{tokens: map[string]int64{}}
	}
	l.want[key].events++
	for limit, n := range tokens {
		l.want[key].tokens[limit] += n
	}
}

// poison makes an item unreadable, or readable again. The next record is of this write and
// can never be read.
func (l *lossy) poison(bucket limiter.Bucket, rf types.AttributeValue) {
	l.Helper()
	_, ns := l.Store.Namespace()
	name, update := table, "SET rf = :rf"
	_, err := l.API.UpdateItem(l.Context(), &dynamodb.UpdateItemInput{
		TableName: &name, Key: schema.BucketKey(ns, bucket).Item(),
		UpdateExpression: &update, ExpressionAttributeValues: map[string]types.AttributeValue{":rf": rf},
	})
	l.Must(err)
}

// live plays the history.
func (l *lossy) live() {
	l.Helper()
	l.System(limiter.PerDay("rpd", 1_000_000), limiter.PerDay("tpd", 1_000_000))
	for _, e := range []limiter.Entity{{ID: "team"}, {ID: "key", Parent: "team", Cascade: true}} {
		_, err := l.Store.CreateEntity(l.Context(), e)
		l.Must(err)
	}
	l.uses("wide", map[string]int64{"rpd": 1000})
	l.Take(l.Limiter, ask("wide", "rpd", 1))
	l.set("wide", 0, map[string]int64{schema.ShardCount: 4})
	l.Must(l.NewKeeper(l.Store, process.Options{}).Mend(l.Context(), limiter.Bucket{Entity: "wide", Resource: "gpt-4"}))
	for i := range 60 {
		n := 1 + l.dice.Int64N(500)
		switch entity := []string{"wide", "wide", "solo", "key"}[l.dice.IntN(4)]; l.dice.IntN(6) {
		case 0: // taken and returned: two writes, of which the first is an acquire
			l.uses(entity, nil)
			lease, err := l.Acquire(l.Context(), askAll(entity, tokens{"rpd": 1, "tpd": n}))
			l.Must(err)
			l.Must(lease.Rollback(l.Context()))
			if entity == "key" {
				l.uses("team", nil)
			}
		case 1: // poison on its own item, or for a while on an item in use
			if l.dice.IntN(2) == 0 {
				l.poison(limiter.Bucket{Entity: fmt.Sprint("mallory", i), Resource: "gpt-4"}, schema.S("yesterday"))
				break
			}
			images := l.Images("wide")
			if len(images) == 0 {
				break
			}
			img := images[l.dice.IntN(len(images))]
			l.poison(img.Bucket, schema.S("tomorrow"))
			l.poison(img.Bucket, schema.N(img.RefilledAt))
		case 2:
			l.drop([]string{"solo", "wide"}[l.dice.IntN(2)])
		default:
			milli := tokens{"rpd": 1000, "tpd": n * 1000}
			l.uses(entity, milli)
			l.Take(l.Limiter, askAll(entity, tokens{"rpd": 1, "tpd": n}))
			if entity == "key" {
				l.uses("team", milli)
			}
		}
		time.Sleep(time.Duration(l.dice.IntN(400)) * time.Second)
	}
}

// split distributes the records of the stream over lanes. All records of an item are in one
// lane, as in a shard of a stream. Half of those of writes are lost.
func (l *lossy) split(lanes int) {
	l.Helper()
	l.lanes, l.done = make([][]stream.Record, lanes), make([]int, lanes)
	for _, r := range l.drain() {
		if r.New != nil && l.dice.IntN(2) == 0 {
			continue
		}
		if r.Err != nil {
			l.poisoned[r.Sequence] = false
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(r.Key))
		lane := int(h.Sum32()) % lanes
		l.lanes[lane] = append(l.lanes[lane], r)
	}
}

// deliver delivers the next batch of a lane. The batch begins some records early; some
// records come twice and in another order. deliver then moves on past what was processed;
// failed records come again with the following ones, or by themselves.
func (l *lossy) deliver(a *aggregator.Aggregator, lane int, dice *rand.Rand) {
	records, done := l.lanes[lane], l.done[lane]
	from, to := max(0, done-dice.IntN(8)), min(len(records), done+1+dice.IntN(25))
	batch := slices.Clone(records[from:to])
	if dice.IntN(2) == 0 {
		batch = append(batch, records[from:done]...)
		dice.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	}
	failed := l.processed(a, batch)
	if dice.IntN(2) == 0 {
		for tries := 0; len(failed) > 0 && tries < 3; tries++ {
			failed = l.processed(a, failed)
		}
	}
	again := map[string]bool{}
	for i := range failed {
		again[failed[i].Sequence] = true
	}
	for l.done[lane] < to && !again[records[l.done[lane]].Sequence] {
		l.done[lane]++
	}
	// A failed record at or after the new position comes again. One before it must not be
	// lost either.
	if i := slices.IndexFunc(records[:l.done[lane]], func(r stream.Record) bool { return again[r.Sequence] }); i >= 0 {
		l.done[lane] = i
	}
}

// processed processes a batch and returns its failed records. The result must name exactly
// the poisoned records.
func (l *lossy) processed(a *aggregator.Aggregator, batch []stream.Record) (failed []stream.Record) {
	res, err := a.Process(l.Context(), batch)
	l.Check(err)
	named := map[int]bool{}
	l.mu.Lock()
	for _, f := range res.Poisoned {
		named[f.Index] = true
		l.poisoned[f.Sequence] = true
	}
	l.mu.Unlock()
	for i := range batch {
		if named[i] != (batch[i].Err != nil) {
			l.Errorf("record %d: named %t, poisoned %v", i, named[i], batch[i].Err)
		}
	}
	if len(named) != len(res.Poisoned) {
		l.Errorf("%d poisoned records, named %d times", len(named), len(res.Poisoned))
	}
	for _, f := range res.Failed {
		if !errors.Is(f.Err, limiter.ErrUnavailable) || batch[f.Index].Err != nil {
			l.Errorf("failed: %+v", f)
		}
		failed = append(failed, batch[f.Index])
	}
	return failed
}

// Usage equals consumption if the stream shows the deletions, even twice, late, or in
// another order, whatever else it loses. The same holds if the aggregator loses its memory,
// or if records cannot be read.
func TestUsageIsExactWhateverHappens(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			loss := &faults.Slot{}
			w.API = faults.Wrap(w.API, loss.Apply)
			l := &lossy{world: w, dice: rand.New(rand.NewPCG(seed, 6)), want: map[account]*used{}, poisoned: map[string]bool{}}
			l.live()
			l.split(1 + int(seed%4))

			loss.Set(flaky(rand.New(rand.NewPCG(seed, 7))))
			a := w.aggregate(aggregator.Options{})
			for round := 0; ; round++ {
				switch round {
				case 200:
					loss.Set(nil) // no more faults from here on
				case 400:
					t.Fatalf("seed %d: the records never are taken in", seed)
				}
				var open []int
				for lane := range l.lanes {
					if l.done[lane] < len(l.lanes[lane]) {
						open = append(open, lane)
					}
				}
				if len(open) == 0 {
					break
				}
				l.dice.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
				var together sync.WaitGroup
				for _, lane := range open[:1+l.dice.IntN(len(open))] {
					dice := rand.New(rand.NewPCG(seed, l.dice.Uint64()))
					together.Go(func() { l.deliver(a, lane, dice) })
				}
				together.Wait()
				if l.dice.IntN(4) == 0 { // the process is gone, with its memory
					a = w.aggregate(aggregator.Options{})
				}
			}
			loss.Set(nil)
			l.judge(seed)
		})
	}
}

// judge compares the usage with the consumption.
func (l *lossy) judge(seed uint64) {
	l.Helper()
	for _, sequence := range slices.Sorted(maps.Keys(l.poisoned)) {
		if !l.poisoned[sequence] {
			l.Errorf("seed %d: poisoned record %s was never named", seed, sequence)
		}
	}
	got := map[account]string{}
	for _, entity := range []string{"wide", "solo", "key", "team"} {
		page, err := l.Store.Usage().Read(l.Context(), usage.Query{Entity: entity, Window: usage.Hourly, Limit: usage.MaxLimit, Now: true})
		l.Must(err)
		for _, u := range page.Snapshots {
			tokens := map[string]*big.Int{}
			for _, a := range u.Tokens {
				if a.Milli.Sign() != 0 {
					tokens[a.Limit] = a.Milli
				}
			}
			got[account{entity, u.Start}] = fmt.Sprint(u.Events, tokens)
		}
	}
	for key, u := range l.want {
		if want := fmt.Sprint(u.events, u.tokens); got[key] != want {
			l.Errorf("seed %d: %s at %v: the usage is %s, consumed %s", seed, key.entity, key.hour, got[key], want)
		}
		delete(got, key)
	}
	for key, u := range got {
		l.Errorf("seed %d: %s at %v: the usage is %s, consumed nothing", seed, key.entity, key.hour, u)
	}
}
