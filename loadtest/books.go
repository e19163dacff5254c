package loadtest

import (
	"math"
	"math/bits"
	"sync"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// LimitUse is the demand on one limit and its result, in tokens, over all buckets since
// they were created.
type LimitUse struct {
	Limit string `json:"limit"`
	// Demanded is the number of tokens requested; for settled operations, the number used.
	Demanded int64 `json:"demanded"`
	// Entitled is the part of the demand that the buckets could admit.
	Entitled int64 `json:"entitled"`
	Admitted int64 `json:"admitted"`
}

// Percent is the admitted part of the entitlement; 100 if nothing was demanded.
func (u LimitUse) Percent() float64 {
	if u.Entitled == 0 {
		return 100
	}
	return 100 * share(u.Admitted, u.Entitled)
}

// books record the requests to buckets and their results. They are safe for concurrent use.
type books struct {
	w        *workload
	accounts []account // by entity and resource
	parents  []account // by parent and resource
}

// An account records one bucket.
type account struct {
	mu          sync.Mutex
	first, last int64 // start of the first operation and end of the last, in milliseconds
	limits      []use
	falsely     int64 // refusals that are certainly wrong
}

// use counts tokens.
type use struct {
	// asked is the sum of all requests so far, including those in flight. So it is an upper
	// bound of what was taken.
	asked int64
	// wanted and admitted count completed operations.
	wanted, admitted int64
}

func newBooks(w *workload) *books {
	b := &books{w: w, accounts: make([]account, len(w.entities)*len(w.resources)), parents: make([]account, len(w.parents)*len(w.resources))}
	for _, accounts := range [...][]account{b.accounts, b.parents} {
		for i := range accounts {
			accounts[i].limits = make([]use, len(w.limits))
		}
	}
	return b
}

// of returns the accounts of an operation: the entity's, and its parent's or nil.
func (b *books) of(d draw) (own, parent *account) {
	n := len(b.w.resources)
	own = &b.accounts[d.entity*n+d.resource]
	if len(b.parents) > 0 {
		parent = &b.parents[b.w.parent(d.entity)*n+d.resource]
	}
	return own, parent
}

// begin records an operation before it is sent.
func (b *books) begin(d draw, at time.Time) {
	own, parent := b.of(d)
	own.begin(b.w, d, at.UnixMilli())
	if parent != nil {
		parent.begin(b.w, d, at.UnixMilli())
	}
}

func (a *account) begin(w *workload, d draw, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == 0 || at < a.first {
		a.first = at
	}
	for i := range a.limits {
		a.limits[i].asked += w.asked(d, i)
	}
}

// end records the answer to an operation.
func (b *books) end(d draw, at time.Time, took taken, refused bool) {
	own, parent := b.of(d)
	fits := own.end(b.w, d, at.UnixMilli(), took)
	if parent != nil {
		fits = parent.end(b.w, d, at.UnixMilli(), took) && fits
	}
	if refused && fits {
		own.mu.Lock()
		defer own.mu.Unlock()
		own.falsely++
	}
}

// end reports whether the sum of all requests to the bucket so far fits into its capacity.
func (a *account) end(w *workload, d draw, at int64, took taken) (fits bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = max(a.last, at)
	fits = true
	for i := range a.limits {
		u := &a.limits[i]
		switch took {
		case tookNothing:
			u.wanted += w.asked(d, i)
		case tookAll:
			u.wanted += w.asked(d, i)
			u.admitted += w.asked(d, i)
		case tookUsed:
			u.wanted += w.used(d, i)
			u.admitted += w.used(d, i)
		case tookUnknown:
		}
		fits = fits && u.asked <= w.limits[i].Capacity
	}
	return fits
}

// sums returns the use of each limit over all entities' buckets, and the number of wrong
// results, those of parents' buckets included.
func (b *books) sums() (uses []LimitUse, wrong int64) {
	uses = make([]LimitUse, len(b.w.limits))
	for i, l := range b.w.limits {
		uses[i].Limit = l.Name
		for k := range b.accounts {
			u, beyond := b.accounts[k].use(i, l)
			uses[i].Demanded += u.Demanded
			uses[i].Entitled += u.Entitled
			uses[i].Admitted += u.Admitted
			wrong += beyond
		}
		for k := range b.parents {
			_, beyond := b.parents[k].use(i, l)
			wrong += beyond
		}
	}
	for k := range b.accounts {
		b.accounts[k].mu.Lock()
		wrong += b.accounts[k].falsely
		b.accounts[k].mu.Unlock()
	}
	return uses, wrong
}

// use returns the use of one limit, and the tokens admitted beyond the possible.
func (a *account) use(i int, l limiter.Limit) (u LimitUse, beyond int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	most := entitlement(l, a.last-a.first)
	u = LimitUse{Demanded: a.limits[i].wanted, Admitted: a.limits[i].admitted}
	u.Entitled = min(u.Demanded, most)
	return u, max(0, u.Admitted-most)
}

// entitlement is what a bucket that starts full can admit within ms milliseconds.
func entitlement(l limiter.Limit, ms int64) int64 {
	hi, lo := bits.Mul64(uint64(max(ms, 0)), uint64(l.Amount))
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

// busiest is the bucket with the highest demand.
func (b *books) busiest() limiter.Bucket {
	most, at := int64(-1), 0
	for k := range b.accounts {
		a := &b.accounts[k]
		a.mu.Lock()
		if a.limits[0].asked > most {
			most, at = a.limits[0].asked, k
		}
		a.mu.Unlock()
	}
	n := len(b.w.resources)
	return limiter.Bucket{Entity: b.w.entities[at/n], Resource: b.w.resources[at%n]}
}
