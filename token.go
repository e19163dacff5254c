package limiter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/token"
	"github.com/zeroae/zae-limiter-go/store"
)

// Times of leases that are written down.
const (
	// TokenLife is how long a lease can be settled after it was first written down: as long as its
	// settlement is remembered.
	TokenLife = 7 * 24 * time.Hour
	// MaxTokenTime is the latest deadline, after the lease was first written down. At least a day
	// is left for a late settlement.
	MaxTokenTime = 6 * 24 * time.Hour
	// MinTokenKey is the least number of bytes of a key.
	MinTokenKey = token.MinKey

	// MinSlotsToken is the least time to the deadline of a lease with slots.
	MinSlotsToken = acquire.MinSlotsWritten

	// settlementMargin is how much longer than a token its record lives: longer than clocks differ,
	// and than a settlement is under way.
	settlementMargin = time.Hour
)

// Token writes the lease down, for any process that has a key to settle it: see [Limiter.Resume].
// It needs [Options.TokenKeys]. The token says what the lease took, and of which period, for all
// its resources. It is 111 characters for two limits of one resource: letters, digits, "-" and
// "_". Nothing is written to the store, unless the lease has slots. Any holder of the token can settle the
// lease, and nothing else; whoever has no key cannot make one.
//
// The lease is expected to be settled within the given time, of at least a second and at most
// [MaxTokenTime]. That is a deadline for metrics: a later settlement is late, and is carried out until
// [TokenLife] after the lease was first written down.
//
// Slots of the lease are held from then on until its settlement, or until the deadline, whatever becomes of
// this process. The time is at least [MinSlotsToken] then. Token writes that, in one write for each limit of
// slots: it waits for the store, and returns with ctx or after [Options.Timeout]. If it fails, the slots
// are held by this process as before; with [ErrSlotsLost] they are lost.
//
// Token hands the lease over, and closes it. Its own [Lease.Commit] fails from then on with
// [ErrHandedOver], and [Lease.Rollback] does nothing, as after a commit. [Limiter.Do] leaves it
// alone. Token of a lease that was resumed extends it: the new token is of the same lease, with a
// deadline that is not earlier, and one settlement settles both. It fails with [ErrSlotsLost] if the lease
// has slots, and they have been given back or their time was up: the lease can be settled nevertheless.
//
// Token fails with a [*ValidationError], and leaves the lease open, if it has adjustments that were
// not written (call [Lease.Release] with none, or adjust the resumed lease), or if it took from more
// shards than fit. It fails with a [*TokenError] if there is no key, and with [ErrLeaseClosed]. While a
// Release is under way, Token waits for its end.
func (l *Lease) Token(ctx context.Context, within time.Duration) (string, error) {
	ctx, seen := l.limiter.observe(ctx, Call{CallToken, l.entity, l.resource})
	seen.names(l)
	text, err := l.handOver(ctx, within, seen)
	seen.endOther(ctx, l, err)
	return text, err
}

// handOver writes a lease down, and closes it.
func (l *Lease) handOver(ctx context.Context, within time.Duration, seen *observation) (text string, err error) {
	what := "write down the lease of " + l.entity
	if err := l.limiter.writesDown(); err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	switch {
	case l.isPart:
		return "", aloneError(l.resource)
	case l.hasSlots() && within < MinSlotsToken:
		return "", &ValidationError{Field: "within", Value: within.String(), Reason: fmt.Sprintf("the lease has slots, which are held until then: give from %v to %v", MinSlotsToken, MaxTokenTime)}
	case within < time.Second || within > MaxTokenTime:
		return "", &ValidationError{Field: "within", Value: within.String(), Reason: fmt.Sprintf("give from 1s to %v", MaxTokenTime)}
	}
	begun, state := 0, leaseOpen
	defer func() {
		for i := range begun {
			l.part(i).end(state)
		}
	}()
	for i := range l.parts() {
		p := l.part(i)
		if err := p.lockOpen(ctx, what); err != nil {
			return "", err
		}
		p.state, p.settled = leaseSettling, make(chan struct{})
		p.mu.Unlock()
		begun++
	}
	form, err := l.form(within)
	if err != nil {
		return "", err
	}
	if err := l.endReservations(ctx, what); err != nil {
		return "", err
	}
	if err := l.writeSlotsDown(ctx, what, form); err != nil {
		return "", err
	}
	if l.resumed == nil {
		seen.reserves(l, (*Lease).Consumed)
	}
	state, l.handedOver = leaseClosed, true
	return l.limiter.tokenKeys.Sign(form), nil
}

