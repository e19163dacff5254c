package replay

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// An account is the bucket of an entity for a resource. What an event touches is together
// in memory, because each event is of another account, which is seldom in a cache.
type account struct {
	meters []meter // in few, unless there are more
	few    [2]meter
	number int // of the accounts, in the order in which they were met

	usage

	entity, resource string
}

// A balance is what an account has of a limit. The zero value is of one that was never used.
type balance struct {
	tokens int64 // millitokens
	as     int64 // the instant up to which they have accrued
	opened int64 // when the last session began, if the limit is one
	used   bool
}

// of is the limit with the session of the balance, what it had last and when. An account begins
// full with the first event that it serves, and has carried nothing.
func (b *balance) of(l *bucket.Limit, now int64) (is bucket.Limit, tokens, as int64) {
	if !b.used {
		is = l.At(now)
		return *l, is.Capacity - is.Rollover, now
	}
	is = *l
	is.Opened = b.opened
	return is, b.tokens, b.as
}

// at is the balance at an instant.
func (b *balance) at(l *bucket.Limit, now int64) int64 {
	is, tokens, as := b.of(l, now)
	return is.Balance(tokens, as, now)
}

// wait is how long a need waits for the balance; not ok if it never has that.
func (b *balance) wait(l *bucket.Limit, now, need int64) (ms int64, ok bool) {
	is, tokens, as := b.of(l, now)
	return is.Wait(tokens, as, now, need)
}

// set sets the balance that a debit leaves. The first debit after a session begins the next one.
func (b *balance) set(l *bucket.Limit, tokens, now int64) {
	if l.Renewal != nil && l.Renewal.Session() != 0 {
		b.opened = l.Renewal.Window(b.opened, now).Start
	}
	b.tokens, b.as, b.used = tokens, now, true
}

// A meter is one limit of an account: its balance, and what it refused.
type meter struct {
	rule *rule
	balance
	now      int64   // the balance in millitokens at the event under way, and after it
	lowest   float64 // the lowest share of the capacity that an admitted event left
	refused  int64
	place    int  // of the account among those of the rule
	short    bool // the event under way is refused by this limit
	mode     store.Mode
	shadowed int64 // events that a limit in shadow would have refused
	would    bool  // the event under way is one of them
}

func newAccount(entity, resource string, number int, held []*rule) *account {
	a := &account{entity: entity, resource: resource, number: number}
	if a.meters = a.few[:0]; len(held) > len(a.few) {
		a.meters = make([]meter, 0, len(held))
	}
	for _, r := range held {
		a.meters = append(a.meters, meter{rule: r, mode: r.limit.Of(entity).Mode, place: r.accounts, lowest: 1})
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
		m.now = m.at(&m.rule.held, now)
		lacks := need > 0 && need > m.now && !m.rule.limit.Soft
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
		need := amounts[m.rule.cost] * store.Milli
		if need == 0 || m.mode == store.Off || m.would {
			if !m.used {
				m.tokens, m.as, m.used = m.now, now, true // no session begins
			}
			continue
		}
		m.now -= need
		m.set(&m.rule.held, m.now, now)
	}
}
