package acquire

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/outage"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/token"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// A probe waits for a tenth of the time of a call, and the next one begins between leastPause
	// and mostPause after it. So with the default time, a process finds the store within 0.9 s.
	probePart  = 10
	leastPause = 100 * time.Millisecond
	mostPause  = 400 * time.Millisecond
	// payers is how many debts a process pays at the same time.
	payers = 16
	// debtLife is how long the record of a debt is kept, so that no repeated try debits it again.
	debtLife = 8 * 24 * time.Hour
	// mostTries is how often a process tries to pay a debt that the store turns away.
	mostTries = 30
)

// OutageOptions configure an [Outage].
type OutageOptions struct {
	// Processes is the least number of processes that are taken to share each bucket; at least 1.
	Processes int
	// Buckets is the most buckets of which there are shares.
	Buckets int
	// Admits says that requests for buckets without a share are admitted, and not metered.
	Admits bool
}

// An Outage is what a process knows of whether the store is away, and what it admits meanwhile
// (ADR 061).
//
//	calm ── a call of a caller that shares is not answered ──▶ in doubt: one goroutine probes
//	 ▲          in doubt ── the probe is answered ──▶ calm
//	 │          in doubt ── it is not ──▶ away: such callers are decided here, by the book
//	 └── all debts are paid ── back: each bucket pays before its next take ◀── a probe is answered
//
// The naive way lets each call try the store, and wait for its time. Then each takes seconds while
// the store is away, and all of them fall upon it when it comes back. Here one goroutine asks, with
// a read, which changes nothing if its answer is lost.
//
// Races: a take of a bucket that owes waits for the payment, which is one for all its callers. A
// caller that was decided here as the store came back adds to the debt, or is told that it is paid.
// A payment whose answer is lost is repeated as it is, and its record lets only one apply.
type Outage struct {
	*process.Process

	o        OutageOptions
	accounts *accounts
	settler  *Settler
	holder   *slots.Holder // nil if the store keeps none
	book     *outage.Book
	busy     atomic.Bool // the state is not calm: all that a call reads while it is
	Counts   OutageCounts
	watcher  func() // is watch, whose contexts are its own: it is no call's work

	mu          sync.Mutex
	away        bool
	since       memory.Moment // when it was found to be away
	why         error
	watching    bool
	verdict     chan struct{} // closed when the first probe since it was watched has ended
	tries       int           // of payments that were turned away, since one was not
	spentBefore int64         // the count of what was spent as the store was lost
}

// OutageCounts are what a process has seen of outages.
type OutageCounts struct {
	Outages  atomic.Uint64 // how often the store was lost
	Admitted atomic.Uint64 // requests that were admitted by shares
	Refused  atomic.Uint64 // requests that shares refused, or that had none
	Spent    atomic.Int64  // millitokens of debts that were paid
	Lost     atomic.Int64  // of those that were given up
}

func newOutage(p *process.Process, o OutageOptions, a *accounts, s *Settler, h *slots.Holder) *Outage {
	o.Processes = max(1, o.Processes)
	of := &Outage{Process: p, o: o, accounts: a, settler: s, holder: h, book: outage.NewBook(cmp.Or(o.Buckets, p.Memory))}
	of.watcher = of.watch
	return of
}

// IsOutage reports whether an error says that the store is away. One that throttles is there, and so
// is one that denies access.
func IsOutage(err error) bool {
	return errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrThrottled) && !errors.Is(err, store.ErrAccessDenied)
}

// Shares reports whether the process can share: the store must settle debts once.
func (o *Outage) Shares() bool { return o.Once != nil }

// IsBusy reports whether a call must ask whether the store is away, or its buckets owe something.
func (o *Outage) IsBusy() bool { return o.busy.Load() }

