package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

const tableName = testbed.Table

// A world is one run: the engine, and the record of all events.
type world struct {
	dice   dice
	start  time.Time
	db     *dynamolite.DB
	ns     string // the random id before the keys; it differs between runs and appears in no trace
	odds   odds
	broken breakage
	// recurrences are those of the quotas, in one zone.
	recurrences []*recurrence
	// timetables are those of other limits, in the same zone; edges are all of them.
	timetables []*timetable
	edges      []edger

	// end is closed at the end of the run: crashed clients stand still until then.
	end chan struct{}
	// late are requests that may take effect after their sender gave up.
	late sync.WaitGroup

	mu         sync.Mutex
	given      map[time.Duration]bool     // instants already used
	sent       map[string]int             // number of requests, by the purpose of their stream
	items      map[bucketID]*state        // their current state in the engine
	joint      map[string][]*write        // transactions by token
	hot        map[bucketID]time.Duration // items whose partition throttles, until when
	lives      map[bucketID]int
	applied    int            // requests that may have changed something
	limits     map[string]int // lives of a limit on an item
	log        []*write
	calls      []*call
	crashes    int
	violations []violation

	begun atomic.Int64 // takes that a caller carried together with one of the parent's or child's

	clocks sync.Mutex
	lo, hi time.Duration // extremes of all clock errors against the true time
	dates  map[time.Time]middleware.Metadata

	calm atomic.Pointer[time.Duration] // since when there are no faults and almost no latencies
}

// A write is a request to change a bucket item that reached the engine, in the engine's
// order.
type write struct {
	at, sent      time.Duration
	client        *client // nil for the engine's own sweep
	call          *call
	op            string
	id            bucketID
	other         *write // of a birth: the donor's write or the born shard's, or the write itself without a donor; of a merge: the other half
	joint         bool   // part of a transaction
	before, after *state
	failed        bool // the condition did not hold
}

func (w *write) String() string {
	who, what := "world", ""
	if w.client != nil {
		who = w.client.name
	}
	if w.call != nil {
		who = w.call.name
		what = " " + string(w.call.kind)
	}
	s := fmt.Sprintf("%v %s%s %s %s", w.at, who, what, w.op, w.id)
	switch {
	case w.failed:
		return s + " refused by " + w.before.String()
	case w.after == nil:
		return s + " deletes"
	}
	return s + change(w.before, w.after)
}

func newWorld(seed uint64, o odds) *world {
	w := &world{
		dice: dice(seed), start: time.Now(), db: dynamolite.New(dynamolite.Options{}), odds: o,
		end: make(chan struct{}),
		lo:  math.MaxInt64, hi: math.MinInt64,
		dates: map[time.Time]middleware.Metadata{}, given: map[time.Duration]bool{}, sent: map[string]int{},
		items: map[bucketID]*state{}, joint: map[string][]*write{}, hot: map[bucketID]time.Duration{}, lives: map[bucketID]int{}, limits: map[string]int{},
	}
	if o.quotas+o.varied != 0 {
		w.beforeAnEdge(w.dice.stream("recurrences"))
		w.start = time.Now()
	}
	return w
}

// now is the true time since the run began.
func (w *world) now() time.Duration { return time.Since(w.start) }

// unique is the wait until an unused instant, at or after d from now. Events at different
// instants happen in order, whatever the scheduler does.
func (w *world) unique(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	at := now + max(d, 1)
	for w.given[at] {
		at++
	}
	w.given[at] = true
	return at - now
}

func (w *world) sleep(d time.Duration) { time.Sleep(w.unique(d)) }

// stream is the randomness of one request.
func (w *world) stream(purpose string) dice {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[purpose]++
	return dice(w.dice.hash(purpose, strconv.Itoa(w.sent[purpose])))
}

// apply lets the engine carry out a request and records the resulting states of the bucket
// items that it names.
func (w *world) apply(ctx context.Context, ids []bucketID, rec write, do func(context.Context) error) ([]*write, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.applied++
	err := do(ctx)
	if err != nil && !isRefusal(err) {
		if len(ids) > 0 && rec.op != transacts {
			panic(fmt.Sprintf("the engine refused %s of %v: %v", rec.op, ids, err))
		}
		return nil, err
	}
	var recorded []*write
	for _, id := range ids {
		one := rec
		one.id, one.at, one.before, one.failed = id, w.now(), w.items[id], err != nil
		one.after = one.before
		if err == nil {
			one.after = w.readLocked(ctx, id, one.before)
			w.items[id] = one.after
		}
		one.joint = rec.op == transacts
		if rec.call != nil {
			one.call = rec.call.on(id)[0]
		}
		if (one.joint || one.client == nil) && (one.failed || one.before.same(one.after)) {
			continue // repeated under a token that was applied before
		}
		if one.before != nil || one.after != nil {
			w.log = append(w.log, &one)
			recorded = append(recorded, &one)
		}
	}
	pair(recorded)
	marry(recorded)
	return recorded, err
}

