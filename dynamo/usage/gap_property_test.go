package usage_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A bucket is the history of a bucket's shards, as the stream shows it.
type bucket struct {
	items    []store.Image // by shard
	created  int64         // when the last item was created
	sequence int
	steps    []usage.Step // in the order of the stream
}

func newBucket(shards int) *bucket { return &bucket{items: make([]store.Image, shards)} }

// change changes a shard: it takes tokens, or gives some back, with one write. The first
// change of a shard creates its item.
func (b *bucket) change(shard int, amounts ...store.Amount) {
	before := b.items[shard]
	after := before
	after.Limits = slices.Clone(before.Limits)
	after.Writes.Consumed += 1000
	step := usage.Step{Shard: shard, After: &after, Tokens: amounts}
	if before.Writes.Consumed != 0 {
		step.Before = &before
	} else {
		b.created++
		after.CreatedAt = b.created
	}
	for _, a := range amounts {
		i := slices.IndexFunc(after.Limits, func(l store.LimitState) bool { return l.Name == a.Limit })
		if i < 0 {
			i = len(after.Limits)
			after.Limits = append(after.Limits, store.LimitState{Name: a.Limit})
		}
		after.Limits[i].Consumed += a.Milli
		if a.Milli > 0 {
			step.Events = 1
		}
	}
	slices.SortFunc(after.Limits, func(a, b store.LimitState) int { return strings.Compare(a.Name, b.Name) })
	b.items[shard] = after
	b.sequence += 7
	step.Sequence = strconv.Itoa(b.sequence)
	if len(amounts) > 0 || usage.Restarts(step.Before, step.After) {
		b.steps = append(b.steps, step)
	}
}

// forget removes the limits of a shard.
func (b *bucket) forget(shard int) {
	before := b.items[shard]
	after := before
	after.Limits = nil
	after.Writes.Consumed += 1000
	b.items[shard] = after
	b.sequence += 7
	b.steps = append(b.steps, usage.Step{Shard: shard, Sequence: strconv.Itoa(b.sequence), Before: &before, After: &after})
}

// remove deletes the item of a shard.
func (b *bucket) remove(shard int) { b.items[shard] = store.Image{} }

// sum is what the steps consumed.
func (b *bucket) sum() (events int64, tokens map[string]int64) {
	tokens = map[string]int64{}
	for _, s := range b.steps {
		events += s.Events
		for _, a := range s.Tokens {
			tokens[a.Limit] += a.Milli
		}
	}
	return events, tokens
}

var oneRPM = store.Amount{Limit: "rpm", Milli: 1000}

// A ledger is what usage has to count, by ADR 018: for each shard, everything between the first
// and the last change that were given to it. Changes that were never given are known by the
// difference of the counters around them. It is about one snapshot.
type ledger struct {
	all    []usage.Step // those of the snapshot, in the order of the stream
	low    map[int]int  // by shard, the first and the last index counted
	high   map[int]int
	events int64
	tokens map[string]int64
	missed bool // a gap had counters that began at 0 again: what they lost is not known
}

func newLedger() *ledger {
	return &ledger{low: map[int]int{}, high: map[int]int{}, tokens: map[string]int64{}}
}

// count counts changes that were given together, by their indexes in order.
func (l *ledger) count(given []int) {
	below := map[int][]int{}
	for _, i := range given {
		shard := l.all[i].Shard
		low, known := l.low[shard]
		switch {
		case !known:
			l.low[shard], l.high[shard] = i, i
			l.add(i)
		case i < low:
			below[shard] = append(below[shard], i)
		case i > l.high[shard]:
			l.heal(l.high[shard], i)
			l.add(i)
			l.high[shard] = i
		}
	}
	for shard, steps := range below {
		for _, i := range slices.Backward(steps) {
			if i < l.low[shard] { // a batch may have a change twice
				l.heal(i, l.low[shard])
				l.add(i)
				l.low[shard] = i
			}
		}
	}
}

// add counts a change.
func (l *ledger) add(i int) {
	l.events += l.all[i].Events
	for _, a := range l.all[i].Tokens {
		l.tokens[a.Limit] += a.Milli
	}
}

// heal counts what the counters say of the changes between two of a shard.
func (l *ledger) heal(from, to int) {
	before, after := l.all[from].After, l.all[to].Before
	for i := from + 1; i <= to; i++ {
		l.missed = l.missed || l.all[i].Shard == l.all[to].Shard && (i < to || l.all[i].Before == nil) && usage.Restarts(l.all[i].Before, l.all[i].After)
	}
	if after == nil {
		return // the item was created by the later change
	}
	isAnother := before.CreatedAt != after.CreatedAt
	taken, changed := false, false
	for i := range after.Limits {
		n := after.Limits[i].Consumed
		if old, there := before.Limit(after.Limits[i].Name); there && !isAnother {
			n -= old.Consumed
		}
		l.tokens[after.Limits[i].Name] += n
		taken, changed = taken || n > 0, changed || n != 0
	}
	writes := after.Writes.Consumed
	if !isAnother {
		writes -= before.Writes.Consumed
	}
	if taken && changed {
		l.events += writes / 1000
	}
}

