// Package usage counts what entities consume, in snapshots by hour, day and month
// (ADR 018). Each [Step] counts once, however often it is given.
package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultTTL is how long a usage snapshot is kept after its window has ended, unless the
// options of the store say otherwise.
const DefaultTTL = 90 * 24 * time.Hour

// Snapshots are the usage snapshots of a namespace; the store in package dynamo has
// them. They are safe for concurrent use.
type Snapshots struct {
	conn   *conn.Conn
	ns     string
	ttl    time.Duration
	shapes expression.Cache
	// announced has the months and resources that readers know to have pages.
	announced sync.Map // announced -> true
}

// New returns the snapshots of the namespace with the id ns. A write keeps a snapshot
// for the time ttl after its window has ended, for ever if ttl is negative.
func New(c *conn.Conn, ns string, ttl time.Duration) *Snapshots {
	return &Snapshots{conn: c, ns: ns, ttl: ttl}
}

// A Key names a usage snapshot: what an entity consumed of a resource in the
// window that starts at Start.
type Key struct {
	Entity, Resource string
	Window           Window
	Start            time.Time // see [Window.Start]
}

// A Step is what one change of a bucket's shard consumed.
type Step struct {
	Shard int
	// Sequence is the sequence number that the table's stream gave the change, a
	// decimal of up to 40 digits. It grows from change to change of a shard.
	Sequence string
	Events   int64 // acquires, whatever the number of limits; not negative
	// Tokens are millitokens, negative if they were returned. The amounts of a limit
	// named twice are added; the sum must fit 64 bits.
	Tokens []store.Amount
	// Before and After are the item around the change; Before is nil if the change created
	// the item. From their counters [Snapshots.Add] knows if steps are missing. Without
	// both, it does not know.
	Before, After *store.Image
}

// A Delta is what several changes add to one snapshot.
//
// Steps may come from several shards, in any mixture and order. They may arrive any number
// of times and be cut into deltas in any way.
type Delta struct {
	Key
	Steps []Step
}

// Add adds steps to a snapshot, each once, however often it is given. It sends one
// request of one write unit. If some of the steps were counted before, or if steps are
// missing, it sends another request. A new snapshot costs two more units, for its index
// entries. A snapshot larger than a kilobyte, from about five shards on, costs one unit for
// each started kilobyte. Add writes in parts steps of more than 40 shards, of more
// than 80 limits, or whose sums do not fit 64 bits. The snapshot itself counts without
// bound.
//
// For each shard, the snapshot keeps the first and the last step counted, with the item's
// counters before and after them. Everything in between is counted:
//
//   - A step in between was counted, and is left out.
//   - A later step usually begins with the counters at which the last one ended. A write
//     applies only if that is so, or if the shard has no mark.
//   - If the counters differ, steps in between are missing. The difference of the counters
//     counts with the later step, because the missing steps consumed it. Their acquires
//     are counted from the item's count of writes. docs/design/usage.md says which differences are not
//     known.
//   - A step before the first one extends the range downwards in the same way.
//
// A write may be refused because of another writer, or because of its own attempt whose
// answer was lost. The refusal has the marks, from which the next write follows.
//
// Add fails with [store.ErrInvalid] if the delta is invalid, with nothing written,
// and with [store.ErrCorrupt] if the snapshot's marks are damaged. After any other error,
// the caller can give the delta again.
func (s *Snapshots) Add(ctx context.Context, d *Delta) error {
	steps, err := d.steps()
	if err != nil {
		return err
	}
	key := schema.UsageKey(s.ns, d.Entity, d.Resource, d.Window.String(), d.Start)
	op := "count usage of " + d.Entity + " for " + d.Resource
	known := marks{}
	for len(steps) > 0 {
		known.arrange(steps)
		known.heal(steps)
		update, n, err := s.update(key, d, steps, known)
		if err != nil {
			return err
		}
		err = s.conn.UpdateItem(ctx, op, update)
		if err == nil {
			known.forget(steps[:n])
			steps = steps[n:]
			continue
		}
		found, refused := conn.ConditionFailed(err)
		if !refused {
			return err
		}
		if err := known.read(found, steps); err != nil {
			return err
		}
		steps = slices.DeleteFunc(steps, func(step numbered) bool { return known.has(&step) })
	}
	return nil
}

// steps returns the steps that change anything or restart counters, by shard and sequence number, each
// once.
func (d *Delta) steps() ([]numbered, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	steps := make([]numbered, 0, len(d.Steps))
	for i := range d.Steps {
		step, sequence, err := d.Steps[i].check()
		if err != nil {
			return nil, err
		}
		if step.Events != 0 || Restarts(step.Before, step.After) ||
			slices.ContainsFunc(step.Tokens, func(a store.Amount) bool { return a.Milli != 0 }) {
			steps = append(steps, numbered{Step: step, sequence: sequence})
		}
	}
	byShard := func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), strings.Compare(a.sequence, b.sequence))
	}
	slices.SortStableFunc(steps, byShard)
	return slices.CompactFunc(steps, func(a, b numbered) bool { return byShard(a, b) == 0 }), nil
}

