package dynamo_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/internal/plan"
)

// stray refills and takes by a clock that is far ahead: often so far that a period begins early.
func (l *ledger) stray() bool {
	img := l.any()
	d := &plan.Debit{Bucket: img.Bucket, Amounts: l.amounts(img), Pressing: true}
	ahead := rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 40 * 24 * time.Hour}).Draw(l.T, "ahead")
	return l.refillAt(img, d, l.clock()+ahead.Milliseconds())
}

// heal moves a stamp back that is far ahead. A period that was left comes back empty: what it had
// given, and owed, is not known any more.
func (l *ledger) heal() bool {
	img, now := l.any(), l.clock()
	if !plan.IsAhead(img, now) {
		return false
	}
	out, err := l.store.Refill(l.Context(), plan.Healed(img, now, lawMultiplier))
	if !l.check(out.Applied, err) {
		return false
	}
	was := l.last(img.Shard)
	for i := range out.Image.Limits { // the fast clock may have taken early what a schedule gives later
		s := &out.Image.Limits[i]
		old, _ := was.Limit(s.Name)
		if p := (lawPeriod{s.Name, plan.PeriodEnd(out.Image, s.Name)}); s.Renewal != nil && s.Varies != nil && p.end == plan.PeriodEnd(was, s.Name) {
			l.slack[p] += max(0, lack(was, &old)-lack(out.Image, s))
		}
	}
	l.look(nil, true)
	crossed := false
	for i := range out.Image.Limits {
		s := &out.Image.Limits[i]
		end := plan.PeriodEnd(out.Image, s.Name)
		old, _ := was.Limit(s.Name)
		switch {
		case s.Renewal == nil:
		case end == plan.PeriodEnd(was, s.Name):
			if s.Tokens != old.Tokens && (s.Varies == nil || s.Tokens > old.Tokens || out.Image.InStep) {
				l.Fatalf("%s had %d in the same period before its stamp was moved back, and has %d", s.Name, old.Tokens, s.Tokens)
			}
		default:
			crossed = true
			if s.Tokens > 0 || s.Tokens > old.Tokens {
				l.Fatalf("%s comes back to a period with %d, and had %d", s.Name, s.Tokens, old.Tokens)
			}
			l.slack[lawPeriod{s.Name, end}] -= capacity(out.Image, s)
		}
	}
	return crossed
}
