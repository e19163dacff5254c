package loadtest

import (
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// LimitUse is what became of the demand on one limit, all buckets together, since
// they were made. It is in tokens.
type LimitUse struct {
	Limit string `json:"limit"`
	// Demanded is what was asked for; of what was settled, what was used.
	Demanded int64 `json:"demanded"`
	// Entitled is what the buckets could admit of it.
	Entitled int64 `json:"entitled"`
	Admitted int64 `json:"admitted"`
}

// Percent is what was admitted of the entitlement; 100 if nothing was demanded.
func (u LimitUse) Percent() float64 {
	if u.Entitled == 0 {
		return 100
	}
	return 100 * share(u.Admitted, u.Entitled)
}

// books keep what was asked of buckets and what they gave. They are safe for
// concurrent use.
type books struct {
	w        *workload
	accounts []account // by entity and resource
	parents  []account // likewise
}

// An account is about one bucket.
type account struct {
	mu          sync.Mutex
	first, last int64 // begin of the first operation and end of the last, in milliseconds
	limits      []use
	falsely     int64 // refusals that cannot be right
}

// use is in tokens.
type use struct {
	// asked is all that was ever asked for, and so an upper bound of what is
	// taken, operations under way included.
	asked int64
	// wanted and admitted are about operations that have ended.
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

// of are the accounts of an operation: the entity's, and its parent's or nil.
func (b *books) of(d draw) (own, parent *account) {
	n := len(b.w.resources)
	own = &b.accounts[d.entity*n+d.resource]
	if len(b.parents) > 0 {
		parent = &b.parents[b.w.parent(d.entity)*n+d.resource]
	}
	return own, parent
}

// begin notes an operation that is about to be sent.
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

// end notes what an operation was answered.
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

// end reports whether all that was ever asked of the bucket fits into its
// capacity.
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

// sums are the uses of all entities' buckets by limit, and what was wrong with them and
// with their parents'.
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

// use is that of one limit, and what was admitted beyond what could be.
func (a *account) use(i int, l limiter.Limit) (u LimitUse, beyond int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	most := entitlement(l, a.last-a.first)
	u = LimitUse{Demanded: a.limits[i].wanted, Admitted: a.limits[i].admitted}
	u.Entitled = min(u.Demanded, most)
	return u, max(0, u.Admitted-most)
}

// entitlement is what a bucket that begins full can admit within some
// milliseconds.
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

// busiest is the bucket of which most was asked.
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