func (k *Key) check() error {
	if err := store.CheckEntity(k.Entity); err != nil {
		return err
	}
	if err := store.CheckResource(k.Resource); err != nil {
		return err
	}
	if err := k.Window.check(); err != nil {
		return err
	}
	if start := k.Window.Start(k.Start); !start.Equal(k.Start) {
		return &store.ValidationError{
			Field: "start", Value: k.Start.Format(time.RFC3339Nano),
			Reason: fmt.Sprintf("no %s window starts then, but at %s", k.Window, schema.Timestamp(start)),
		}
	}
	return nil
}

func (w Window) check() error {
	_, err := ParseWindow(w.String())
	return err
}

// check returns the step with each limit once, and its sequence number in the stored
// form.
func (s *Step) check() (merged *Step, sequence string, err error) {
	if s.Shard < 0 || s.Shard >= schema.MaxShards {
		return nil, "", &store.ValidationError{Field: "shard", Value: strconv.Itoa(s.Shard), Reason: "give the number of a shard"}
	}
	if s.Events < 0 {
		return nil, "", &store.ValidationError{Field: "events", Value: strconv.FormatInt(s.Events, 10), Reason: "give a number of acquires"}
	}
	sequence, ok := schema.PadSequence(s.Sequence)
	if !ok {
		return nil, "", &store.ValidationError{Field: "sequence", Value: s.Sequence, Reason: "give a sequence number of a stream, up to 40 digits"}
	}
	for i := range s.Tokens {
		if err := store.CheckLimitName(s.Tokens[i].Limit); err != nil {
			return nil, "", err
		}
	}
	merged, err = s.merged()
	return merged, sequence, err
}

// merged returns the step with each limit once.
func (s *Step) merged() (*Step, error) {
	if !namesTwice(s.Tokens) {
		return s, nil
	}
	m := *s
	m.Tokens = nil
	for _, a := range s.Tokens {
		i := slices.IndexFunc(m.Tokens, func(b store.Amount) bool { return b.Limit == a.Limit })
		if i < 0 {
			m.Tokens = append(m.Tokens, a)
			continue
		}
		sum, ok := added(m.Tokens[i].Milli, a.Milli)
		if !ok {
			return nil, &store.ValidationError{
				Field: "tokens of " + a.Limit, Value: strconv.FormatInt(a.Milli, 10), Reason: "give amounts whose sum 64 bits hold",
			}
		}
		m.Tokens[i].Milli = sum
	}
	return &m, nil
}

func namesTwice(amounts []store.Amount) bool {
	for i := range amounts {
		for j := range i {
			if amounts[j].Limit == amounts[i].Limit {
				return true
			}
		}
	}
	return false
}