// IsAway reports whether the store is away, and why.
func (o *Outage) IsAway() (is bool, why error) {
	if !o.busy.Load() {
		return false, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.away, o.why
}

// Lose notes that the store did not answer a call in all its time.
func (o *Outage) Lose(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.loseLocked(why)
	o.watchLocked()
}

func (o *Outage) loseLocked(why error) {
	o.busy.Store(true)
	if o.away {
		return
	}
	o.away, o.since, o.why, o.spentBefore = true, o.Moment(), why, o.Counts.Spent.Load()
	o.Logger.Warn("the store is away: requests get this process's share", "processes", o.o.Processes, "error", why)
	o.Counts.Outages.Add(1)
}

// Doubt has the store probed, because a caller had no answer. The channel is closed when it is known
// whether the store is away.
func (o *Outage) Doubt() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		return closedChannel
	}
	o.watchLocked()
	return o.verdict
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// watchLocked starts the goroutine that probes, unless there is one.
func (o *Outage) watchLocked() {
	if o.watching || !o.Begin() {
		if !o.watching { // the limiter is being closed
			o.verdict = closedChannel
		}
		return
	}
	o.watching, o.verdict = true, make(chan struct{})
	o.Run(func() {
		defer o.End()
		o.watcher()
	})
}

// watch probes until the store is there and nothing is owed.
func (o *Outage) watch() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for first := true; ; first = false {
		err := o.probe()
		o.mu.Lock()
		if err != nil {
			o.loseLocked(err)
		}
		back, took, before := err == nil && o.away, o.Uptime()-o.since.Up, o.spentBefore
		if err == nil {
			o.away = false
		}
		if first {
			close(o.verdict)
		}
		o.mu.Unlock()
		paid := err == nil && o.payAll()
		if back {
			o.Logger.Warn("the store is back", "away", took.Round(time.Millisecond), "degraded_spent", (o.Counts.Spent.Load()-before)/store.Milli)
		}
		if paid && o.rest() {
			return
		}
		pause.Reset(leastPause + time.Duration(o.Rand(int64(mostPause-leastPause))))
		select {
		case <-pause.C:
		case <-o.Closing():
			o.stop()
			return
		}
	}
}

// probe reads the system's level of configuration. It fails if the store is away.
func (o *Outage) probe() error {
	ctx, cancel := context.WithTimeout(context.Background(), o.Time()/probePart)
	defer cancel()
	if _, err := o.Store.Load(ctx, &store.Load{Configs: []store.ConfigKey{{}}, Consistent: true}); IsOutage(err) || ctx.Err() != nil {
		return cmp.Or(err, process.Unavailable(ctx.Err()))
	}
	return nil
}

// rest ends the watch, unless the store has been lost again, or shares have been made since.
func (o *Outage) rest() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away || o.book.Len() > 0 {
		return false
	}
	o.watching, o.tries = false, 0
	o.busy.Store(false)
	return true
}

// stop ends the watch because the process closes. It tries once more to pay.
func (o *Outage) stop() {
	o.mu.Lock()
	away := o.away
	o.mu.Unlock()
	if !away || o.probe() == nil {
		o.payAll()
	}
	o.giveUp(o.book.All(), errClosedOwing)
}

// errClosedOwing is why debts are given up: the process ended before it could pay them.
var errClosedOwing = errors.New("the limiter was closed while the store was away")

// payAll pays what all buckets owe. It reports whether nothing is left to pay.
func (o *Outage) payAll() bool {
	all := o.book.All()
	var failed, turnedAway atomic.Bool
	for of := range slices.Chunk(all, payers) {
		o.AtOnce(len(of), func(i int) {
			ctx, cancel := context.WithTimeout(context.Background(), o.Time())
			defer cancel()
			switch err := o.pay(ctx, of[i]); {
			case err == nil:
			case IsOutage(err):
				o.Lose(err)
				failed.Store(true)
			default:
				turnedAway.Store(true)
			}
		})
		if failed.Load() {
			return false
		}
	}
	if !turnedAway.Load() {
		return true
	}
	o.mu.Lock()
	o.tries++
	tries := o.tries
	o.mu.Unlock()
	if tries < mostTries {
		return false
	}
	o.giveUp(all, fmt.Errorf("the store turned them away %d times", tries))
	return true
}

// giveUp drops what shares owe.
func (o *Outage) giveUp(shares []*outage.Share, why error) {
	var lost int64
	for _, s := range shares {
		for {
			d, busy := o.book.Pay(s, o.newID(), o.Now())
			if busy != nil {
				<-busy
				continue
			}
			if d == nil {
				break
			}
			lost += d.Spent()
			o.book.Paid(s, true)
		}
	}
	if lost > 0 {
		o.Counts.Lost.Add(lost)
		o.Logger.Error("what an outage took was not debited", "buckets", len(shares), "degraded_spent", lost/store.Milli, "error", why)
	}
}

// newID is an ID that nobody else has.
func (o *Outage) newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return "outage:" + hex.EncodeToString(id[:])
}

