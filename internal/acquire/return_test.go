package acquire_test

import (
	"errors"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// What is returned is there for others, of the parent too, and never more than the capacity.
func TestReturn(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 100))
		w.Entities(limiter.Entity{ID: "team"}, child("key-1", "team"))
		w.Serve(w.Limiter, ask("key-1", "rpd", 80))
		for _, tt := range []struct{ back, want int64 }{{30, 50}, {0, 50}, {500, 100}, {5, 100}} {
			req := ask("key-1", "rpd", tt.back)
			w.Must(w.Return(w.Context(), req))
			if own, parents := w.Balance("key-1", "rpd"), w.Balance("team", "rpd"); own != tt.want || parents != tt.want {
				t.Errorf("after %d are returned, %d and %d of the parent are left, want %d", tt.back, own, parents, tt.want)
			}
			if req.Consume["rpd"] != tt.back {
				t.Error("the request has changed")
			}
		}
	})
}

// Each resource gets its own tokens back. A debt is paid first.
func TestReturnOfSeveralResources(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 100))
		both := ask("key-1", "rpd", 0)
		both.Also = []limiter.Part{{Resource: "other", Consume: map[string]int64{"rpd": 60}}}
		lease := w.Lease(w.Limiter, both)
		w.Must(lease.Adjust("rpd", 150))
		w.Must(lease.Commit(w.Context()))
		both.Consume = map[string]int64{"rpd": 70}
		both.Also[0].Consume = map[string]int64{"rpd": 10}
		w.Must(w.Return(w.Context(), both))
		statuses, err := w.Available(w.Context(), both)
		w.Must(err)
		if statuses[0].Available != 20 || statuses[1].Available != 50 {
			t.Errorf("%+v", statuses)
		}
	})
}

// A return to a quota raises the period under way, and no limit is invented.
func TestReturnToAQuota(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		daily, err := limiter.ParseRenewal("day", "UTC")
		w.Must(err)
		w.System(limiter.Quota("rpd", 100, daily))
		w.Serve(w.Limiter, ask("key-1", "rpd", 100))
		w.Must(w.Return(w.Context(), ask("key-1", "rpd", 40)))
		if e := w.Take(w.Limiter, ask("key-1", "rpd", 41)); e == nil {
			t.Error("more was returned than was given")
		}
		w.Serve(w.Limiter, ask("key-1", "rpd", 40))
		time.Sleep(24 * time.Hour)
		w.Must(w.Return(w.Context(), ask("key-1", "rpd", 40)))
		w.Serve(w.Limiter, ask("key-1", "rpd", 100))
		if e := w.Take(w.Limiter, ask("key-1", "rpd", 1)); e == nil {
			t.Error("the period has more than its amount")
		}
		if err := w.Return(w.Context(), ask("key-1", "tpm", 1)); !errors.Is(err, limiter.ErrNotConfigured) {
			t.Errorf("a limit that nobody configures: %v", err)
		}
		req := ask("key-1", "rpd", 1)
		req.Slots = map[string]int64{"running": 1}
		if err := w.Return(w.Context(), req); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("slots: %v", err)
		}
	})
}

// A return that the store does not hear of is an error, whatever the request says of outages.
func TestReturnInAnOutage(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 100))
		var link faults.Slot
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.API, link.Apply)), limiter.Options{})
		link.Set(faults.Hang)
		req := ask("key-1", "rpd", 10)
		req.OnUnavailable = limiter.Allow
		if err := l.Return(w.Context(), req); !errors.Is(err, limiter.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}
