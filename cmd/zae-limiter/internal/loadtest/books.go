package loadtest

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// books record the requests to buckets and their results. They are safe for concurrent use.
type books struct {
	plan *scenario.Plan
	// accounts are by entity and resource; nil for buckets that nobody asked.
	accounts []atomic.Pointer[account]
	// busiest is the account with the highest demand, by population.
	busiest []atomic.Pointer[account]
}

// An account records one bucket.
type account struct {
	entity, resource int
	population       int
	limits           []store.Limit // in the order of the resource's; without name if the bucket lacks one

	mu          sync.Mutex
	first, last int64 // start of the first operation and end of the last, in milliseconds
	made        int64 // when the bucket existed for certain, in milliseconds; 0 is unknown
	requests    int64
	uses        []use
	falsely     int64 // refusals that are certainly wrong
}

// use counts tokens of a limit.
type use struct {
	// asked is the sum of all requests so far, including those in flight, and what they use
	// beyond what they ask for. So it is an upper bound of what was taken.
	asked int64
	// wanted and admitted count completed operations. granted is like admitted, but counts
	// for an operation that used more than it asked for only what it asked for: the rest is
	// debt, which no bucket refuses.
	wanted, admitted, granted int64
	// least and most are what the operations consumed, which is not known exactly if some
	// have no answer.
	least, most int64
}

func newBooks(p *scenario.Plan) *books {
	return &books{
		plan: p, accounts: make([]atomic.Pointer[account], len(p.Entities)*len(p.Resources)),
		busiest: make([]atomic.Pointer[account], len(p.Populations)),
	}
}

// account returns the account of a bucket.
func (b *books) account(entity, resource int) *account {
	at := &b.accounts[entity*len(b.plan.Resources)+resource]
	if a := at.Load(); a != nil {
		return a
	}
	limits := drive.LimitsOf(b.plan, entity, resource)
	a := &account{
		entity: entity, resource: resource, population: b.plan.Entities[entity].Population,
		limits: limits, uses: make([]use, len(limits)),
	}
	if at.CompareAndSwap(nil, a) {
		return a
	}
	return at.Load()
}

// of returns the accounts of an operation: the entity's, and its parent's or nil.
func (b *books) of(op *scenario.Op) (own, parent *account) {
	own = b.account(op.Entity, op.Resource)
	if p := b.plan.Entities[op.Entity].Parent; p >= 0 {
		parent = b.account(p, op.Resource)
	}
	return own, parent
}

// begin records an operation before it is sent.
func (b *books) begin(op *scenario.Op, at time.Time) {
	own, parent := b.of(op)
	b.note(own, own.begin(op, at.UnixMilli()))
	if parent != nil {
		b.note(parent, parent.begin(op, at.UnixMilli()))
	}
}

// note keeps the busiest account of each population.
func (b *books) note(a *account, requests int64) {
	is := &b.busiest[a.population]
	for was := is.Load(); was != a; was = is.Load() {
		if was != nil && was.demand() >= requests || is.CompareAndSwap(was, a) {
			return
		}
	}
}

func (a *account) demand() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

func (a *account) begin(op *scenario.Op, at int64) (requests int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == 0 || at < a.first {
		a.first = at
	}
	for i := range a.uses {
		a.uses[i].asked += max(op.Consume[i], op.Settle[i])
	}
	a.requests++
	return a.requests
}

// end records the answer to an operation.
func (b *books) end(op *scenario.Op, at time.Time, took drive.Taken, refused bool) {
	own, parent := b.of(op)
	fits := own.end(op, at.UnixMilli(), took)
	if parent != nil {
		fits = parent.end(op, at.UnixMilli(), took) && fits
	}
	if refused && fits {
		own.mu.Lock()
		defer own.mu.Unlock()
		own.falsely++
	}
}

// end reports whether the sum of all requests to the bucket so far fits into its capacity.
func (a *account) end(op *scenario.Op, at int64, took drive.Taken) (fits bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = max(a.last, at)
	if a.made == 0 && took != drive.TookNothing && took != drive.TookMaybe {
		a.made = at
	}
	fits = true
	for i := range a.uses {
		a.uses[i].end(op.Consume[i], op.Settle[i], took)
		fits = fits && a.uses[i].asked <= a.limits[i].Capacity
	}
	return fits
}

func (u *use) end(asked, used int64, took drive.Taken) {
	switch took {
	case drive.TookNothing:
		u.wanted += asked
		return
	case drive.TookMaybe:
		u.wanted += asked
		u.most += asked
		return
	case drive.TookUsed:
		u.least, u.most = u.least+used, u.most+used
	case drive.TookAll:
		used = asked
		u.least, u.most = u.least+asked, u.most+asked
	case drive.TookEither:
		u.least, u.most = u.least+min(asked, used), u.most+max(asked, used)
		used = min(asked, used)
	}
	u.wanted += used
	u.admitted += used
	u.granted += min(asked, used)
}

