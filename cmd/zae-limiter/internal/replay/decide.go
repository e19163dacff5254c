package replay

import "github.com/zeroae/zae-limiter-go/store"

// An account is the bucket of an entity for a resource. What an event touches is together
// in memory, because each event is of another account, which is seldom in a cache.
type account struct {
	meters []meter // in few, unless there are more
	few    [2]meter
	number int // of the accounts, in the order in which they were met

	usage

	entity, resource string
}

// A meter is one limit of an account: its balance, and what it refused.
type meter struct {
	rule       *rule
	tokens, at int64 // the balance in millitokens, and the instant up to which it has accrued
	balance    int64 // the balance at the event under way
	lowest     int64 // the lowest balance after an admitted event
	refused    int64
	place      int  // of the account among those of the rule
	short      bool // the event under way is refused by this limit
	mode       store.Mode
	shadowed   int64 // events that a limit in shadow would have refused
	would      bool  // the event under way is one of them
}

func newAccount(entity, resource string, number int, held []*rule) *account {
	a := &account{entity: entity, resource: resource, number: number}
	if a.meters = a.few[:0]; len(held) > len(a.few) {
		a.meters = make([]meter, 0, len(held))
	}
	for _, r := range held {
		a.meters = append(a.meters, meter{rule: r, mode: r.limit.Of(entity).Mode, place: r.accounts, tokens: r.held.Capacity - r.held.Rollover, lowest: r.held.Capacity - r.held.Rollover})
		r.accounts++
	}
	return a
}

// admits reports whether an account can serve the amounts, and marks the limits that
// cannot. It accrues nothing: an event that is refused leaves no trace.
func (a *account) admits(now int64, amounts []int64) bool {
	if a == nil {
		return true
	}
	admitted := true
	for i := range a.meters {
		m := &a.meters[i]
		need := amounts[m.rule.cost] * store.Milli
		m.balance = m.rule.held.Balance(m.tokens, m.at, now)
		lacks := need > 0 && need > m.balance && !m.rule.limit.Soft
		m.short, m.would = lacks && m.mode == store.Enforce, lacks && m.mode == store.Shadow
		admitted = admitted && !m.short
	}
	return admitted
}

// take debits the amounts, which the account admits.
func (a *account) take(now int64, amounts []int64) {
	if a == nil {
		return
	}
	for i := range a.meters {
		m := &a.meters[i]
		if need := amounts[m.rule.cost] * store.Milli; need > 0 && m.mode != store.Off && !m.would {
			m.tokens, m.at = m.balance-need, now
		}
	}
}
