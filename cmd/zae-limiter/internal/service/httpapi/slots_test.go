package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// withSlots runs f with two replicas that have the same key of leases. Two requests of an entity run at a time.
func withSlots(t *testing.T, p decide.Policy, f func(s, replica *service)) {
	t.Helper()
	inBubble(t, p, func(s *service) {
		if err := s.limits.Store.SetSlots(s.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.SlotLimit{limiter.Slots("inflight", 2)}, ""); err != nil {
			s.Fatal(err)
		}
		replica := func() http.Handler {
			return handlerOf(s.limits.NewLimiter(limiter.Options{TokenKeys: [][]byte{[]byte(strings.Repeat("key", 12))}}), p)
		}
		s.handler = replica()
		f(s, &service{T: s.T, limits: s.limits, handler: replica()})
	}, limiter.PerDay("rpm", 100))
}

// hold takes a token and a slot, and more.
func (s *service) hold(more string) *reply {
	s.Helper()
	return s.post("/v1/acquire", `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1},"slots":{"inflight":1}`+more+`}`)
}

const leaseOfMinute = `,"lease_ms":60000`

// Slots are held until any replica settles or releases the lease, once, and no call gets one that is held. A
// refusal by slots names their limit, and no wait, which nobody knows. It takes no token.
func TestALeaseHoldsSlotsUntilItsEnd(t *testing.T) {
	withSlots(t, decide.Policy{}, func(s, replica *service) {
		held := []*reply{s.hold(leaseOfMinute), replica.hold(leaseOfMinute)}
		for _, end := range []string{"settle", "release"} {
			for _, of := range []*service{s, replica} {
				got := of.hold(leaseOfMinute)
				if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "" || got.RetryAfter != nil || strings.Join(got.Problem.Violated, "") != "inflight" {
					s.Errorf("a third one: %d %v %s", got.Code, got.Header(), got.Body)
				}
			}
			for range 2 { // the second one gives nothing back
				if got := replica.about(end, held[0].Lease, ""); got.Code != http.StatusOK {
					s.Errorf("%s: %d %s", end, got.Code, got.Body)
				}
			}
			time.Sleep(time.Second) // what a process has seen counts for so long
			next := s.hold(leaseOfMinute)
			if next.Code != http.StatusOK || next.Lease == "" {
				s.Errorf("after %s: %d %s", end, next.Code, next.Body)
			}
			held = append(held[1:], next)
		}
		if left := s.left(); left != 97 {
			s.Errorf("%d tokens are left of 100: three were not released", left)
		}
	})
}

// A lease that nobody ends gives its slots back after its time. One that is extended keeps them, and one whose
// time is over is not extended; its tokens are settled.
func TestSlotsEndWithTheTimeOfTheLease(t *testing.T) {
	withSlots(t, decide.Policy{}, func(s, _ *service) {
		lost, kept := s.hold(leaseOfMinute), s.hold(leaseOfMinute)
		time.Sleep(50 * time.Second)
		longer := s.about("extend", kept.Lease, leaseOfMinute)
		if longer.Code != http.StatusOK {
			s.Fatalf("%d %s", longer.Code, longer.Body)
		}
		time.Sleep(30 * time.Second) // 80 s: 20 after the first deadline
		if got := s.hold(leaseOfMinute); got.Code != http.StatusOK {
			s.Errorf("after the deadline: %d %s", got.Code, got.Body)
		}
		if got := s.hold(leaseOfMinute); got.Code != http.StatusTooManyRequests {
			s.Errorf("the extended lease has lost its slot: %d %s", got.Code, got.Body)
		}
		if got := s.about("extend", lost.Lease, leaseOfMinute); got.Code != http.StatusConflict || !strings.Contains(got.Problem.Detail, "slots") {
			s.Errorf("extended too late: %d %s", got.Code, got.Body)
		}
		if got := s.about("settle", lost.Lease, `,"consume":{"rpm":0}`); got.Code != http.StatusOK {
			s.Errorf("settled late: %d %s", got.Code, got.Body)
		}
	})
}