// isRefusal reports whether a condition failed, alone or in a transaction.
func isRefusal(err error) bool {
	failed, cancelled := (*types.ConditionalCheckFailedException)(nil), (*types.TransactionCanceledException)(nil)
	return errors.As(err, &failed) || errors.As(err, &cancelled)
}

// done returns the writes of a transaction that was applied, now or before, under this
// token.
func (w *world) done(token string, now []*write) []*write {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(now) > 0 {
		w.joint[token] = now
	}
	return w.joint[token]
}

// pair links the two halves of a birth.
func pair(joint []*write) {
	for _, born := range joint {
		if !born.joint || born.before != nil {
			continue
		}
		born.other = born
		for _, donor := range joint {
			if donor != born {
				born.other, donor.other = donor, born
			}
		}
	}
}

// readLocked reads an item from the engine and numbers its lives.
func (w *world) readLocked(ctx context.Context, id bucketID, before *state) *state {
	after := readState(w.fetch(ctx, id))
	if after == nil {
		return nil
	}
	if before == nil {
		w.lives[id]++
	}
	after.life = w.lives[id]
	for name, l := range after.levels {
		key := id.String() + " " + name
		if had, ok := before.level(name); !ok {
			w.limits[key]++
			l.life = w.limits[key]
		} else {
			l.life = had.life
		}
		after.levels[name] = l
	}
	return after
}

// level returns the state of a limit. One that was removed has what it has consumed.
func (s *state) level(name string) (level, bool) {
	if s == nil {
		return level{}, false
	}
	l, ok := s.levels[name]
	if !ok {
		l.tc = s.gone[name]
	}
	return l, ok
}

// fetch reads a bucket item directly from the engine.
func (w *world) fetch(ctx context.Context, id bucketID) item {
	out, err := w.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(tableName), ConsistentRead: aws.Bool(true), Key: w.key(id),
	})
	if err != nil {
		panic(fmt.Sprintf("read %v: %v", id, err))
	}
	return out.Item
}

func (w *world) key(id bucketID) item {
	return item{
		"PK": &types.AttributeValueMemberS{Value: w.ns + "/BUCKET#" + id.entity + "#" + id.resource + "#" + id.shard},
		"SK": &types.AttributeValueMemberS{Value: "#STATE"},
	}
}

// stateFor returns the current bucket item, and whether it is the one of its bucket to which
// a call wrote last, or tried to. A call whose comparison undoes its decision may go on with
// another shard.
func (w *world) stateFor(k *call, id bucketID) (s *state, used bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range slices.Backward(w.log) {
		if r.call == k && r.id.whole() == id.whole() {
			return w.items[id], r.id == id
		}
	}
	return w.items[id], false
}

// spread is the largest difference so far between any two clocks.
func (w *world) spread() time.Duration {
	w.clocks.Lock()
	defer w.clocks.Unlock()
	return max(0, w.hi-w.lo)
}

// sweep deletes expired items, as DynamoDB does some time later.
func (w *world) sweep() {
	w.mu.Lock()
	var due []bucketID
	for id, s := range w.items {
		if s != nil && s.ttl != 0 && s.ttl <= time.Now().Unix() {
			due = append(due, id)
		}
	}
	w.mu.Unlock()
	r := w.stream("sweeping").stream()
	for _, id := range sortedBuckets(due) {
		if chance(r, 0.4) {
			continue // a bucket loses its shards one by one
		}
		w.sleep(time.Microsecond)
		_, err := w.apply(context.Background(), []bucketID{id}, write{op: "sweep"}, func(ctx context.Context) error {
			if s := w.items[id]; s == nil || s.ttl == 0 || s.ttl > time.Now().Unix() {
				return nil
			}
			_, err := w.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(tableName), Key: w.key(id)})
			return err
		})
		if err != nil {
			panic(err)
		}
	}
}

// trace is the history as text: the engine's events in order, then the answer to each call.
func (w *world) trace() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, r := range w.log {
		b.WriteString(r.String())
		b.WriteByte('\n')
	}
	for _, c := range w.calls {
		b.WriteString(c.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// stats counts the events.
func (w *world) stats() string {
	var admitted, refused, failed, lost int
	for _, c := range w.calls {
		switch {
		case !c.kind.takes():
		case !c.answered:
			lost++
		case c.admitted():
			admitted++
		case c.refusal() != nil:
			refused++
		default:
			failed++
		}
	}
	return fmt.Sprintf("%d writes, %d admitted, %d refused, %d otherwise, %d crashed in %v", len(w.log), admitted, refused, failed, lost, w.now())
}
