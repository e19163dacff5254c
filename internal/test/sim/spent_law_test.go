package sim_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// This file has the law of what a quota gives in a period, and of what it takes into the
// next.

// A carry is what a quota takes into the next period: at most so much of what is left, and
// its debt.
type carry struct {
	most int64
	debt bool
}

// carryOf is the carry that an item says: "20", "20d", "d" or "".
func carryOf(code string) carry {
	tokens, debt := strings.CutSuffix(code, "d")
	if tokens == "" {
		return carry{debt: debt}
	}
	n, err := strconv.ParseInt(tokens, 10, 64)
	must(err)
	return carry{n * 1000, debt}
}

// drawCarry draws what a quota carries.
func drawCarry(r *rand.Rand, amount int64) limiter.Carry {
	return limiter.Carry{Rollover: pick(r, 0, 0, 1, amount/2, 3*amount), Debt: chance(r, 0.5)}
}

// turned is what a quota holds after the ends of one period or several. At each end, it gets
// its share, and what it carries:
//
//	holds -3 of 10, carries debt    7 of 10
//	holds 4 of 10, carries 2        12 of 10
func (l level) turned(rf, now int64) int64 {
	if l.opened != 0 || l.varies != nil { // none of these carries anything
		return l.in(max(rf, now)).full
	}
	tk := min(l.tk, l.cp)
	for end := l.renews.next(rf); end <= now; end = l.renews.next(end) {
		held := tk
		if !l.carry.debt {
			held = max(0, held)
		}
		if tk = l.full + min(held, l.carry.most); tk == held {
			break // as at all later ends
		}
	}
	return tk
}

// toppedAt is what a quota may hold above its share at an instant: what it carried into the
// period, and what it was topped up by.
func (l level) toppedAt(rf, now int64) int64 {
	if l.renewed(rf, now) {
		return max(0, l.turned(rf, now)-l.in(now).full)
	}
	return l.topped
}

// A period is a period of a quota.
type period struct {
	of  *recurrence
	end int64
}

// taken is what was taken of a quota in a period.
type taken struct {
	net, amount int64
	settled     int64 // without being asked for
	given       int64 // by operators
	again       int64 // how often it begins again, after a stamp was moved back to before it
	// loose says that what was admitted may exceed the amount in force: shards and edits keep what was
	// admitted under a larger one, and so does an item whose stamp was moved back.
	loose bool
	acts  map[int]bool
	// back is how often each shard came back to the quota, from a rate or another calendar.
	back map[int]int64
	// most is the most that is carried into the next period, and owes whether all debts are.
	most int64
	owes bool
}

// A ledger is what was taken of a quota in all periods.
type ledger map[period]*taken

// at is the entry of a period.
func (l ledger) at(p period) *taken {
	if l[p] == nil {
		l[p] = &taken{acts: map[int]bool{}, back: map[int]int64{}, owes: true}
	}
	return l[p]
}

// carried is what a quota takes into a period at most. It is below zero for a debt.
func (l ledger) carried(p period) (into int64) {
	last := period{of: p.of}
	for q := range l {
		if q.of == p.of && q.end < p.end && q.end > last.end {
			last = q
		}
	}
	of := l[last]
	if of == nil || p.of.session != 0 {
		return 0
	}
	left, owes := of.allowed()+l.carried(last)-of.net, of.owes && l[p].owes
	if owes {
		left -= of.settled
	}
	for end := last.end; end < p.end; end = p.of.next(end) { // periods in which nobody took anything
		if !owes {
			left = max(0, left)
		}
		if into = min(left, max(of.most, l[p].most)); of.amount+into == left {
			break
		}
		left = of.amount + into
	}
	return into
}

// onePeriod is promise P11, over all shards of a bucket: in a period, as the stamps say, a
// quota gives its amount and what comes back, whatever clocks say, and whoever races and
// retries. What it takes from one period into the next follows from what it gave in all of
// them.
//
//	admitted − returned ≤ amount + top-ups + what resets gave + what is carried
//	of which the last is at most what the period before has left, and what is rolled over
//
// What is taken while the quota is soft counts on both sides, since it may come back. If an
// operator changes the amount, the largest one counts. With a timetable, it is the amount in force at the
// stamp of each admission, unless there were shards: what one owes, others do not know. Nor unless the stamp
// was moved back: nobody knows what was cut until then, nor after that until all quotas of the item that vary have
// begun a period. A limit that was a rate in the
// meantime, or renewed by another calendar, has earned by that. So it gives the amount once
// more for each time that it became this quota again. As with rates, so does an act of an
// operator that adds the limit, or deletes the bucket. A clock far ahead moves the stamp on. A client
// that finds that out moves it back, by a clock of its own, maybe to before the edge of a period that
// had begun. The next tokens come with the edge. So the period gives the amount once more. Debts
// count where they are of one item, all edits carry them, and no operator deleted them: a shard gives
// what it has, whatever another one owes.
func (c *checker) onePeriod(id bucketID, name string, flows []flow) {
	sums, had, healed := ledger{}, map[period]map[int]bool{}, false
	for _, f := range flows {
		healed = healed || f.heals
		if f.is.renews == nil {
			continue
		}
		p := period{f.is.renews, f.end}
		sum := sums.at(p)
		if had[p] == nil {
			had[p] = map[int]bool{}
		}
		sum.most = max(sum.most, f.is.carry.most, f.was.carry.most)
		sum.loose = sum.loose || c.sharded[id.whole()] || !f.is.sameParams(f.was) || f.heals || healed && !f.is.inStep
		if sum.amount = max(sum.amount, f.is.amount()); f.is.varies != nil && !sum.loose {
			sum.amount = f.is.of(0, 1).in(f.stamp).full
		}
		sum.owes = sum.owes && f.granted == 0 && f.is.carry.debt && f.was.carry.debt && !c.sharded[id.whole()] && !f.is.isSoft() && !f.was.isSoft()
		switch {
		case f.was.renews == f.is.renews && (f.is.varies == nil || sum.loose):
			sum.amount = max(sum.amount, f.was.amount())
		case f.was.renews == f.is.renews:
		case had[p][f.shard]:
			sum.back[f.shard]++
		}
		if f.was.renews != f.is.renews {
			sum.given += f.is.topped // under the other calendar
		}
		had[p][f.shard] = true
		if f.heals && f.ended != f.end {
			of := sums.at(period{f.was.renews, f.ended})
			of.again, of.loose = of.again+1, true
		}
		if f.granted != 0 {
			sum.acts[f.granted] = true
		}
		sum.given += f.given
		sum.settled += f.settled
		sum.net += f.admitted - f.returned
		allowed := sum.allowed() + sums.carried(p)
		if sum.owes {
			allowed -= sum.settled
		}
		if sum.net > allowed && f.admitted > f.returned {
			c.violate("P11", time.Duration(f.at), &id, "%s admitted %d in the period until %d, allowed is %d", name, sum.net, f.end, allowed)
			return
		}
	}
}

// allowed is what a quota may give in a period, besides what it carries into it.
func (t *taken) allowed() int64 {
	times := 1 + t.again + int64(len(t.acts))
	var back int64
	for _, n := range t.back {
		back = max(back, n)
	}
	return t.amount*(times+back) + t.given
}