// added returns a sum; ok reports whether it fits 64 bits.
func added(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

// update returns a write that counts the first n steps, as many as one write has
// room for, if the marks of their shards are as known. It needs at least one step, and steps ordered
// by shard and sequence number.
func (s *Snapshots) update(key schema.Key, d *Delta, steps []numbered, known marks) (_ *dynamodb.UpdateItemInput, n int, err error) {
	var room [8]store.Amount
	sums, events, n := addUp(room[:0], steps)
	var w expression.Write
	s.describe(&w, key, d, steps[:n], known, sums, events)
	sh, err := w.Shape(&s.shapes)
	if err != nil {
		return nil, 0, err
	}
	return &dynamodb.UpdateItemInput{
		Key: key.Item(), UpdateExpression: &sh.Update, ConditionExpression: &sh.Condition,
		ExpressionAttributeNames: sh.Names, ExpressionAttributeValues: w.Values(),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, n, nil
}

// describe states the operations of a write that counts steps, which add up to
// sums and events. It sets the snapshot's identity with every write, because no writer
// knows if its write is the first.
func (s *Snapshots) describe(w *expression.Write, key schema.Key, d *Delta, steps []numbered, known marks, sums []store.Amount, events int64) {
	window := d.Window.String()
	w.Set(expression.EntityID, w.Text(":e", d.Entity))
	w.Set(expression.Resource, w.Text(":r", d.Resource))
	w.Set(expression.Window, w.Text(":w", window))
	w.Set(expression.WindowStart, w.Text(":s", schema.Timestamp(d.Start)))
	w.Set(expression.GSI2PK, w.Text(":p2", schema.ResourcePK(s.ns, d.Resource)))
	w.Set(expression.GSI2SK, w.Text(":s2", schema.UsageIndexSK(window, d.Start, d.Entity)))
	w.Set(expression.GSI4PK, w.Text(":p4", s.ns))
	w.Set(expression.GSI4SK, w.Text(":s4", key.PK))
	if s.ttl > 0 {
		w.Set(expression.TTL, w.Number(":ttl", d.Window.End(d.Start).Add(s.ttl).Unix()))
	} else {
		w.Remove(expression.TTL)
	}
	shards := 0
	for i := 0; i < len(steps); {
		firstStep := i
		for i++; i < len(steps) && !startsShard(steps, i); {
			i++
		}
		mark(w.Shard(shards, steps[firstStep].Shard), w, steps[firstStep:i], known[steps[firstStep].Shard])
		shards++
	}
	w.Add(expression.TotalEvents, w.Number(":n", events))
	for i, sum := range sums {
		whole, rest := schema.SplitUsage(sum.Milli)
		l := w.Limit(i, sum.Limit)
		w.Add(l.Usage(), l.Number('t', whole))
		if rest != 0 {
			w.Add(l.UsageRest(), l.Number('m', rest))
		}
	}
}

// mark states what a write requires of the mark of a shard, and how arranged steps of the
// shard change it. Without a mark, the write assumes that the steps follow the last one
// counted, or are the first ones. With a mark, it requires that the mark is unchanged.
func mark(shard expression.Shard, w *expression.Write, steps []numbered, is *schema.UsageMark) {
	if is == nil {
		first := &steps[0]
		w.Require(shard.Sequence().AbsentOrFollows(
			shard.Text('f', first.sequence), shard.Counters(), shard.Text('b', schema.UsageCounters(first.Before))))
		w.SetOnce(shard.Low(), shard.Text('o', first.low()))
		setHigh(shard, w, &steps[len(steps)-1])
		return
	}
	requireMark(shard, w, is)
	above := len(steps)
	for above > 0 && steps[above-1].sequence < is.Low.Sequence {
		above--
	}
	switch {
	case above < len(steps):
		w.Set(shard.Low(), shard.Text('o', steps[len(steps)-1].low()))
	case is.LowEnd == "":
		w.Set(shard.Low(), shard.Text('o', schema.UsageLowest))
	}
	if above > 0 {
		setHigh(shard, w, &steps[above-1])
	}
}

// setHigh moves the upper end of what is counted to a step.
func setHigh(shard expression.Shard, w *expression.Write, last *numbered) {
	w.Set(shard.Sequence(), shard.Text('l', last.high()))
	w.Set(shard.Counters(), shard.Text('a', schema.UsageCounters(last.After)))
}

// requireMark requires that the mark of a shard is unchanged.
func requireMark(shard expression.Shard, w *expression.Write, is *schema.UsageMark) {
	w.Require(shard.Sequence().Equals(shard.Text('s', is.Sequence)))
	if is.LowEnd == "" {
		w.Require(shard.Low().Absent())
		return
	}
	w.Require(shard.Low().Equals(shard.Text('e', is.LowEnd)))
}

// startsShard reports whether step i is the first of its shard.
func startsShard(steps []numbered, i int) bool { return i == 0 || steps[i-1].Shard != steps[i].Shard }

// The capacity of one write to a snapshot. DynamoDB accepts 4 KB for an expression, and
// 300 operators in each. A shard takes six operators and up to 60 bytes of the
// condition, and 43 of the update. A limit takes 22 of the update, where the snapshot's
// identity takes 170.
const (
	maxShards = 40
	maxLimits = 80
)

// addUp adds up the first n steps, by limit name: as many as one write has room for,
// but at least one.
func addUp(sums []store.Amount, steps []numbered) (_ []store.Amount, events int64, n int) {
	shards := 0
	for i := range steps {
		step := steps[i].counted()
		if startsShard(steps, i) {
			shards++
		}
		tooMany := shards > maxShards || len(sums)+len(step.Tokens) > maxLimits && len(sums)+newLimits(sums, step.Tokens) > maxLimits
		if i > 0 && (tooMany || overflows(sums, events, step)) {
			return sums, events, i
		}
		events += step.Events
		for _, a := range step.Tokens {
			i, there := find(sums, a.Limit)
			if !there {
				sums = slices.Insert(sums, i, store.Amount{Limit: a.Limit})
			}
			sums[i].Milli += a.Milli
		}
	}
	return sums, events, len(steps)
}

// find finds a limit in sums, which are ordered by name.
func find(sums []store.Amount, limit string) (i int, there bool) {
	return slices.BinarySearchFunc(sums, limit, func(b store.Amount, limit string) int { return strings.Compare(b.Limit, limit) })
}

// overflows reports whether the sums with a step added exceed 64 bits.
func overflows(sums []store.Amount, events int64, step *Step) bool {
	_, ok := added(events, step.Events)
	return !ok || slices.ContainsFunc(step.Tokens, func(a store.Amount) bool {
		i, there := find(sums, a.Limit)
		if !there {
			return false
		}
		_, ok := added(sums[i].Milli, a.Milli)
		return !ok
	})
}

// newLimits counts the amounts of limits that are not in sums.
func newLimits(sums, amounts []store.Amount) (n int) {
	for _, a := range amounts {
		if _, there := find(sums, a.Limit); !there {
			n++
		}
	}
	return n
}
