package sim_test

import (
	"fmt"
	"slices"

	limiter "github.com/zeroae/zae-limiter-go"
)

// This file has the law of sessions. A session is a quota whose period begins with its first
// use: the item says when. A session that has ended leaves a full balance, of no session,
// until a debit begins the next one.

// noSession is when the session of a balance began that is of none.
const noSession = 1

// sessionOf is the recurrence of sessions of a length in seconds.
func sessionOf(seconds int64) *recurrence {
	recurrences.Lock()
	defer recurrences.Unlock()
	i := slices.IndexFunc(recurrences.all, func(r *recurrence) bool { return r.session == seconds*1000 })
	if i >= 0 {
		return recurrences.all[i]
	}
	renews, err := limiter.ParseRenewal(fmt.Sprintf("session %ds", seconds), "")
	must(err)
	r := &recurrence{renews: renews, pattern: pattern{session: seconds * 1000}}
	recurrences.all = append(recurrences.all, r)
	return r
}

// isSession reports whether a limit is a session.
func (l level) isSession() bool { return l.renews != nil && l.renews.session != 0 }

// opens is when the session begins that a balance is of after a refill from one instant to
// another, which debits and makes the limit another one.
func (l level) opens(rf, now, debit int64, next level) int64 {
	switch {
	case !next.isSession():
		return 0
	case !l.isSession():
		return now // with what the other limit has left
	case !l.renewed(rf, now):
		return l.opened
	case debit > 0:
		return now
	}
	return noSession
}
