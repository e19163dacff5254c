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
}

// A Delta is what several changes add to one snapshot.
//
// Steps may come from several shards, in any mixture. The steps of one shard must reach
// [Snapshots.Add] in the order of their sequence numbers. They may arrive any number
// of times and be cut into deltas in any way. But no step may be left out: it could not
// be added later.
type Delta struct {
	Key
	Steps []Step
}

// Add adds steps to a snapshot, each once, however often it is given. It sends one
// request of one write unit. If some of the steps were counted before, it sends another
// request for the rest. A new snapshot costs two more units, for its index entries. A
// snapshot larger than a kilobyte, from about a dozen shards on, costs one unit for
// each started kilobyte. Add writes in parts steps of more than 64 shards, of more
// than 100 limits, or whose sums do not fit 64 bits. The snapshot itself counts without
// bound.
//
// For each shard, the snapshot keeps the sequence number of the last step counted. A
// write applies only if all its steps are later. A write may be refused because of
// another writer, or because of its own attempt whose answer was lost. The refusal
// tells which steps to leave out.
//
// Add fails with [store.ErrInvalid] if the delta is invalid, with nothing written,
// and with [store.ErrCorrupt] if the snapshot's sequence numbers are damaged. After any
// other error, the caller can give the delta again.
func (s *Snapshots) Add(ctx context.Context, d *Delta) error {
	steps, err := d.steps()
	if err != nil {
		return err
	}
	key := schema.UsageKey(s.ns, d.Entity, d.Resource, d.Window.String(), d.Start)
	op := "count usage of " + d.Entity + " for " + d.Resource
	for len(steps) > 0 {
		update, n, err := s.update(key, d, steps)
		if err != nil {
			return err
		}
		err = s.conn.UpdateItem(ctx, op, update)
		if err == nil {
			steps = steps[n:]
			continue
		}
		counted, refused := conn.ConditionFailed(err)
		if !refused {
			return err
		}
		left := len(steps)
		steps = slices.DeleteFunc(steps, func(step numbered) bool {
			return step.sequence <= schema.UsageSequence(counted, step.Shard)
		})
		if len(steps) == left {
			return &store.CorruptError{
				Key: key.String(), Attr: schema.UsageSequenceAttr(steps[0].Shard),
				Reason: "it is not a sequence number that the stream can have given",
			}
		}
	}
	return nil
}

// A numbered is a step with its sequence number in the stored form.
type numbered struct {
	*Step
	sequence string
}

// steps returns the steps that change anything, by shard and sequence number, each
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
		if step.Events != 0 || slices.ContainsFunc(step.Tokens, func(a store.Amount) bool { return a.Milli != 0 }) {
			steps = append(steps, numbered{step, sequence})
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
// room for, if none of them is counted. It needs at least one step, and steps ordered
// by shard and sequence number.
func (s *Snapshots) update(key schema.Key, d *Delta, steps []numbered) (_ *dynamodb.UpdateItemInput, n int, err error) {
	var room [8]store.Amount
	sums, events, n := addUp(room[:0], steps)
	var w expression.Write
	s.describe(&w, key, d, steps[:n], sums, events)
	sh, values, err := w.Done(&s.shapes)
	if err != nil {
		return nil, 0, err
	}
	return &dynamodb.UpdateItemInput{
		Key: key.Item(), UpdateExpression: &sh.Update, ConditionExpression: &sh.Condition,
		ExpressionAttributeNames: sh.Names, ExpressionAttributeValues: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, n, nil
}

// describe states the operations of a write that counts steps, which add up to
// sums and events. It sets the snapshot's identity with every write, because no writer
// knows if its write is the first.
func (s *Snapshots) describe(w *expression.Write, key schema.Key, d *Delta, steps []numbered, sums []store.Amount, events int64) {
	// Room for one shard, and for sums without rests: more is rare.
	const identity, byShard, counters = 8, 2, 2
	w.Start(counters+len(sums), identity+byShard)
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
		shard := w.Shard(shards, steps[firstStep].Shard)
		w.Require(shard.Sequence().AbsentOrBelow(shard.Text('f', steps[firstStep].sequence)))
		w.Set(shard.Sequence(), shard.Text('l', steps[i-1].sequence))
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

// startsShard reports whether step i is the first of its shard.
func startsShard(steps []numbered, i int) bool { return i == 0 || steps[i-1].Shard != steps[i].Shard }

// The capacity of one write to a snapshot. DynamoDB accepts 4 KB for an expression, and
// 300 operators in each. A shard takes four operators and up to 48 bytes of the
// condition, and 13 of the update. A limit takes 22 of the update, where the snapshot's
// identity takes 170.
const (
	maxShards = 64
	maxLimits = 100
)

// addUp adds up the first n steps, by limit name: as many as one write has room for,
// but at least one.
func addUp(sums []store.Amount, steps []numbered) (_ []store.Amount, events int64, n int) {
	shards := 0
	for i, step := range steps {
		if startsShard(steps, i) {
			shards++
		}
		tooMany := shards > maxShards || len(sums)+len(step.Tokens) > maxLimits && len(sums)+newLimits(sums, step.Tokens) > maxLimits
		if i > 0 && (tooMany || overflows(sums, events, step.Step)) {
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