// pay tells the store what a share owes, until it owes nothing.
func (o *Outage) pay(ctx context.Context, s *outage.Share) error {
	for {
		d, busy := o.book.Pay(s, o.newID(), o.Now())
		switch {
		case busy != nil:
			select {
			case <-busy:
				continue
			case <-ctx.Done():
				return process.Unavailable(ctx.Err())
			}
		case d == nil:
			return nil
		}
		err := o.settleDebt(ctx, d)
		o.book.Paid(s, err == nil)
		if err != nil {
			return err
		}
		o.Counts.Spent.Add(d.Spent())
	}
}

func (o *Outage) settleDebt(ctx context.Context, d *outage.Debt) error {
	b := store.Bucket{Entity: d.Entity, Resource: d.Resource}
	totals := map[string]int64{}
	for _, amounts := range [...][]store.Amount{d.Lacking, d.Counted} {
		for _, a := range amounts {
			totals[d.Resource+"/"+a.Limit] += a.Milli / store.Milli
		}
	}
	record := store.SettlementRecord{Bucket: b, Key: d.ID, Totals: totals, ExpiresAt: time.UnixMilli(o.Now()).Add(debtLife)}
	_, err := o.settler.SettleOnce(ctx, record, []*Taken{Owed(b, d.Lacking, d.Counted)}, func(e *Entry) int64 { return e.Total })
	if err != nil {
		return fmt.Errorf("debit what an outage took of %s of %s: %w", d.Resource, d.Entity, err)
	}
	return nil
}

// PayFirst pays what the buckets of a request owe, before it takes from them. It fails only if the
// store is away.
func (o *Outage) PayFirst(ctx context.Context, req *Request) error {
	for i := range req.Parts() {
		p := req.Part(i)
		k := memory.Key{Entity: p.Entity, Resource: p.Resource}
		keys := []memory.Key{k}
		if acct, ok := o.accounts.cache.Get(k); ok {
			if _, parent := acct.LastSeen(); parent != "" {
				keys = append(keys, memory.Key{Entity: parent, Resource: p.Resource})
			}
		}
		for _, k := range keys {
			if s := o.book.Find(k); s != nil {
				if err := o.pay(ctx, s); IsOutage(err) {
					return err
				}
			}
		}
	}
	return nil
}

// A ShareRefusal is why shares do not admit a request.
type ShareRefusal struct {
	// Quotes are the limits that a request names, if they are the reason.
	Quotes []outage.Quote
	// Otherwise Entity and Resource name the bucket, and Why says what is the matter with it.
	Entity, Resource, Why string
}

// Reasons of a [ShareRefusal].
const (
	NeverSeen     = "the process has never seen its bucket"
	LimitNotSeen  = "the process has not seen a limit that the request names"
	TooManyShares = "the process has shares of as many buckets as it may have"
	TooLarge      = "the request is for more than this process's share of a limit"
	Unreadable    = "its bucket uses a feature that this version does not evaluate"
)

// Admit decides a request by the shares of its buckets. holds has what it took of the buckets of each
// resource: nothing where there is no share, and the options admit that.
func (o *Outage) Admit(req *Request) (holds [][]*outage.Hold, refused *ShareRefusal, err error) {
	o.mu.Lock()
	since := o.since
	o.mu.Unlock()
	now := o.Now()
	var asks []outage.Ask
	counts := make([]int, req.Parts())
	for i := range counts {
		of, why, err := o.asks(req.Part(i), since.Now, now)
		switch {
		case err != nil:
			return nil, nil, err
		case why == "":
			asks, counts[i] = append(asks, of...), len(of)
		case !o.o.Admits:
			o.Counts.Refused.Add(1)
			return nil, &ShareRefusal{Entity: req.Entity, Resource: req.Part(i).Resource, Why: why}, nil
		}
	}
	taken, quotes := o.book.Take(asks, now)
	if len(quotes) > 0 {
		o.Counts.Refused.Add(1)
		if i := slices.IndexFunc(quotes, func(q outage.Quote) bool { return q.TooLarge }); i >= 0 {
			return nil, &ShareRefusal{Entity: quotes[i].Entity, Resource: quotes[i].Resource, Why: TooLarge}, nil
		}
		return nil, &ShareRefusal{Quotes: quotes}, nil
	}
	o.Counts.Admitted.Add(1)
	for _, n := range counts {
		holds, taken = append(holds, taken[:n:n]), taken[n:]
	}
	o.watchAgain()
	return holds, nil, nil
}

