package acquire_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A modelLease is a lease as its documentation describes it, and the buckets that it takes
// from. It shares no code with the limiter.
type modelLease struct {
	buckets  map[string]tokens // balances by entity and limit
	total    tokens            // what the lease is to take of each limit that it names
	written  tokens            // what the buckets were debited
	closed   bool
	degraded bool
	// sharded: a debt may be that of some shards only, whose others still admit.
	sharded   bool
	wasInDebt map[string]bool // limits
}

func (m *modelLease) settle(limit string, used int64) error {
	switch total, named := m.total[limit]; {
	case m.closed:
		return limiter.ErrLeaseClosed
	case !named, used < 0, used > limiter.MaxTokens:
		return limiter.ErrInvalid
	default:
		m.total[limit] += used - total
		return nil
	}
}

func (m *modelLease) adjust(limit string, delta int64) error {
	total, named := m.total[limit]
	switch {
	case m.closed:
		return limiter.ErrLeaseClosed
	case !named, delta > limiter.MaxTokens-total, delta < -total:
		return limiter.ErrInvalid
	default:
		return m.settle(limit, total+delta)
	}
}

// take takes more. admitted says what the lease did, if only its shards can tell.
func (m *modelLease) take(consume tokens, admitted bool) error {
	if len(consume) == 0 {
		return limiter.ErrInvalid
	}
	for _, n := range consume {
		if n < 0 || n > limiter.MaxTokens {
			return limiter.ErrInvalid
		}
	}
	if m.closed {
		return limiter.ErrLeaseClosed
	}
	for limit, n := range consume {
		if n > limiter.MaxTokens-m.total[limit] {
			return limiter.ErrInvalid
		}
	}
	var short, inDebt bool
	for limit, n := range consume {
		known := m.degraded
		for _, balances := range m.buckets {
			if held, has := balances[limit]; has {
				known = true
				short = short || n > 0 && n > held
				inDebt = inDebt || n > 0 && m.wasInDebt[limit]
			}
		}
		if !known {
			return limiter.ErrNotConfigured
		}
	}
	if unsure := m.sharded && inDebt; unsure {
		short = !admitted
	}
	if short && !m.degraded {
		return limiter.ErrExceeded
	}
	for limit, n := range consume {
		m.total[limit] += n
		m.write(limit, m.written[limit]+n)
	}
	return nil
}

// write makes what was debited of a limit the given amount.
func (m *modelLease) write(limit string, amount int64) {
	for _, balances := range m.buckets {
		if _, has := balances[limit]; has && !m.degraded {
			balances[limit] -= amount - m.written[limit]
			m.wasInDebt[limit] = m.wasInDebt[limit] || balances[limit] < 0
		}
	}
	m.written[limit] = amount
}

func (m *modelLease) release(part tokens) error {
	if m.closed {
		return limiter.ErrLeaseClosed
	}
	for limit, n := range part {
		if total, named := m.total[limit]; !named || n < 0 || n > total {
			return limiter.ErrInvalid
		}
	}
	for limit, n := range part {
		m.total[limit] -= n
	}
	m.writeAll(m.total)
	return nil
}

func (m *modelLease) writeAll(amounts tokens) {
	for limit := range m.total {
		m.write(limit, amounts[limit])
	}
}

// end commits or rolls back. Neither fails on a closed lease.
func (m *modelLease) end(amounts tokens) {
	if !m.closed {
		m.writeAll(amounts)
		m.closed = true
	}
}

// Whatever is done to a lease, in any order, and after its end, gives what the model gives:
// the same errors, the same consumption, and the same balances.
func TestALeaseDoesWhatItsModelDoes(t *testing.T) {
	t.Parallel()
	kinds := []string{"alone", "cascade", "sharded", "degraded"}
	for seed := range uint64(160) {
		kind := kinds[seed%4]
		t.Run(fmt.Sprint(kind, " ", seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, testbed.Options{Remote: seed%8 > 3}, func(w *world) { w.walkLease(kind, seed) })
		})
	}
}

