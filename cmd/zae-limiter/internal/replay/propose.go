package replay

import (
	"context"
	"errors"
	"math/bits"
	"strconv"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// Proposals are the smallest limits that refuse no more than a target.
//
// Each limit is searched alone, over all events that asked for its tokens, by doubling and
// then halving: the proposed value meets the target, and the value less one does not. If
// every event costs the same, no smaller value meets the target either. With different
// costs one may, because a smaller bucket may refuse a large event and so serve many small
// ones.
type Proposals struct {
	RefuseAtMost float64    `json:"refuse_at_most"` // the target: refused events as a share of the events
	Passes       int        `json:"passes"`         // how often the events were decided again
	Limits       []Proposal `json:"limits"`
	// Refused is the number of events that all proposals refuse together, each limit with
	// what changes as in the first choice that meets the target.
	Refused      int64   `json:"refused"`
	RefusedShare float64 `json:"refused_share"`
}

// A Proposal has the choices for one limit of one level.
type Proposal struct {
	Level   string   `json:"level"` // level of configuration
	Name    string   `json:"limit_name"`
	Events  int64    `json:"events"`  // that asked for tokens of the limit
	Allowed int64    `json:"allowed"` // refusals within the target
	Choices []Choice `json:"choices"` // values that meet the target
}

// A Choice is the smallest value of one kind that meets the target.
type Choice struct {
	Change Change      `json:"change"` // what is changed: rate, burst or quota
	Met    bool        `json:"met"`    // false if no value meets the target; there is no limit then
	Limit  store.Limit `json:"-"`
	*limitarg.Parameters
	Refused int64 `json:"refused"` // by this limit alone
}

// A Change says what of a limit a choice changes.
type Change string

// The changes. The period and the calendar always stay.
const (
	ChangeBoth  Change = "rate and burst" // in their present ratio, the burst rounded up
	ChangeRate  Change = "rate"
	ChangeBurst Change = "burst"
	ChangeQuota Change = "quota" // the tokens of a quota
)

// changesOf are the changes that a limit permits.
func changesOf(l *store.Limit) []Change {
	if l.Renews != nil {
		return []Change{ChangeQuota}
	}
	return []Change{ChangeBoth, ChangeBurst, ChangeRate}
}

// Propose searches for the smallest limits that refuse at most a share of the events. It
// needs a replayer with a spool. It fails with a [store.ValidationError] if there is none,
// or if the share is not from 0 to less than 1.
func (r *Replayer) Propose(ctx context.Context, refuseAtMost float64) (*Proposals, error) {
	switch {
	case r.options.Spool == nil:
		return nil, &store.ValidationError{Field: "spool", Reason: "give the replayer a spool, so that it can decide the events again"}
	case !(refuseAtMost >= 0 && refuseAtMost < 1):
		return nil, &store.ValidationError{
			Field: "refuse at most", Value: strconv.FormatFloat(refuseAtMost, 'g', -1, 64), Reason: "give a share from 0 to less than 1",
		}
	}
	searches := r.searches(refuseAtMost)
	p := &Proposals{RefuseAtMost: refuseAtMost}
	for isUnderWay(searches) {
		if err := r.pass(ctx, searches); err != nil {
			return nil, err
		}
		p.Passes++
	}
	chosen := map[*rule]store.Limit{}
	for _, one := range r.rules.sorted() {
		if of := searches[one]; of != nil {
			p.Limits = append(p.Limits, proposal(one, of, chosen))
		}
	}
	var err error
	p.Refused, err = r.together(ctx, chosen)
	p.RefusedShare = share(p.Refused, r.events)
	return p, err
}

// searches are the searches for each rule that judged an event.
func (r *Replayer) searches(refuseAtMost float64) map[*rule][]*search {
	all := map[*rule][]*search{}
	for _, of := range r.rules {
		for _, one := range of {
			if one.events == 0 {
				continue
			}
			for _, change := range changesOf(&one.limit) {
				all[one] = append(all[one], &search{
					change: change, limit: one.limit, allowed: allowed(refuseAtMost, one.events),
					trial: trial{balances: make([]balance, one.accounts)},
				})
			}
		}
	}
	return all
}

// allowed is the largest number of refusals whose share is within the target.
func allowed(target float64, events int64) int64 {
	n := int64(target * float64(events))
	if share(n+1, events) <= target { // the product was rounded down
		n++
	}
	return n
}

func isUnderWay(searches map[*rule][]*search) bool {
	for _, of := range searches {
		for _, s := range of {
			if !s.isDone() {
				return true
			}
		}
	}
	return false
}

// pass tries one value of each search on all events.
func (r *Replayer) pass(ctx context.Context, searches map[*rule][]*search) error {
	for _, of := range searches {
		for _, s := range of {
			s.begin()
		}
	}
	err := r.replay(ctx, func(e *kept) {
		r.ordered[e.own].try(e, searches)
		if e.parent >= 0 {
			r.ordered[e.parent].try(e, searches)
		}
	})
	if err != nil {
		return err
	}
	for _, of := range searches {
		for _, s := range of {
			s.end()
		}
	}
	return nil
}

// try decides an event on each limit of an account, for the searches for its rule.
func (a *account) try(e *kept, searches map[*rule][]*search) {
	for i := range a.meters {
		m := &a.meters[i]
		need := e.amounts[m.rule.cost] * store.Milli
		if need == 0 {
			continue
		}
		for _, s := range searches[m.rule] {
			s.trial.decide(m.place, e.at, need)
		}
	}
}

// replay visits the kept events.
func (r *Replayer) replay(ctx context.Context, visit func(*kept)) error {
	const often = 1 << 12
	seen := 0
	return r.options.Spool.each(func(e *kept) error {
		if seen++; seen%often == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		visit(e)
		return nil
	})
}

// proposal is what the searches for a rule found. It notes the limit of the first choice
// that meets the target.
func proposal(one *rule, searches []*search, chosen map[*rule]store.Limit) Proposal {
	p := Proposal{Level: levelName(one.key), Name: one.limit.Name, Events: one.events, Allowed: searches[0].allowed}
	for _, s := range searches {
		c := s.choice()
		if _, ok := chosen[one]; c.Met && !ok {
			chosen[one] = c.Limit
		}
		p.Choices = append(p.Choices, c)
	}
	return p
}

// together is the number of events that the chosen limits refuse together.
func (r *Replayer) together(ctx context.Context, chosen map[*rule]store.Limit) (refused int64, err error) {
	changed := map[*rule]*rule{}
	for _, of := range r.rules {
		for _, one := range of {
			limit, ok := chosen[one]
			if !ok {
				limit = one.limit
			}
			changed[one] = &rule{limit: limit, held: arithmetic(&limit), cost: one.cost}
		}
	}
	accounts := make([]*account, len(r.ordered))
	for i, a := range r.ordered {
		held := make([]*rule, len(a.meters))
		for j := range held {
			held[j] = changed[a.meters[j].rule]
		}
		accounts[i] = newAccount(a.entity, a.resource, i, held)
	}
	err = r.replay(ctx, func(e *kept) {
		own, parent := accounts[e.own], (*account)(nil)
		if e.parent >= 0 {
			parent = accounts[e.parent]
		}
		byOwn, byParent := !own.admits(e.at, e.amounts), !parent.admits(e.at, e.amounts)
		if byOwn || byParent {
			refused++
			return
		}
		own.take(e.at, e.amounts)
		parent.take(e.at, e.amounts)
	})
	return refused, errors.Join(err, ctx.Err())
}

// A search finds the smallest value of one kind of change for one rule. It doubles a value until
// one meets the target, and then halves the distance between its bounds. Each pass over the
// events tries one value.
type search struct {
	change  Change
	limit   store.Limit // as it is
	allowed int64       // refusals
	bounds  bounds
	trial   trial
}

// bounds have the value that a search looks for between them.
type bounds struct {
	misses  int64 // the largest value that is known to miss the target; 0 is none
	meets   int64 // the smallest value that is known to meet it; 0 is none
	refused int64 // at meets
}

// A trial is what the pass under way tries.
type trial struct {
	value    int64 // 0 if the search has ended
	held     bucket.Limit
	refused  int64
	balances []balance // of each bucket of the rule
}

func (s *search) isDone() bool {
	b := s.bounds
	return b.meets == 0 && b.misses == store.MaxTokens || b.meets > 0 && b.meets-b.misses == 1
}

// next is the value to try next.
func (s *search) next() int64 {
	const factor = 2
	switch b := s.bounds; {
	case b.meets > 0:
		return b.misses + (b.meets-b.misses)/factor
	case b.misses > 0:
		return min(b.misses*factor, store.MaxTokens)
	case s.change == ChangeBurst, s.change == ChangeQuota:
		return s.limit.Capacity
	}
	return s.limit.Amount
}

// with is the limit with a value.
func (s *search) with(value int64) store.Limit {
	l := s.limit
	switch s.change {
	case ChangeBurst, ChangeQuota:
		l.Capacity = value
	case ChangeRate:
		l.Amount = value
	case ChangeBoth:
		l.Amount = value
		// ⌈value·capacity/amount⌉, at most MaxTokens.
		high, low := bits.Mul64(uint64(value), uint64(s.limit.Capacity))
		low, carry := bits.Add64(low, uint64(s.limit.Amount-1), 0)
		if high += carry; high >= uint64(s.limit.Amount) {
			l.Capacity = store.MaxTokens
			break
		}
		capacity, _ := bits.Div64(high, low, uint64(s.limit.Amount))
		l.Capacity = int64(min(capacity, store.MaxTokens))
	}
	return l
}

func (s *search) begin() {
	if s.isDone() {
		return
	}
	t := &s.trial
	t.value, t.refused = s.next(), 0
	l := s.with(t.value)
	t.held = arithmetic(&l)
	clear(t.balances)
}

// decide decides an event on the bucket at a place.
func (t *trial) decide(place int, now, need int64) {
	if t.value == 0 {
		return
	}
	b := &t.balances[place]
	left := b.at(&t.held, now) - need
	if left < 0 {
		t.refused++
		return
	}
	b.set(&t.held, left, now)
}

func (s *search) end() {
	switch t := &s.trial; {
	case t.value == 0:
	case t.refused <= s.allowed:
		s.bounds.meets, s.bounds.refused = t.value, t.refused
	default:
		s.bounds.misses = t.value
	}
	s.trial.value = 0
}

func (s *search) choice() Choice {
	if s.bounds.meets == 0 {
		return Choice{Change: s.change}
	}
	l := s.with(s.bounds.meets)
	parameters := limitarg.ParametersOf(l)
	return Choice{Change: s.change, Met: true, Limit: l, Parameters: &parameters, Refused: s.bounds.refused}
}