// all returns the accounts with at least one request.
func (b *books) all() (all []*account) {
	for i := range b.accounts {
		if a := b.accounts[i].Load(); a != nil {
			all = append(all, a)
		}
	}
	return all
}

// A group is a number of buckets whose use is added up: those of a population, or of its
// parents, for one resource.
type group struct {
	population int
	isParent   bool
	resource   int
}

// groups are all groups, in the order of the scenario.
func (b *books) groups() (all []group) {
	for p := range b.plan.Populations {
		for r := range b.plan.Resources {
			all = append(all, group{p, false, r})
		}
		if b.plan.Populations[p].Parents == 0 {
			continue
		}
		for r := range b.plan.Resources {
			all = append(all, group{p, true, r})
		}
	}
	return all
}

// empty returns the use of the limits of a group, at 0.
func (b *books) empty(g group) []result.LimitUse {
	name := b.plan.Populations[g.population].Name
	if g.isParent {
		name += scenario.ParentSuffix
	}
	r := &b.plan.Resources[g.resource]
	uses := make([]result.LimitUse, len(r.Limits))
	for i := range uses {
		uses[i] = result.LimitUse{Population: name, Resource: r.Name, Limit: r.Limits[i].Name}
	}
	return uses
}

// sums returns the use of the limits of each group that was asked, and the wrong answers.
func (b *books) sums() (uses []result.LimitUse, wrong *result.Wrong) {
	sums := map[group][]result.LimitUse{}
	wrong = &result.Wrong{}
	for _, a := range b.all() {
		g := group{a.population, b.plan.Entities[a.entity].IsParent, a.resource}
		if sums[g] == nil {
			sums[g] = b.empty(g)
		}
		a.mu.Lock()
		wrong.Refusals += a.falsely
		for i := range a.uses {
			wrong.Beyond += a.addTo(&sums[g][i], i)
		}
		a.mu.Unlock()
	}
	for _, g := range b.groups() {
		uses = append(uses, slices.DeleteFunc(sums[g], func(u result.LimitUse) bool { return u.Demanded == 0 })...)
	}
	return uses, wrong
}

// addTo adds the use of one limit to a sum, and returns the tokens admitted beyond the
// possible.
func (a *account) addTo(sum *result.LimitUse, i int) (beyond int64) {
	u := &a.uses[i]
	if a.limits[i].Name == "" {
		return u.granted
	}
	most := entitlement(a.limits[i], a.first, a.last)
	sum.Demanded += u.wanted
	sum.Entitled += min(u.wanted, most)
	sum.Admitted += u.admitted
	return max(0, u.granted-most)
}

// entitlement is what a bucket that starts full can admit from one instant to another, in
// milliseconds since the Unix epoch.
func entitlement(l store.Limit, first, last int64) int64 {
	if l.Renews != nil {
		return quotaOf(l, first, last)
	}
	if l.Varies != nil {
		return scheduledOf(l, first, last)
	}
	hi, lo := bits.Mul64(uint64(max(last-first, 0)), uint64(l.Amount))
	period := uint64(l.Period.Milliseconds())
	if hi >= period {
		return math.MaxInt64
	}
	earned, _ := bits.Div64(hi, lo, period)
	if earned > math.MaxInt64-uint64(l.Capacity) {
		return math.MaxInt64
	}
	return l.Capacity + int64(earned)
}

// scheduledOf is what a limit of a schedule admits: what it can hold at first, and what it earns.
func scheduledOf(l store.Limit, first, last int64) int64 {
	p := l.Params()
	varying := bucket.Varying(p.Varies, bucket.Params{Capacity: p.Capacity, Amount: p.Amount, Period: p.Period}, first)
	return (varying.Capacity + varying.Earned(first, last)) / store.Milli
}

// mostIn is the greatest amount of a quota that is in force from one instant to another.
func mostIn(l store.Limit, from, to int64) (most int64) {
	if l.Varies == nil {
		return l.Capacity
	}
	of := bucket.VaryingQuota(l.Renews, l.Varies, bucket.Params{Capacity: l.Capacity * store.Milli}, from)
	for at := from; at <= to; at = of.Until(at) {
		most = max(most, of.At(at).Capacity/store.Milli)
	}
	return most
}

// quotaOf is what a quota admits: its tokens in each of the periods, the most that are in force.
func quotaOf(l store.Limit, first, last int64) (tokens int64) {
	if length := l.Renews.Session(); length != 0 {
		hi, lo := bits.Mul64(uint64(max(last-first, 0)/length)+1, uint64(mostIn(l, first, last))) //nolint:gosec // not negative
		if hi != 0 || lo > math.MaxInt64 {
			return math.MaxInt64
		}
		return int64(lo)
	}
	for at := first; at <= last || tokens == 0; at = l.Renews.Next(at) {
		most := mostIn(l, at, min(last, l.Renews.Next(at)-1))
		if tokens > math.MaxInt64-most {
			return math.MaxInt64
		}
		tokens += most
	}
	return tokens
}
