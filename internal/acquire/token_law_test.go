package acquire_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A written is a lease that was written down, and what is known of it.
type written struct {
	texts   []string // all of one lease
	req     limiter.Request
	settled map[string]int64 // what the settlement left taken, by bucket; nil if there was none
}

// A tokenWalk is a random history of leases that are written down.
type tokenWalk struct {
	*world

	dice      *rand.Rand
	taps      []*faults.Tap
	processes []*limiter.Limiter
	leases    []*written
	model     map[string]int64 // what buckets hold
	counts    struct{ settled, again, otherwise, unknown, merged int }
}

// tokenFaults are what may happen to a settlement.
func tokenFaults() []faults.Hook {
	away := errors.New("away")
	return []faults.Hook{nil, nil, faults.LoseAnswer(away), faults.Fail(away), faults.Fail(faults.BusyTable())}
}

// Whatever happens to settlements, and to the buckets between: each lease is settled once, in all its
// buckets or in none, and everybody who settles it learns how.
func TestALeaseIsSettledOnceWhateverHappens(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inEachWorld(t, withKeys(tokenKey), func(w *world) {
				walk := &tokenWalk{world: w, dice: rand.New(rand.NewPCG(seed, 58))}
				w.family(fixed("rph", 400))
				w.Entities(limiter.Entity{ID: "solo"})
				for range 2 {
					tap := faults.NewTap(w.API)
					walk.taps = append(walk.taps, tap)
					walk.processes = append(walk.processes, w.NewLimiter(w.OpenOn(tap), limiter.Options{TokenKeys: [][]byte{tokenKey}, Trust: -1}))
				}
				w.Serve(w.Limiter, together("key", "gpt-4", 0, "images", 0, "search", 0))
				w.Serve(w.Limiter, together("solo", "gpt-4", 0, "images", 0, "search", 0))
				walk.model = walk.stored()
				for range 80 {
					walk.step()
					if diff := cmp.Diff(walk.model, walk.stored()); diff != "" {
						w.Fatalf("after %+v (-want +got):\n%s", walk.counts, diff)
					}
				}
				if n := &walk.counts; n.settled < 5 || n.again == 0 && n.otherwise == 0 || n.unknown == 0 {
					w.Errorf("%+v: that shows little", *n)
				}
			})
		})
	}
}

// stored is what the shards of each bucket hold together, in whole tokens. Some may owe what others
// hold.
func (w *tokenWalk) stored() map[string]int64 {
	w.Helper()
	held := map[string]int64{}
	for _, entity := range []string{"key", "project", "solo"} {
		for _, resource := range allResources {
			images, err := w.Store.Buckets(w.Context(), entity, resource, limiter.MaxShards)
			w.Must(err)
			sum := int64(0)
			for _, img := range images {
				s, _ := img.Limit("rph")
				sum += s.Tokens
			}
			held[entity+"/"+resource] = sum / 1000
		}
	}
	return held
}

func (w *tokenWalk) step() {
	w.Helper()
	entity := []string{"key", "project", "solo"}[w.dice.IntN(3)]
	bucket := limiter.Bucket{Entity: entity, Resource: allResources[w.dice.IntN(len(allResources))]}
	l := w.processes[w.dice.IntN(2)]
	switch n := w.dice.IntN(10); {
	case n < 4 || len(w.leases) == 0:
		w.acquire(l)
	case n == 4:
		driverOf(l).DoubleNow(w.Context(), bucket.Entity, bucket.Resource)
		driverOf(l).Settle()
	case n == 5:
		for _, bucket := range slices.Sorted(maps.Keys(w.model)) {
			entity, resource, _ := strings.Cut(bucket, "/")
			images, err := driverOf(l).Shards(w.Context(), limiter.Bucket{Entity: entity, Resource: resource})
			w.Must(err)
			if len(images) > 1 && w.dice.IntN(2) == 0 {
				w.Must(errOf(driverOf(l).Merge(w.Context(), images)))
				w.counts.merged++
			}
		}
	default:
		w.settle(w.leases[w.dice.IntN(len(w.leases))])
	}
	time.Sleep(2 * time.Second)
}

