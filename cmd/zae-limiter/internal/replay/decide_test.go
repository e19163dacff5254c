package replay_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

var costs = []string{"rpm", "tpm", "slow"}

// each is a quota of tokens for each period of a calendar in a zone, or for each session.
func each(name string, tokens int64, words, zone string) store.Limit {
	r, err := limiter.ParseRenewal(words, zone)
	if err != nil {
		panic(err) // a constant
	}
	return limiter.Quota(name, tokens, r)
}

// season is a random log and its limits.
type season struct {
	levels  replay.Levels
	parents map[string]string
	events  []replay.Event // with instants from 0
}

// newSeason makes few entities that often run out of tokens, with children and parents.
func newSeason(seed uint64, events int) *season {
	dice := rand.New(rand.NewPCG(seed, 1))
	limit := func(name string, most int64, period time.Duration) store.Limit {
		amount := 1 + dice.Int64N(most)
		return store.Limit{Name: name, Capacity: 1 + dice.Int64N(2*most), Amount: amount, Period: period * time.Duration(1+dice.IntN(3))}
	}
	soft := limit("slow", 5, time.Hour) // it runs out, and refuses nothing
	soft.Soft = true
	carrying := each("slow", 1+dice.Int64N(4), "*/2 * * * *", "UTC")
	carrying.Carries.Rollover = 1 + dice.Int64N(9)
	varying := each("tpm", 3000+dice.Int64N(3000), "*/3 * * * *", "UTC")
	schedule, err := limiter.ParseSchedule("*/2 * * * * x0.5", "UTC")
	if err != nil {
		panic(err) // a constant
	}
	varying.Varies = schedule
	s := &season{parents: map[string]string{"a": "p", "b": "p"}, levels: replay.Levels{
		{}:                {limit("rpm", 20, time.Second), limit("tpm", 2000, time.Minute)},
		{Resource: "big"}: {limit("tpm", 5000, time.Second), soft, limit("rpm", 7, time.Second)},
		{Entity: "b", Resource: store.DefaultResource}: {limit("rpm", 3, time.Second), carrying, varying},
		{Entity: "p", Resource: "r"}:                   {limit("rpm", 30, time.Second)},
		{Entity: "c", Resource: "r"}:                   {limit("tpm", 3000, time.Second), each("rpm", 5+dice.Int64N(20), "session 20s", ""), each("slow", 1+dice.Int64N(9), "session 1m", "")},
		{Entity: "c", Resource: "big"}:                 {limit("tpm", 100, time.Second), limit("rpm", 9, time.Minute), each("slow", 1+dice.Int64N(4), "*/2 * * * *", "Europe/Berlin")},
	}}
	at := int64(0)
	for range events {
		at += dice.Int64N(200)
		if dice.IntN(50) == 0 {
			at += dice.Int64N(100_000)
		}
		entity := string("abc"[dice.IntN(3)])
		s.events = append(s.events, replay.Event{
			At: at, Entity: entity, Resource: []string{"r", "big"}[dice.IntN(2)], Parent: s.parents[entity],
			Amounts: []int64{dice.Int64N(3), dice.Int64N(400), dice.Int64N(2)},
		})
	}
	return s
}

// limits are the limits that hold for an entity's bucket.
func (s *season) limits(entity, resource string) []store.Limit {
	for _, k := range []store.ConfigKey{
		{Entity: entity, Resource: resource}, {Entity: entity, Resource: store.DefaultResource}, {Resource: resource}, {},
	} {
		if l := s.levels[k]; len(l) > 0 {
			return l
		}
	}
	return nil
}

// consume is what an event asks of a limiter: an amount of each limit that the entity or
// its parent has.
func (s *season) consume(e *replay.Event) map[string]int64 {
	asked := map[string]int64{}
	for _, entity := range []string{e.Entity, e.Parent} {
		if entity == "" {
			continue
		}
		for _, l := range s.limits(entity, e.Resource) {
			for i, name := range costs {
				if l.Name == name {
					asked[name] = e.Amounts[i]
				}
			}
		}
	}
	return asked
}

// The limiter decides the same events on the embedded engine, in a bubble whose time is
// that of the log.
func TestDecisionsAreTheLimiters(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { compare(t, newSeason(seed, 300)) })
		})
	}
}

func compare(t *testing.T, s *season) {
	t.Helper()
	w := testbed.New(t, testbed.Options{Engine: dynamolite.Options{}})
	for key, limits := range s.levels {
		w.Must(w.Store.SetLimits(t.Context(), key, limits))
	}
	create := func(e store.Entity) {
		_, err := w.Store.CreateEntity(t.Context(), e)
		w.Must(err)
	}
	create(store.Entity{ID: "p"})
	for child, parent := range s.parents {
		create(store.Entity{ID: child, Parent: parent, Cascade: true})
	}
	r := newReplayer(t, replay.Options{Levels: s.levels, Costs: costs})
	begin := time.Now().Truncate(time.Second).Add(time.Second)
	refused, longest := 0, time.Duration(0)
	for i, e := range s.events {
		time.Sleep(time.Until(begin.Add(time.Duration(e.At) * time.Millisecond)))
		_, err := w.Acquire(t.Context(), limiter.Request{Entity: e.Entity, Resource: e.Resource, Consume: s.consume(&e)})
		exceeded, isRefused := errors.AsType[*limiter.ExceededError](err)
		if err != nil && !isRefused {
			t.Fatal(err)
		}
		e.At = time.Now().UnixMilli()
		admitted, err := r.Add(&e)
		w.Must(err)
		if admitted == isRefused {
			t.Fatalf("event %d %+v: replay admits %v, the limiter says %v", i, e, admitted, exceeded)
		}
		if isRefused {
			refused++
			for _, s := range exceeded.Statuses {
				if s.RetryAfter < limiter.Never {
					longest = max(longest, s.RetryAfter)
				}
			}
		}
	}
	result := r.Result()
	if refused == 0 || refused == len(s.events) || result.Refused != int64(refused) {
		t.Fatalf("%d of %d refused, the result says %d", refused, len(s.events), result.Refused)
	}
	found := time.Duration(0)
	for _, l := range result.Limits {
		if l.Wait != nil {
			found = max(found, l.Wait.Longest.Wait)
		}
	}
	if found != longest {
		t.Errorf("the longest wait is %v, the limiter's was %v", found, longest)
	}
}

func newReplayer(t fataler, o replay.Options) *replay.Replayer {
	r, err := replay.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
