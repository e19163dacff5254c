package dynamo_test

import (
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// look checks the items after a write that took amounts.
func (l *ledger) look(amounts []store.Amount, refills bool) {
	before, after := l.see()
	if l.checks != nil {
		l.checks(before, after, amounts)
		return
	}
	for _, img := range after {
		l.checkValidity(img, refills)
		l.checkRenewal(img, before, amounts, len(after) > 1)
	}
	for _, img := range after {
		for i := range img.Limits {
			s := &img.Limits[i]
			if s.Renewal == nil {
				continue
			}
			p := lawPeriod{s.Name, plan.PeriodEnd(img, s.Name)}
			l.slack[p] += lack(img, s) + l.uncut(img, s.Name, before)
			if a := amountOf(amounts, s.Name); a.Milli > 0 || a.Until == p.end {
				l.slack[p] -= a.Milli
			} else if l.edited[lawPeriod{s.Name, a.Until}] == p.end {
				l.slack[p] += returned(img, s, before)
			}
		}
	}
	for _, img := range before {
		for i := range img.Limits {
			s := &img.Limits[i]
			// The lack of a shard in a period that it has left stays there.
			p := lawPeriod{s.Name, plan.PeriodEnd(img, s.Name)}
			if s.Renewal != nil && goesOn(p, img, after) {
				l.slack[p] -= lack(img, s)
			}
			l.carry(img, s, after)
		}
	}
	for p, slack := range l.slack {
		if slack < 0 {
			l.Fatalf("%s until %d: %d millitokens are there twice", p.limit, p.end, -slack)
		}
	}
}

// uncut is what a quota that is out of step keeps where a lower amount begins, and that one in step
// loses: its balance is only cut to the lower amount. A shard that a merge ends may be out of step, too.
func (l *ledger) uncut(img *store.Image, limit string, before []*store.Image) (uncut int64) {
	for _, was := range before {
		old, ok := was.Limit(limit)
		if was.Shard%img.ShardCount != img.Shard || !ok || old.Renewal == nil || old.Varies == nil || plan.Renewed(was, &old, img.RefilledAt) {
			continue
		}
		is, _ := img.Limit(limit)
		if plan.ShareOf(was, &old).InStep && (img.InStep || is.Varies == nil) {
			continue
		}
		amount := func(at int64) int64 { return plan.Share(*old.Params, was.Shard, was.ShardCount, at).Renewed }
		uncut += max(0, amount(was.RefilledAt)-amount(max(was.RefilledAt, img.RefilledAt)))
	}
	return uncut
}

// carry notes what a shard holds above its share when an edit gives it another calendar, and so
// another period. A shard with a peer's grant of fewer shards may hold what was returned to it, and
// what others lack in the period before.
func (l *ledger) carry(was *store.Image, old *store.LimitState, after []*store.Image) {
	for _, img := range after {
		s, _ := img.Limit(old.Name)
		if img.Shard == was.Shard && old.Renewal != nil && s.Renewal != nil && s.Renewal != old.Renewal && !plan.Renewed(was, old, img.RefilledAt) {
			end := plan.PeriodEnd(img, old.Name)
			l.edited[lawPeriod{old.Name, plan.PeriodEnd(was, old.Name)}] = end
			l.slack[lawPeriod{old.Name, end}] += max(0, -lack(was, old))
		}
	}
}

// returned is what a credit of a period that an edit has ended brought to the period that goes
// on in its place: nothing, unless the credit was worked out before the edit.
func returned(img *store.Image, s *store.LimitState, before []*store.Image) int64 {
	for _, was := range before {
		if old, _ := was.Limit(s.Name); was.Shard == img.Shard {
			return max(0, lack(was, &old)-lack(img, s))
		}
	}
	return 0
}

// goesOn reports whether what a shard held in a period is held by itself in that period, or by
// another shard that took it over.
func goesOn(p lawPeriod, was *store.Image, after []*store.Image) (elsewhere bool) {
	for _, img := range after {
		in := plan.PeriodEnd(img, p.limit) == p.end
		if img.Shard == was.Shard {
			return in
		}
		elsewhere = elsewhere || in && img.Shard == was.Shard%img.ShardCount
	}
	return elsewhere
}

func amountOf(amounts []store.Amount, limit string) store.Amount {
	for _, a := range amounts {
		if a.Limit == limit {
			return a
		}
	}
	return store.Amount{}
}

// checkValidity checks until when an item takes debits, and until when it lives.
func (l *ledger) checkValidity(img *store.Image, refills bool) {
	next := plan.NextPeriod(img)
	if !refills && img.ValidUntil == 0 {
		return // a peer asked for a trim, which no refill has done yet
	}
	// An edit of a schedule moves the end back, also if it removes the schedule.
	earlier := l.varied && img.RefilledAt < img.ValidUntil && img.ValidUntil < next
	if img.HasValidUntil != (next != 0) || img.ValidUntil != next && !earlier {
		l.Fatalf("shard %d at %d is valid until %d, want %d", img.Shard, img.RefilledAt, img.ValidUntil, next)
	}
	const week, rounding = 7 * 24 * 3_600_000, 2000
	for i := range img.Limits {
		r := img.Limits[i].Renewal
		if r != nil && refills && img.ExpiresAt*1000 < r.Next(r.Next(l.now-5000))+week-rounding {
			l.Fatalf("shard %d at %d expires at %d", img.Shard, l.now, img.ExpiresAt)
		}
	}
}

// checkRenewal checks that a quota that begins a period is full, but for what the write took.
func (l *ledger) checkRenewal(img *store.Image, before []*store.Image, amounts []store.Amount, born bool) {
	if born {
		return
	}
	for _, was := range before {
		if was.Shard != img.Shard || was.ShardCount != img.ShardCount {
			continue
		}
		for i := range img.Limits {
			s := &img.Limits[i]
			old, _ := was.Limit(s.Name)
			if old.Renewal == nil || s.Renewal == nil || l.operation != nil && amountOf(l.operation.Amounts, s.Name).Limit != "" {
				continue
			}
			if old.Varies != nil && img.RefilledAt < was.RefilledAt {
				continue // healed: see [ledger.heal]
			}
			renewed := old.Renewal.Next(was.RefilledAt) <= img.RefilledAt
			switch took := max(0, amountOf(amounts, s.Name).Milli); {
			case renewed && s.Granted() != store.Granted{}:
				l.Fatalf("%s has %+v of the period before", s.Name, s.Granted())
			case renewed && lack(img, s) != took:
				l.Fatalf("%s of shard %d begins a period and lacks %d, of which %d were taken", s.Name, img.Shard, lack(img, s), took)
			case !renewed && amountOf(amounts, s.Name).Milli >= 0 && lack(img, s)+l.uncut(img, s.Name, before) < lack(was, &old)+took:
				l.Fatalf("%s of shard %d gets %d in a period", s.Name, img.Shard, lack(was, &old)+took-lack(img, s))
			}
		}
	}
}