// acquire takes tokens of some resources, and writes the lease down.
func (w *tokenWalk) acquire(l *limiter.Limiter) {
	w.Helper()
	var amounts []any
	for _, i := range w.dice.Perm(len(allResources))[:1+w.dice.IntN(len(allResources))] {
		amounts = append(amounts, allResources[i], w.dice.IntN(60))
	}
	req := together([]string{"key", "solo"}[w.dice.IntN(2)], amounts...)
	lease, err := l.Acquire(w.Context(), req)
	if errors.Is(err, limiter.ErrExceeded) {
		return
	}
	w.Must(err)
	for bucket, n := range bucketsOf(req) {
		w.model[bucket] -= n
	}
	w.leases = append(w.leases, &written{texts: []string{w.token(lease)}, req: req})
}

// settle settles or extends a lease with one of its tokens. If nobody can tell whether that was
// applied, it does it again.
func (w *tokenWalk) settle(of *written) {
	w.Helper()
	text, i := of.texts[w.dice.IntN(len(of.texts))], w.dice.IntN(2)
	if w.dice.IntN(4) == 0 {
		extended, err := w.resume(w.processes[i], text).Token(w.Context(), time.Hour)
		w.Must(err)
		of.texts = append(of.texts, extended)
		return
	}
	used := map[string]int64{}
	for name := range w.parts(of) {
		used[name] = w.dice.Int64N(80)
	}
	if of.settled != nil && w.dice.IntN(2) == 0 { // a repetition
		for name := range used {
			used[name] = of.settled[name]
		}
	}
	rollsBack := w.dice.IntN(4) == 0
	if rollsBack {
		clear(used)
	}
	fault := tokenFaults()[w.dice.IntN(5)]
	w.taps[i].Set(nil)
	if fault != nil {
		w.taps[i].Set(faults.On(fault, "TransactWriteItems"))
	}
	err := w.settleAs(i, of, text, used, rollsBack)
	w.taps[i].Set(nil)
	if err != nil && !errors.Is(err, limiter.ErrSettled) {
		w.counts.unknown++
		time.Sleep(time.Second) // the brake of a throttle eases
		err = w.settleAs(1-i, of, text, used, rollsBack)
	}
	takes := w.parts(of)
	for name := range takes {
		takes[name] = used[name]
	}
	switch {
	case of.settled == nil:
		w.counts.settled++
		w.Must(err)
		of.settled = takes
		for bucket, was := range bucketsOf(of.req) {
			_, resource, _ := strings.Cut(bucket, "/")
			w.model[bucket] += was - takes[resource]
		}
	case maps.Equal(of.settled, takes):
		w.counts.again++
		w.Must(err)
	default:
		w.counts.otherwise++
		settled, ok := errors.AsType[*limiter.SettledError](err)
		if !ok {
			w.Fatalf("settled otherwise than before: %v", err)
		}
		for name, n := range of.settled {
			if settled.Consumed[name]["rph"] != n {
				w.Errorf("settled before with %v, the error says %v", of.settled, settled.Consumed)
			}
		}
	}
}

// settleAs settles a lease by a process.
func (w *tokenWalk) settleAs(process int, of *written, text string, used map[string]int64, rollsBack bool) error {
	w.Helper()
	lease := w.resume(w.processes[process], text)
	if rollsBack {
		return lease.Rollback(w.Context())
	}
	for name := range w.parts(of) {
		part, err := lease.Resource(name)
		w.Must(err)
		w.Must(part.Settle("rph", used[name]))
	}
	return lease.Commit(w.Context())
}

// parts are the resources of a lease.
func (w *tokenWalk) parts(of *written) map[string]int64 {
	names := map[string]int64{of.req.Resource: 0}
	for _, p := range of.req.Also {
		names[p.Resource] = 0
	}
	return names
}
