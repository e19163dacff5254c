package limiter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// settleResumed settles a lease that was resumed, once for all processes that have its token.
func (l *Lease) settleResumed(ctx context.Context, how *ending) error {
	if l.isPart {
		return aloneError(l.resource)
	}
	ctx, seen := l.limiter.observe(ctx, Call{how.kind, l.entity, l.resource})
	seen.names(l)
	err := l.settleOnce(ctx, how, seen)
	seen.endOther(ctx, l, err)
	return err
}

// settleOnce settles a lease that was resumed.
func (l *Lease) settleOnce(ctx context.Context, how *ending, seen *observation) error {
	what, d := how.name+" the resumed lease of "+l.entity, l.limiter.driver
	if err := l.limiter.accepts(l.resumed); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !d.Begin() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	_, err := process.CarryOut(ctx, d.Process, what, func(bound context.Context) (struct{}, error) {
		was := l.begin()
		if was.isBusy() {
			was = l.wait()
			bound = d.Detach(bound) // the wait may have used up the time of the call
		}
		if was == leaseClosed {
			return struct{}{}, nil
		}
		for _, p := range l.also {
			p.begin()
		}
		err := l.settleBegun(ctx, bound, how, seen)
		state := leaseOpen
		if err == nil || errors.Is(err, ErrSettled) {
			state = leaseClosed
		}
		for i := range l.parts() {
			l.part(i).end(state)
		}
		return struct{}{}, err
	})
	return err
}

// settleBegun writes the settlement of a lease that the caller settles. ctx is that of the call,
// and bound that of its work.
func (l *Lease) settleBegun(ctx, bound context.Context, how *ending, seen *observation) error {
	d, sides := l.limiter.driver, []*acquire.Taken(nil)
	for i := range l.parts() {
		sides = append(sides, l.part(i).sides...)
	}
	if l.degraded || len(sides) == 0 {
		return nil
	}
	for i := range l.parts() {
		seen.settles(l.part(i), how)
	}
	seen.reserves(l, func(p *Lease) map[string]int64 { return p.reserved })
	record := store.SettlementRecord{
		Bucket: sides[0].First(), Key: l.resumed.ID(), Totals: l.totals(how),
		ExpiresAt: time.Unix(l.resumed.Made, 0).Add(TokenLife + settlementMargin),
	}
	var before *store.SettlementRecord
	write := func(ctx context.Context) (err error) {
		before, err = d.Settler.SettleOnce(ctx, record, sides, how.target)
		return err
	}
	err := write(bound)
	if d.HasReturned(ctx, bound) {
		if errors.Is(err, ErrThrottled) {
			err = d.Insist(bound, write)
		}
		l.logUnsettled(ctx, how.name, err)
	}
	if err != nil {
		return err
	}
	for i := range l.parts() {
		l.part(i).rouse()
	}
	seen.settledOnce(d.Now() > l.Deadline().UnixMilli(), before != nil)
	if before != nil && !maps.Equal(before.Totals, record.Totals) {
		return settledError(l.entity, before)
	}
	return nil
}

// totals are what a settlement leaves taken, in tokens, for its record.
func (l *Lease) totals(how *ending) map[string]int64 {
	totals := map[string]int64{}
	for i := range l.parts() {
		p := l.part(i)
		for limit, tokens := range p.Consumed() {
			if how == rollBack {
				tokens = 0
			}
			totals[p.resource+totalsSeparator+limit] = tokens
		}
	}
	return totals
}

// totalsSeparator stands between resource and limit in a record. No limit's name has it.
const totalsSeparator = "/"

// settledError says what an earlier settlement did.
func settledError(entity string, before *store.SettlementRecord) error {
	e := &SettledError{Entity: entity, Consumed: map[string]map[string]int64{}}
	for name, tokens := range before.Totals {
		at := strings.LastIndex(name, totalsSeparator)
		if at < 0 {
			continue // of a later version
		}
		resource, limit := name[:at], name[at+1:]
		if e.Consumed[resource] == nil {
			e.Consumed[resource] = map[string]int64{}
		}
		e.Consumed[resource][limit] = tokens
	}
	return e
}
