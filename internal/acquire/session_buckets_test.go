package acquire_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// openedOf is when the session of a bucket began.
func (w *world) openedOf(entity, resource string) int64 {
	w.Helper()
	images, err := w.Store.Buckets(w.Context(), entity, resource, limiter.MaxShards)
	w.Must(err)
	if len(images) == 0 {
		return 0
	}
	s, _ := images[0].Limit("sess")
	return s.Opened()
}

// sessionOn asks for tokens of the user's sessions of several resources.
func sessionOn(of map[string]int64, resources ...string) limiter.Request {
	req := limiter.Request{Entity: "user", Resource: resources[0], Consume: tokens{"sess": of[resources[0]]}}
	for _, r := range resources[1:] {
		req.Also = append(req.Also, limiter.Part{Resource: r, Consume: tokens{"sess": of[r]}})
	}
	return req
}

// A request of several resources begins the sessions of all of them, or takes of none. Each
// ends by itself, and the wait of a refusal is for the last of them.
func TestSessionsOfSeveralResources(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(sessionOf(t, 10))
		w.Serve(w.Limiter, sessionOn(map[string]int64{"gpt-4": 4}, "gpt-4"))
		first := time.Now()
		time.Sleep(2 * time.Hour)
		second := time.Now()
		lease := w.Lease(w.Limiter, sessionOn(map[string]int64{"gpt-4": 4, "images": 7}, "gpt-4", "images"))
		if a, b := w.openedOf("user", "gpt-4"), w.openedOf("user", "images"); a != first.UnixMilli() || b < second.UnixMilli() {
			t.Errorf("the sessions began at %d and %d, want %d and %d", a, b, first.UnixMilli(), second.UnixMilli())
		}
		end := time.UnixMilli(w.openedOf("user", "images")).Add(5 * time.Hour)
		refused := w.Take(w.Limiter, sessionOn(map[string]int64{"gpt-4": 3, "images": 4}, "gpt-4", "images"))
		if refused == nil || refused.RetryAfter() != time.Until(end) {
			t.Errorf("3 of 2 and 4 of 3: %v, want a wait until %v", refused, end)
		}
		time.Sleep(3*time.Hour + time.Minute) // the first one has ended
		w.Must(lease.Rollback(w.Context()))
		images, err := w.Available(w.Context(), sessionOn(nil, "gpt-4", "images"))
		w.Must(err)
		for _, s := range images {
			if want := s.Limit.Capacity; s.Available != want {
				t.Errorf("%s holds %d of %d", s.Resource, s.Available, want)
			}
		}
		w.Serve(w.Limiter, sessionOn(map[string]int64{"gpt-4": 10, "images": 10}, "gpt-4", "images"))
	})
}

// A child and its parent have sessions of their own, also on shards. If the parent refuses,
// what was taken of the child returns to its session.
func TestSessionsOfAParent(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.family(sessionOf(t, 10), limiter.PerMinute("rpm", 6000))
		w.Take(w.Limiter, ask("project", "rpm", 1))
		driverOf(w.Limiter).DoubleNow(w.Context(), "project", "gpt-4")
		w.Serve(w.Limiter, ask("project", "sess", 8))
		began := w.openedOf("project", "gpt-4")
		time.Sleep(time.Hour)
		for range 2 {
			refused := w.Take(w.Limiter, ask("key", "sess", 3))
			if refused == nil || refused.RetryAfter() != time.Until(time.UnixMilli(began).Add(5*time.Hour)) {
				t.Errorf("3 of 2 of the parent: %v", refused)
			}
		}
		if own := w.Balance("key", "sess"); own != 10 {
			t.Errorf("the child holds %d of 10 after refusals of its parent", own)
		}
		lease := w.Lease(w.Limiter, ask("key", "sess", 2))
		time.Sleep(4*time.Hour + time.Minute)
		w.Serve(w.Limiter, ask("key", "sess", 4)) // of the child's session, and of the next one of the parent
		if at := w.openedOf("project", "gpt-4"); at <= began {
			t.Errorf("the parent's session began at %d", at)
		}
		w.Must(lease.Rollback(w.Context()))
		if own, parents := w.Balance("key", "sess"), w.Balance("project", "sess"); own != 6 || parents != 6 {
			t.Errorf("the child holds %d and its parent %d, want 6 and 6", own, parents)
		}
		if at := w.openedOf("key", "gpt-4"); at == store.NoSession {
			t.Error("the child has no session")
		}
	})
}