// endReservations lets nothing of the lease go back any more if this process is lost (ADR 071): another one is to
// settle it. The caller settles the lease.
func (l *Lease) endReservations(ctx context.Context, what string) error {
	var sides []*acquire.Taken
	for i := range l.parts() {
		for _, side := range l.part(i).sides {
			if side.HasReserved() {
				sides = append(sides, side)
			}
		}
	}
	if len(sides) == 0 {
		return nil
	}
	d := l.limiter.driver
	if !d.Begin() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	defer d.End()
	bound, cancel := context.WithTimeout(ctx, d.Time())
	defer cancel()
	errs := make([]error, len(sides))
	d.AtOnce(len(sides), func(i int) { errs[i] = d.Settler.HandOver(bound, sides[i]) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// writeSlotsDown lets the slots of a lease end with its token, and not with this process. It extends those of
// a lease that was resumed. The caller settles the lease.
func (l *Lease) writeSlotsDown(ctx context.Context, what string, form *token.Lease) error {
	var held []*acquire.HeldSlots
	for i := range l.parts() {
		if slots := l.part(i).slots; slots != nil {
			held = append(held, slots)
		}
	}
	d := l.limiter.driver
	if !l.hasSlots() {
		return nil
	}
	if !d.Begin() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	defer d.End()
	if l.resumed != nil {
		bound, cancel := context.WithTimeout(ctx, d.Time())
		defer cancel()
		if err := d.ExtendSlots(bound, l.resumed, form); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	return d.WriteDown(ctx, what, held, acquire.EntryOf(form))
}

// slotsOf are the slots of the lease's resource at a place, as they are written down.
func (l *Lease) slotsOf(i int) []token.Slots {
	switch held := l.part(i).slots; {
	case held != nil:
		return held.Entries()
	case l.resumed != nil:
		return l.resumed.Resources[i].Slots
	}
	return nil
}

// form is a lease as it is written down. The caller settles the lease.
func (l *Lease) form(within time.Duration) (*token.Lease, error) {
	_, ns := l.limiter.driver.Once.Namespace()
	form := &token.Lease{Namespace: ns, Entity: l.entity, Degraded: l.degraded && !l.hasShares()}
	now := l.limiter.seconds()
	if was := l.resumed; was != nil {
		form.Made, form.Nonce = was.Made, was.Nonce
		form.Within = max(now-was.Made+int64(within.Seconds()), was.Within)
	} else {
		form.Made, form.Within = now, int64(within.Seconds())
		_, _ = rand.Read(form.Nonce[:]) // it never fails
	}
	if most := int64(MaxTokenTime.Seconds()); form.Within > most {
		return nil, &ValidationError{
			Field: "within", Value: within.String(),
			Reason: fmt.Sprintf("the lease was written down %v ago, and its deadline is at most %v after that", time.Duration(now-form.Made)*time.Second, MaxTokenTime),
		}
	}
	for i := range l.parts() {
		p := l.part(i)
		of := token.Resource{Name: p.resource, Slots: l.slotsOf(i)}
		for _, limit := range slices.Sorted(maps.Keys(p.owes)) {
			of.Owes = append(of.Owes, store.Amount{Limit: limit, Milli: p.owes[limit] * milli})
		}
		for _, side := range p.sides {
			s := token.Side{Entity: p.entity}
			if side.Claim != nil {
				s.Entity = side.Claim.Entity
			}
			switch {
			case l.degraded && !l.hasShares():
				s.Held = side.Assumed()
			case l.degraded && !p.isShared():
				continue // nothing was metered, so nothing comes back
			case !side.IsSettled(p.paid):
				return nil, &ValidationError{
					Field: "lease", Value: p.resource, Reason: "it has adjustments that are not written: call Release with no tokens before, or adjust the resumed lease",
				}
			case p.isShared():
				of.Sides = p.sharedSides()
				continue
			default:
				s.Held = side.Held()
			}
			of.Sides = append(of.Sides, s)
		}
		form.Resources = append(form.Resources, of)
	}
	if n := form.CountHeld(); n > token.MaxHeld {
		return nil, &ValidationError{
			Field: "lease", Value: strconv.Itoa(n), Reason: fmt.Sprintf("it took from more than %d shards: ask for fewer resources or tokens in one request", token.MaxHeld),
		}
	}
	return form, nil
}

// Resume makes of a token the lease that [Lease.Token] wrote down, in any process that has one of
// the keys. It reads nothing. [Lease.Settle], [Lease.Adjust] and [Lease.Resource] are as ever; the lease
// then is settled as a whole, by [Lease.Commit] or [Lease.Rollback], or extended by Token. It has no
// Statuses, and cannot Take or Release: acquire more with a lease of its own.
//
// A lease is settled once, even if a commit is repeated, or if several processes resume it. The
// settlement and a record of it are one transaction, of all buckets of the lease. The slots of the lease
// come back then, each once, also if the settlement fails. Whoever settles
// the lease again finds the record: a settlement with the same amounts returns nil, as the
// first one did, and another one fails with a [*SettledError], which has the amounts of the first.
// After any other error the lease stays open, and may be settled again, also with another
// process. Whatever has become of the buckets meanwhile, they do not get above their capacity; what
// was taken of a quota returns to its period, or is only counted as returned.
//
// Resume fails with a [*TokenError], which is [ErrToken] and says why: [ErrTokenInvalid],
// [ErrTokenKey], [ErrTokenVersion], [ErrTokenNamespace] or [ErrTokenExpired].
func (l *Limiter) Resume(text string) (*Lease, error) {
	const what = "resume a lease"
	if err := l.writesDown(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	form, err := l.tokenKeys.Open(text)
	switch {
	case errors.Is(err, token.ErrVersion):
		err = &TokenError{ErrTokenVersion, "settle the lease in a process with that version"}
	case errors.Is(err, token.ErrKey):
		err = &TokenError{ErrTokenKey, "add the key that signed it to Options.TokenKeys, after the first"}
	case err != nil:
		err = &TokenError{ErrTokenInvalid, "give it as Lease.Token returned it"}
	default:
		err = l.accepts(form)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	var lease *Lease
	for _, r := range form.Resources {
		part := l.makeLease(form.Entity, r.Name, nil)
		part.degraded, part.resumed, part.isPart = form.Degraded, form, lease != nil
		for _, s := range r.Sides {
			part.sides = append(part.sides, acquire.Restore(store.Bucket{Entity: s.Entity, Resource: r.Name}, s.Held))
		}
		part.owe(tokensBy(r.Owes))
		part.reserved = part.Consumed()
		lease = lease.with(part)
	}
	return lease, nil
}

// paid is what the store has debited of an entry, if the lease is as its acquire left it.
func (l *Lease) paid(e *acquire.Entry) int64 { return e.Total - l.owes[e.Limit]*milli }

// tokensBy are amounts in tokens by limit.
func tokensBy(amounts []store.Amount) map[string]int64 {
	tokens := make(map[string]int64, len(amounts))
	for _, a := range amounts {
		tokens[a.Limit] = a.Milli / milli
	}
	return tokens
}

// writesDown reports why the limiter has no leases that are written down.
func (l *Limiter) writesDown() error {
	if l.tokenKeys.AreNone() {
		return &TokenError{ErrTokenKey, noKeys}
	}
	if l.driver.Once == nil {
		return fmt.Errorf("%w: the store does not settle leases of other processes: use package dynamo", ErrUnsupported)
	}
	return nil
}

// seconds is the store's time since the Unix epoch, as tokens have it.
func (l *Limiter) seconds() int64 { return l.driver.Now() / time.Second.Milliseconds() }

// accepts reports why a lease cannot be settled here or now, as a [*TokenError].
func (l *Limiter) accepts(form *token.Lease) error {
	if _, ns := l.driver.Once.Namespace(); form.Namespace != ns {
		return &TokenError{ErrTokenNamespace, "settle the lease with a limiter of the namespace with the id " + form.Namespace}
	}
	if form.Made+int64(TokenLife.Seconds()) < l.seconds() {
		return &TokenError{ErrTokenExpired, fmt.Sprintf("it was made more than %v ago, so what the lease took stays debited: reset or top up the bucket", TokenLife)}
	}
	return nil
}

// Deadline is until when a lease that was resumed is expected to be settled, by the clock of the
// store; the zero time for any other lease.
func (l *Lease) Deadline() time.Time {
	if l.resumed == nil {
		return time.Time{}
	}
	return time.Unix(l.resumed.Made+l.resumed.Within, 0).UTC()
}

// resumedError says that a lease that was resumed cannot do what only the lease of an acquire can.
func resumedError(what string) error {
	return &ValidationError{Field: "lease", Value: what, Reason: "a lease that was resumed is settled once: adjust it and commit, or acquire more with a lease of its own"}
}

// aloneError says that a resource of a resumed lease cannot be settled alone.
func aloneError(resource string) error {
	return &ValidationError{Field: "resource", Value: resource, Reason: "a lease that was resumed is settled as a whole: settle the lease that Resume returned"}
}

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
		return d.EndSlots(bound, l.resumed)
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
	write := func(ctx context.Context) error {
		var errs [2]error
		d.AtOnce(len(errs), func(i int) {
			if i == 0 {
				before, errs[0] = d.Settler.SettleOnce(ctx, record, sides, how.target)
			} else {
				errs[1] = d.EndSlots(ctx, l.resumed)
			}
		})
		return errors.Join(errs[:]...)
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
