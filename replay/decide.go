package replay

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// An account is the bucket of an entity for a resource.
type account struct {
	entity, resource string
	number           int // of the accounts, in the order in which they were met
	meters           []meter

	usage
}

// A meter is one limit of an account: its balance, and what it refused.
type meter struct {
	bucket.Limit

	rule       *rule
	place      int   // of the account among those of the rule
	tokens, at int64 // the balance in millitokens, and the instant up to which it has accrued
	balance    int64 // the balance at the event under way

	refused int64
	lowest  int64 // the lowest balance after an admitted event
	short   bool  // the event under way is refused by this limit
}

func newAccount(entity, resource string, number int, held []*rule) *account {
	a := &account{entity: entity, resource: resource, number: number, meters: make([]meter, len(held))}
	for i, r := range held {
		l := arithmetic(&r.limit)
		a.meters[i] = meter{Limit: l, rule: r, place: r.accounts, tokens: l.Capacity, lowest: l.Capacity}
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
		m.balance = m.Balance(m.tokens, m.at, now)
		m.short = need > 0 && need > m.balance
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
		if need := amounts[m.rule.cost] * store.Milli; need > 0 {
			m.tokens, m.at = m.balance-need, now
		}
	}
}
