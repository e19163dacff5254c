package replay

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/zeroae/zae-limiter-go/store"
)

// Options configure a [Replayer].
type Options struct {
	// Levels are the limits. Required.
	Levels Levels
	// Costs name the limits of the amounts of an event, in their order. Every limit of
	// Levels must be named.
	Costs []string
	// Top is the number of buckets in the result: those with the most refusals. 0 is 20.
	Top int
	// Spool records the events for [Replayer.Propose]; nil records nothing.
	Spool *Spool
}

// checked are the options with their defaults.
func (o Options) checked() (Options, error) {
	const top = 20
	if o.Top == 0 {
		o.Top = top
	}
	if o.Top < 0 {
		return o, &store.ValidationError{Field: "top", Value: strconv.Itoa(o.Top), Reason: "give 1 or more buckets"}
	}
	return o, o.Levels.validate(o.Costs)
}

// checkAmounts checks the amounts of an event.
func checkAmounts(amounts []int64, costs []string) error {
	if len(amounts) != len(costs) {
		return &store.ValidationError{
			Field: "amounts", Value: strconv.Itoa(len(amounts)), Reason: fmt.Sprintf("give an amount for each of the %d limits with a cost", len(costs)),
		}
	}
	for i, tokens := range amounts {
		if tokens < 0 || tokens > store.MaxTokens {
			return &store.ValidationError{
				Field: "amount of " + costs[i], Value: strconv.FormatInt(tokens, 10),
				Reason: fmt.Sprintf("give from 0 to %d tokens", int64(store.MaxTokens)),
			}
		}
	}
	return nil
}

// A Replayer decides events in the order in which it is given them. It is not safe for
// concurrent use.
type Replayer struct {
	options  Options
	rules    rules
	accounts map[string]*account // by their keys
	ordered  []*account          // by number
	key      []byte              // memory of the key that is looked up

	now, from int64 // the last and the first instant
	counts
	timeline *Timeline
}

// counts are the totals of a replay.
type counts struct {
	events    int64
	refused   int64
	late      int64 // decided at a later instant than their own
	unlimited int64 // events without limits
}

// New returns a replayer whose buckets are full. It fails with a
// [store.ValidationError] if a limit is invalid, or has no cost.
func New(o Options) (*Replayer, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	return &Replayer{
		options: o, rules: newRules(o.Levels, o.Costs),
		accounts: map[string]*account{}, timeline: newTimeline(slots),
	}, nil
}

// Add decides an event and reports whether it is admitted. An event before the last
// instant is late: it is decided at that instant. Add fails with a
// [store.ValidationError] if an amount is negative or too large, and if the event has
// too few or too many amounts.
func (r *Replayer) Add(e *Event) (admitted bool, err error) {
	if err := checkAmounts(e.Amounts, r.options.Costs); err != nil {
		return false, err
	}
	now := r.clock(e.At)
	own, parent := r.account(e.Entity, e.Resource), (*account)(nil)
	if e.Parent != "" && e.Parent != e.Entity {
		parent = r.account(e.Parent, e.Resource)
	}
	if err := r.options.Spool.add(now, own, parent, e.Amounts); err != nil {
		return false, err
	}
	byOwn, byParent := !own.admits(now, e.Amounts), !parent.admits(now, e.Amounts)
	if admitted = !byOwn && !byParent; admitted {
		own.take(now, e.Amounts)
		parent.take(now, e.Amounts)
	}
	r.note(now, admitted, own, parent)
	own.note(now, e.Amounts, admitted, byOwn, byParent)
	parent.note(now, e.Amounts, admitted, byParent, false)
	return admitted, nil
}

// clock is the instant at which an event of an instant is decided.
func (r *Replayer) clock(at int64) int64 {
	if r.events == 0 {
		r.now, r.from = at, at
	}
	if at < r.now {
		r.late++
		return r.now
	}
	r.now = at
	return at
}

func (r *Replayer) account(entity, resource string) *account {
	// One string has both names, and the length of the first: a lookup reads it in one place.
	r.key = binary.LittleEndian.AppendUint32(r.key[:0], uint32(len(entity)))
	r.key = append(append(r.key, entity...), resource...)
	if a, ok := r.accounts[string(r.key)]; ok {
		return a
	}
	key := string(r.key)
	names := key[len(key)-len(entity)-len(resource):]
	entity, resource = names[:len(entity)], names[len(entity):]
	a := newAccount(entity, resource, len(r.ordered), r.rules.of(entity, resource))
	r.accounts[key] = a
	r.ordered = append(r.ordered, a)
	return a
}

// note counts an event in the totals.
func (r *Replayer) note(now int64, admitted bool, own, parent *account) {
	r.events++
	if !admitted {
		r.refused++
	}
	if len(own.meters) == 0 && (parent == nil || len(parent.meters) == 0) {
		r.unlimited++
	}
	r.timeline.count(now, !admitted)
}

// note counts a decided event on the account and its rules.
func (a *account) note(now int64, amounts []int64, admitted, byOwn, byParent bool) {
	if a == nil {
		return
	}
	a.count(now, byOwn, byParent)
	for i := range a.meters {
		m := &a.meters[i]
		tokens := amounts[m.rule.cost]
		if tokens == 0 {
			continue
		}
		would := admitted && m.would
		m.rule.judged(now, tokens, m.short || would)
		switch {
		case would:
			m.shadowed++
			m.rule.shadowed++
			a.shadow(now)
		case m.short:
			m.refused++
			ms, ok := m.wait(&m.rule.held, now, tokens*store.Milli)
			m.rule.refuse(a, now, ms, ok)
			if ok {
				a.longest = max(a.longest, ms)
			}
		case admitted:
			left := share(m.now, m.rule.held.At(now).Capacity)
			m.lowest = min(m.lowest, left)
			m.rule.admit(tokens, left)
		}
	}
}