// A stream's mapping gives up on a part of the changes: those of several shards in several
// windows, with deletions of items and of limits among them. Several aggregators count the
// rest, and each other's, in any order, also while another one writes. Whatever the part, and
// however it comes back, usage is what ADR 018 says. So tokens are exact in the end, unless
// counters began at 0 within a gap.
func checkNoGapStays(t *testing.T, api dynamo.API) {
	t.Helper()
	s, entities := fixture.OpenStore(t, api), 0
	rapid.Check(t, func(rt *rapid.T) {
		entities++
		b, ledgers := newBucket(rapid.IntRange(1, 3).Draw(rt, "shards")), []*ledger{}
		of := func(window int) usage.Key {
			k := hourly("gaps-" + strconv.Itoa(entities))
			k.Start = k.Start.Add(time.Duration(window) * time.Hour)
			return k
		}
		for range rapid.IntRange(1, 3).Draw(rt, "windows") {
			begun := len(b.steps)
			for range rapid.IntRange(1, 20).Draw(rt, "changes") {
				b.draw(rt)
			}
			l := newLedger()
			l.all = b.steps[begun:]
			ledgers = append(ledgers, l)
		}
		// count gives a part of a window to an aggregator on a table.
		count := func(on *dynamo.Store, window int, given []int) {
			steps := make([]usage.Step, len(given))
			for i, at := range given {
				steps[i] = ledgers[window].all[at]
			}
			if err := on.Usage().Add(t.Context(), &usage.Delta{Key: of(window), Steps: steps}); err != nil {
				rt.Fatal(err)
			}
			ledgers[window].count(given)
		}
		part := func() (window int, given []int) {
			window = rapid.IntRange(0, len(ledgers)-1).Draw(rt, "window")
			all := len(ledgers[window].all)
			from := rapid.IntRange(0, all).Draw(rt, "from")
			to := rapid.IntRange(from, all).Draw(rt, "to")
			for i := from; i < to; i++ {
				if rapid.IntRange(0, 9).Draw(rt, "readable") > 0 {
					given = append(given, i)
				}
			}
			return window, given
		}
		// Another aggregator writes before a write of this one.
		interrupted := false
		slow := fixture.OpenStore(t, faults.Wrap(api, faults.Before(func(sent *faults.Call) error {
			if sent.Op == faults.UpdateItem && !interrupted && rapid.Bool().Draw(rt, "another aggregator writes now") {
				interrupted = true
				window, given := part()
				count(s, window, given)
			}
			return nil
		})))
		for range rapid.IntRange(0, 6).Draw(rt, "batches") {
			interrupted = false
			window, given := part()
			count(slow, window, given)
		}
		for window, l := range ledgers {
			for i := range l.all { // the redrive
				count(s, window, []int{i})
			}
			l.check(t, rt, s, of(window))
		}
	})
}

// draw makes one change of a bucket: usually a write that takes tokens or returns some,
// sometimes a deletion of an item or of its limits.
func (b *bucket) draw(rt *rapid.T) {
	shard := rapid.IntRange(0, len(b.items)-1).Draw(rt, "shard")
	switch rapid.IntRange(0, 19).Draw(rt, "kind") {
	case 18:
		b.remove(shard)
	case 19:
		if len(b.items[shard].Limits) > 0 {
			b.forget(shard)
		}
	default:
		var amounts []store.Amount
		for _, limit := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"rpm", "tpm", "ttl"}), 0, 3, rapid.ID).Draw(rt, "limits") {
			amounts = append(amounts, store.Amount{Limit: limit, Milli: rapid.Int64Range(-2500, 9000).Filter(changes).Draw(rt, "tokens")})
		}
		b.change(shard, amounts...)
	}
}

// changes reports whether an amount changes anything. Other amounts make no step.
func changes(milli int64) bool { return milli != 0 }

// check compares a snapshot with the ledger, and the ledger with all changes.
func (l *ledger) check(t *testing.T, rt *rapid.T, s *dynamo.Store, k usage.Key) {
	t.Helper()
	if len(l.all) == 0 {
		return
	}
	events, tokens := used(t, s, k)
	if events != l.events {
		rt.Fatalf("%d acquires at %v, want %d", events, k.Start, l.events)
	}
	all := bucket{steps: l.all}
	_, exact := all.sum()
	for limit, n := range l.tokens {
		if tokens[limit] != n {
			rt.Fatalf("%d millitokens of %s at %v, want %d", tokens[limit], limit, k.Start, n)
		}
		if !l.missed && n != exact[limit] {
			rt.Fatalf("the ledger has %d millitokens of %s, and the changes have %d", n, limit, exact[limit])
		}
	}
}

func TestNoGapStays(t *testing.T) { t.Parallel(); checkNoGapStays(t, fixture.NewTable(t)) }