// A call about slots that cannot be is refused, with the field and what to give.
func TestCallsAboutSlotsAreChecked(t *testing.T) {
	withSlots(t, decide.Policy{}, func(s, _ *service) {
		lease := s.hold(leaseOfMinute).Lease
		const call = `{"entity_id":"key-1","resource":"gpt-4"`
		for name, c := range map[string]struct {
			path, body    string
			code          int
			field, detail string
		}{
			"no lease":         {"/v1/acquire", call + `,"slots":{"inflight":1}}`, 400, "lease_ms", "give from 30000"},
			"no lease, also":   {"/v1/acquire", call + `,"consume":{"rpm":1},"also":[{"resource":"gpu","slots":{"seats":1}}]}`, 400, "lease_ms", "give from 30000"},
			"short":            {"/v1/acquire", call + `,"slots":{"inflight":1},"lease_ms":29999}`, 400, "lease_ms", "give from 30000"},
			"dry run":          {"/v1/acquire", call + `,"consume":{"rpm":1},"slots":{"inflight":1},"dry_run":true}`, 400, "slots", "leave slots out"},
			"none":             {"/v1/acquire", call + `,"slots":{"inflight":0},"lease_ms":60000}`, 400, "slots.inflight", "give from 1"},
			"not configured":   {"/v1/acquire", call + `,"slots":{"seats":1},"lease_ms":60000}`, 422, "slots", "seats"},
			"too many":         {"/v1/acquire", call + `,"slots":{"inflight":3},"lease_ms":60000}`, 429, "", "ask for fewer"},
			"check":            {"/v1/check", call + `,"consume":{"rpm":1},"also":[{"resource":"gpu","slots":{"seats":1}}]}`, 400, "slots", "leave slots out"},
			"check itself":     {"/v1/check", call + `,"slots":{"inflight":1}}`, 400, "slots", ""},
			"settled":          {"/v1/leases/settle", `{"lease":"` + lease + `","also":[{"resource":"gpt-4","slots":{"inflight":1}}]}`, 400, "also.slots", "leave them out"},
			"extended shortly": {"/v1/leases/extend", `{"lease":"` + lease + `","lease_ms":29999}`, 400, "lease_ms", "give from 30000"},
		} {
			got := s.post(c.path, c.body)
			if got.Code != c.code || got.Problem.Field != c.field || !strings.Contains(got.Problem.Detail, c.detail) {
				s.Errorf("%s: %d %s", name, got.Code, got.Body)
			}
		}
		if got := s.post("/v1/batch", `{"calls":[`+call+`,"slots":{"inflight":1}},`+call+`,"slots":{"inflight":1},"lease_ms":60000}]}`); len(got.Results) != 2 ||
			got.Results[0].Status != 400 || got.Results[1].Status != 200 || got.Results[1].Decision.Lease == "" {
			s.Errorf("a batch: %s", got.Body)
		}
	})
}

// Many clients of two replicas never hold more than there are, whatever they do with their leases.
func TestNoMoreSlotsThanThereAre(t *testing.T) {
	withSlots(t, decide.Policy{MaxWait: time.Minute}, func(s, replica *service) {
		var held, most, worked atomic.Int64
		var all sync.WaitGroup
		for i := range 16 {
			of := [...]*service{s, replica}[i%2]
			all.Go(func() {
				for n := range 4 {
					got := of.hold(leaseOfMinute + `,"wait_ms":50000`)
					if got.Code != http.StatusOK {
						continue
					}
					worked.Add(1)
					for now := held.Add(1); ; {
						was := most.Load()
						if now <= was || most.CompareAndSwap(was, now) {
							break
						}
					}
					time.Sleep(time.Duration(1+i%3) * time.Second)
					held.Add(-1)
					end := [...]string{"settle", "release"}[n%2]
					if got := [...]*service{replica, s}[i%2].about(end, got.Lease, ""); got.Code != http.StatusOK {
						s.Errorf("%s: %d %s", end, got.Code, got.Body)
					}
				}
			})
		}
		all.Wait()
		if most.Load() != 2 || worked.Load() < 16 {
			s.Errorf("%d held 2 slots at once, and %d worked", most.Load(), worked.Load())
		}
	})
}

// While the store is away, a call that may be admitted without it gets no slots, and a lease of nothing.
func TestSlotsWhileTheStoreIsAway(t *testing.T) {
	for _, on := range []limiter.OnUnavailable{limiter.Block, limiter.Allow} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			withSlots(t, decide.Policy{OnUnavailable: on}, func(s, _ *service) {
				s.limits.Fail(limiter.ErrUnavailable)
				got := s.hold(leaseOfMinute)
				want := map[limiter.OnUnavailable]int{limiter.Block: 503, limiter.Allow: 200}[on]
				if got.Code != want || want == 200 && got.Degraded == "" {
					s.Errorf("%d %s", got.Code, got.Body)
				}
				s.limits.Restore()
				for range 2 {
					if got := s.hold(leaseOfMinute); got.Code != http.StatusOK {
						s.Errorf("later: %d %s", got.Code, got.Body)
					}
				}
			})
		})
	}
}