// walkLease makes random calls of a lease and of its model.
func (w *world) walkLease(kind string, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 15))
	own, parents := tokens{"rpd": 100, "tpd": 10_000}, tokens{"tpd": 5_000, "gpd": 300}
	m := &modelLease{buckets: map[string]tokens{"key": own}, total: tokens{}, written: tokens{}, degraded: kind == "degraded", sharded: kind == "sharded", wasInDebt: map[string]bool{}}
	w.family(limiter.PerDay("day", 1))
	limits := func(entity string, balances tokens) {
		var all []limiter.Limit
		for limit, n := range balances {
			all = append(all, limiter.PerDay(limit, n))
		}
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: entity, Resource: testbed.Resource}, all))
	}
	limits("project", parents)
	entity := "key"
	if kind == "cascade" || kind == "degraded" {
		m.buckets["project"] = parents
	} else {
		entity = "user"
		m.buckets = map[string]tokens{"user": own}
	}
	limits(entity, own)
	if kind == "sharded" {
		w.Take(w.Limiter, ask(entity, "rpd", 0))
		driverOf(w.Limiter).DoubleNow(w.Context(), entity, testbed.Resource)
		driverOf(w.Limiter).DoubleNow(w.Context(), entity, testbed.Resource)
	}
	var outage faults.Slot
	l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, outage.Apply)), limiter.Options{Trust: -1})
	if m.degraded {
		outage.Set(faults.Fail(errors.New("connection reset")))
	}
	first := tokens{"rpd": dice.Int64N(3), "tpd": dice.Int64N(2000)}
	req := askAll(entity, maps.Clone(first))
	req.OnUnavailable = limiter.Allow
	lease := w.Lease(l, req)
	outage.Set(nil)
	if lease.Degraded() != m.degraded {
		w.Fatalf("degraded: %t", lease.Degraded())
	}
	w.Must(m.take(first, true))
	amount := func() int64 {
		if dice.IntN(6) > 0 {
			return dice.Int64N(400)
		}
		edges := []int64{0, 0, 1, -1, limiter.MaxTokens, limiter.MaxTokens - 1, limiter.MaxTokens + 1, -limiter.MaxTokens, math.MaxInt64, math.MinInt64, math.MinInt64 + 1}
		return edges[dice.IntN(len(edges))]
	}
	names := []string{"rpd", "tpd", "tpd", "gpd", "nope"}
	name := func() string { return names[dice.IntN(len(names)-min(1, dice.IntN(5)))] }
	some := func() tokens {
		all := tokens{}
		for range 1 + dice.IntN(2) {
			all[name()] = amount()
		}
		return all
	}
	var did []string
	for range 40 {
		var got, want error
		var what string
		switch n := dice.IntN(40); {
		case n < 10:
			limit, used := name(), amount()
			what, got, want = fmt.Sprint("settle ", limit, used), lease.Settle(limit, used), m.settle(limit, used)
		case n < 20:
			limit, delta := name(), amount()
			if dice.IntN(2) == 0 && delta > math.MinInt64 {
				delta = -delta
			}
			what, got, want = fmt.Sprint("adjust ", limit, delta), lease.Adjust(limit, delta), m.adjust(limit, delta)
		case n < 29:
			consume := some()
			what, got = fmt.Sprint("take ", consume), lease.Take(w.Context(), maps.Clone(consume))
			want = m.take(consume, got == nil)
		case n < 38:
			part := some()
			what, got, want = fmt.Sprint("release ", part), lease.Release(w.Context(), maps.Clone(part)), m.release(part)
		case n < 39:
			what, got = "commit", lease.Commit(w.Context())
			m.end(m.total)
		default:
			what, got = "roll back", lease.Rollback(w.Context())
			if !m.closed {
				m.end(nil)
				m.total = tokens{}
			}
		}
		if did = append(did, what); !errors.Is(got, want) {
			w.Fatalf("%s: got %v, want %v; before: %v", what, got, want, did)
		}
		if m.closed {
			continue
		}
		consumed := maps.Clone(m.total)
		if m.degraded {
			consumed = tokens{}
		}
		if diff := cmp.Diff(consumed, lease.Consumed()); diff != "" {
			w.Fatalf("consumed (-want +got):\n%s; %v", diff, did)
		}
	}
	w.Must(lease.Commit(w.Context()))
	m.end(m.total)
	driverOf(w.Limiter).Settle()
	for entity, balances := range m.buckets {
		held := tokens{}
		for _, img := range w.Images(entity) {
			for _, limit := range img.Limits {
				held[limit.Name] += limit.Tokens
			}
		}
		for limit := range held {
			held[limit] /= store.Milli
		}
		if diff := cmp.Diff(balances, held); diff != "" && len(held) > 0 { // or the bucket was never written
			w.Errorf("%s holds (-want +got):\n%s%v", entity, diff, did)
		}
	}
}