// watchAgain has what was taken paid, if the store came back meanwhile.
func (o *Outage) watchAgain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy.Store(true)
	o.watchLocked()
}

// asks are what a request for one resource asks of the shares of its buckets, or why there is none.
func (o *Outage) asks(req *Request, since, now int64) (asks []outage.Ask, why string, err error) {
	amounts := appendAmounts(nil, req.Consume)
	known := map[string]bool{}
	entities := []string{req.Entity}
	for i := 0; i < len(entities); i++ {
		acct, ok := o.accounts.cache.Get(memory.Key{Entity: entities[i], Resource: req.Resource})
		if !ok {
			return nil, NeverSeen, nil
		}
		seen, parent := acct.LastSeen()
		if is := o.wasDisabled(acct, now); is.Disabled {
			return nil, "", disabledError(store.Bucket{Entity: entities[i], Resource: req.Resource}, is)
		}
		switch w := acct.Wanted(); {
		case len(seen) == 0 && i > 0 && w != nil && w.IsUnlimited():
			continue
		case len(seen) == 0:
			return nil, NeverSeen, nil
		case slices.ContainsFunc(seen, func(s memory.Seen) bool { return !s.Image.IsEvaluable() }):
			return nil, Unreadable, nil
		}
		if i == 0 && parent != "" {
			entities = append(entities, parent)
		}
		k := memory.Key{Entity: entities[i], Resource: req.Resource}
		s, err := o.book.Share(k, since, now, func() ([]memory.Seen, int) { return seen, o.processesOf(acct, k) })
		if err != nil {
			return nil, TooManyShares, nil //nolint:nilerr // it says why
		}
		for _, a := range amounts {
			known[a.Limit] = known[a.Limit] || s.Has(a.Limit)
		}
		asks = append(asks, outage.Ask{Share: s, Amounts: amounts})
	}
	if len(known) < len(amounts) || slices.ContainsFunc(amounts, func(a store.Amount) bool { return !known[a.Limit] }) {
		return nil, LimitNotSeen, nil
	}
	return asks, "", nil
}

// wasDisabled is what was known last of whether a bucket is disabled.
func (o *Outage) wasDisabled(acct *account, now int64) store.Disabling {
	if w := acct.Wanted(); w != nil {
		if is := w.Switches.At(now); is.Disabled {
			return is
		}
	}
	return acct.WasDisabled(now)
}

// processesOf is how many processes are taken to share a bucket: as many as hold slots of it, two if
// others wrote to it when it was seen last, and at least as many as the options say.
func (o *Outage) processesOf(acct *account, k memory.Key) int {
	n := o.o.Processes
	if acct.WasShared() {
		n = max(n, 2)
	}
	if o.holder != nil {
		n = max(n, o.holder.Processes(k.Entity, k.Resource))
	}
	return n
}

// SettleHold makes the target of each entry what a hold took: here, or at the store if that was told
// already. A change whose answer is lost counts as made, as ever.
func (o *Outage) SettleHold(ctx context.Context, h *outage.Hold, of *Taken, target func(*Entry) int64) error {
	before := h.Taken()
	var by []store.Amount
	for _, had := range before {
		for i := range of.Entries {
			if e := &of.Entries[i]; e.Limit == had.Limit && target(e) != had.Milli {
				by = append(by, store.Amount{Limit: e.Limit, Milli: target(e) - had.Milli})
			}
		}
	}
	if len(by) == 0 || h.Change(by, o.Now()) {
		return nil
	}
	b := h.Bucket()
	t := Restore(b, []token.Held{{Amounts: before}})
	for i := range t.Entries {
		t.Entries[i].Total += plan.AmountOf(by, t.Entries[i].Limit)
	}
	record := store.SettlementRecord{Bucket: b, Key: o.newID(), ExpiresAt: time.UnixMilli(o.Now()).Add(debtLife)}
	err := o.Insist(ctx, func(ctx context.Context) error {
		_, err := o.settler.SettleOnce(ctx, record, []*Taken{t}, func(e *Entry) int64 { return e.Total })
		return err
	})
	if !process.IsTurnedAway(err) {
		h.Note(by)
	}
	return err
}
