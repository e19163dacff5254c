package acquire_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// aDay is the period of budgets; the bubble begins at midnight UTC.
const aDay = 24 * time.Hour

// budget is a daily budget, which shows what went back: it earns nothing until midnight.
func budget(percent int) limiter.Limit {
	daily, _ := limiter.ParseRenewal("day", "UTC")
	return limiter.Quota("tpd", 1000, daily, limiter.Returning(percent))
}

// A holder is a limiter of a process that can be killed or paused: its requests fail.
type holder struct {
	*limiter.Limiter
	slot *faults.Slot
}

// pause lets all requests of the process fail, until it goes on.
func (h *holder) pause() { h.slot.Set(faults.Fail(errors.New("the process is gone"))) }

func (h *holder) goOn() { h.slot.Set(nil) }

func (w *world) holder(o limiter.Options) *holder {
	w.Helper()
	h := &holder{slot: &faults.Slot{}}
	h.Limiter = w.NewLimiter(w.OpenOn(faults.Wrap(w.API, h.slot.Apply)), o)
	return h
}

// loseProcesses lets time pass until processes that wrote nothing since are lost.
func loseProcesses() { time.Sleep(plan.LostAfter + time.Second) }

// wants compares the balance of the budget, and what is reserved of it on all shards.
func (w *world) wants(left, reserved int64) {
	w.Helper()
	var sum int64
	for _, img := range w.Images("key") {
		for _, r := range img.Reservations() {
			sum += r.Milli
		}
	}
	if got := w.Balance("key", "tpd"); got != left || sum != reserved*store.Milli {
		w.Errorf("%d left and %d reserved, want %d and %d", got, sum/store.Milli, left, reserved)
	}
}

func TestALostHolderReturns(t *testing.T) {
	for name, c := range map[string]struct {
		percent  int
		reserved int64
		left     int64
	}{"keep": {0, 0, 400}, "return": {100, 600, 1000}, "a share": {25, 150, 550}} {
		t.Run(name, func(t *testing.T) {
			for name, warm := range map[string]bool{"made": false, "warm": true} {
				t.Run(name, func(t *testing.T) {
					inWorld(t, limiter.Options{}, func(w *world) {
						w.System(budget(c.percent))
						if warm {
							w.Serve(w.Limiter, ask("key", "tpd", 0))
							w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
						}
						lost := w.holder(limiter.Options{})
						w.Lease(lost.Limiter, ask("key", "tpd", 600))
						lost.pause()
						w.wants(400, c.reserved)
						time.Sleep(plan.LostAfter - time.Minute)
						w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
						w.wants(400, c.reserved) // too early
						time.Sleep(2 * time.Minute)
						lease := w.Lease(w.Limiter, ask("key", "tpd", 12))
						w.wants(c.left-12, int64(12*c.percent/100))
						w.Must(lease.Rollback(w.Context()))
						w.wants(c.left, 0)
						kept := int64(600) - c.reserved
						if c.percent == 0 { // nothing tells of such a holder
							kept = 0
						}
						if got := w.Stats(); got.LostReturned != c.reserved || got.LostKept != kept {
							w.Errorf("%d tokens were counted as returned and %d as kept, want %d and %d", got.LostReturned, got.LostKept, c.reserved, kept)
						}
					})
				})
			}
		})
	}
}

// A request that needs what goes back is admitted by it, and is not refused from memory.
func TestWhatGoesBackAdmits(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(budget(100))
		lost := w.holder(limiter.Options{})
		w.Lease(lost.Limiter, ask("key", "tpd", 1000))
		lost.pause()
		if w.Take(w.Limiter, ask("key", "tpd", 1)) == nil {
			w.Error("admitted one of none")
		}
		loseProcesses()
		if w.Take(w.Limiter, ask("key", "tpd", 1001)) == nil {
			w.Error("admitted more than the capacity")
		}
		if refused := w.Take(w.Limiter, ask("key", "tpd", 900)); refused != nil {
			w.Errorf("refused: %v", refused)
		}
		w.wants(100, 900)
	})
}

// A lease that is settled leaves nothing that would go back, however it ends.
func TestASettledLeaseKeeps(t *testing.T) {
	for name, c := range map[string]struct {
		settle func(w *world, l *limiter.Lease, h *holder)
		left   int64
	}{
		"settled": {func(w *world, l *limiter.Lease, h *holder) {
			w.Must(l.Settle("tpd", 200))
			w.Must(l.Commit(w.Context()))
		}, 800},
		"more": {func(w *world, l *limiter.Lease, h *holder) {
			w.Must(l.Settle("tpd", 700))
			w.Must(l.Commit(w.Context()))
		}, 300},
		"returned": {func(w *world, l *limiter.Lease, h *holder) { w.Must(l.Rollback(w.Context())) }, 1000},
		"unchanged": {func(w *world, l *limiter.Lease, h *holder) {
			w.Must(l.Commit(w.Context()))
			time.Sleep(2 * ledger.FreedAge)
		}, 400},
		"with the next write": {func(w *world, l *limiter.Lease, h *holder) {
			w.Must(l.Commit(w.Context()))
			w.Must(w.Lease(h.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
		}, 400},
	} {
		t.Run(name, func(t *testing.T) {
			inEachWorld(t, limiter.Options{}, func(w *world) {
				w.System(budget(50))
				h := w.holder(limiter.Options{})
				c.settle(w, w.Lease(h.Limiter, ask("key", "tpd", 600)), h)
				w.wants(c.left, 0)
				h.pause()
				loseProcesses()
				w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
				w.wants(c.left, 0)
			})
		})
	}
}

// A released part of a lease takes its part of what would go back along.
func TestAReleaseLowersWhatGoesBack(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(budget(50))
		lease := w.Lease(w.Limiter, ask("key", "tpd", 600))
		w.Must(lease.Release(w.Context(), tokens{"tpd": 200}))
		w.wants(600, 200)
		w.Must(lease.Take(w.Context(), tokens{"tpd": 100}))
		w.wants(500, 250)
		w.Must(lease.Rollback(w.Context()))
		w.wants(1000, 0)
	})
}

// The acquire that makes an item without room for what goes back keeps it, and says so. It settles as any other.
func TestANewItemWithoutRoomKeeps(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(budget(50))
		long := strings.Repeat("e", 110)
		lease := w.Lease(w.Limiter, ask(long, "tpd", 600))
		img := w.Images(long)[0]
		if n := w.Limiter.Stats().Unreserved; n != 1 || len(img.Reservations())+len(img.Positions) != 0 {
			w.Errorf("%d are unreserved, and the item has %v", n, img.Reservations())
		}
		w.Must(lease.Release(w.Context(), tokens{"tpd": 200}))
		w.Must(lease.Settle("tpd", 100))
		w.Must(lease.Commit(w.Context()))
		if got := w.Balance(long, "tpd"); got != 900 {
			w.Errorf("%d are left, want 900", got)
		}
	})
}

// A process that holds a lease for long is not lost. It writes each five minutes.
func TestALongLeaseIsRenewed(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(budget(100))
		h := w.holder(limiter.Options{})
		lease := w.Lease(h.Limiter, ask("key", "tpd", 600))
		before := w.Meter.Totals()
		time.Sleep(2 * time.Hour)
		if used := w.Meter.Totals().Sub(before)["UpdateItem"]; used.Requests < 20 || used.Requests > 24 || used.WCU != float64(used.Requests) {
			w.Errorf("%d renewals for %v units, want one each five minutes", used.Requests, used.WCU)
		}
		w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
		w.wants(400, 600)
		w.Must(lease.Commit(w.Context()))
		time.Sleep(2 * ledger.FreedAge)
		w.wants(400, 0)
	})
}

// A process that was paused, and settles after it was taken for lost, debits what it used.
func TestAPausedHolderSettlesLate(t *testing.T) {
	for name, c := range map[string]struct {
		settle func(w *world, l *limiter.Lease)
		left   int64
	}{
		"commit":   {func(w *world, l *limiter.Lease) { w.Must(l.Commit(w.Context())); time.Sleep(2 * ledger.FreedAge) }, 400},
		"settle":   {func(w *world, l *limiter.Lease) { w.Must(l.Settle("tpd", 200)); w.Must(l.Commit(w.Context())) }, 800},
		"overrun":  {func(w *world, l *limiter.Lease) { w.Must(l.Settle("tpd", 900)); w.Must(l.Commit(w.Context())) }, 100},
		"rollback": {func(w *world, l *limiter.Lease) { w.Must(l.Rollback(w.Context())) }, 1000},
	} {
		for _, percent := range []int{100, 40} {
			t.Run(name, func(t *testing.T) {
				inEachWorld(t, limiter.Options{}, func(w *world) {
					w.System(budget(percent))
					h := w.holder(limiter.Options{})
					lease := w.Lease(h.Limiter, ask("key", "tpd", 600))
					h.pause()
					loseProcesses()
					w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
					w.wants(int64(400+6*percent), 0)
					h.goOn()
					c.settle(w, lease)
					w.wants(c.left, 0)
					if got := h.Stats().TakenForLost; got != 1 {
						w.Errorf("the process has learned %d times that it was taken for lost", got)
					}
					w.Must(w.Lease(h.Limiter, ask("key", "tpd", 10)).Rollback(w.Context()))
					w.wants(c.left, 0)
				})
			})
		}
	}
}

// What was taken of a period that has ended goes back to none.
func TestNothingGoesBackToAnotherPeriod(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(budget(100))
		time.Sleep(aDay - time.Minute)
		h := w.holder(limiter.Options{})
		lease := w.Lease(h.Limiter, ask("key", "tpd", 600))
		time.Sleep(2 * time.Minute)
		today := w.Lease(h.Limiter, ask("key", "tpd", 100))
		h.pause()
		loseProcesses()
		w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
		w.wants(1000, 0) // the 100 of today
		h.goOn()
		w.Must(lease.Commit(w.Context()))
		w.Must(today.Commit(w.Context()))
		time.Sleep(2 * ledger.FreedAge)
		w.wants(900, 0)
		if used, _ := w.Images("key")[0].Limit("tpd"); used.Consumed != 700*store.Milli {
			w.Errorf("%d are counted as consumed, want 700", used.Consumed/store.Milli)
		}
	})
}

// A rate is never above its capacity.
func TestNoMoreGoesBackThanThereIsRoom(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("tpd", 1000, limiter.Returning(100)))
		lost := w.holder(limiter.Options{})
		w.Lease(lost.Limiter, ask("key", "tpd", 1000))
		lost.pause()
		time.Sleep(aDay / 2)
		w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
		w.wants(1000, 0)
	})
}

// A token hands a lease over: nothing of it goes back, and its settlement is applied once.
func TestATokenKeeps(t *testing.T) {
	o := limiter.Options{TokenKeys: [][]byte{make([]byte, 32)}}
	inWorld(t, o, func(w *world) {
		w.System(budget(100))
		h := w.holder(o)
		lease := w.Lease(h.Limiter, ask("key", "tpd", 600))
		text, err := lease.Token(w.Context(), time.Hour)
		w.Must(err)
		w.wants(400, 0)
		h.pause()
		loseProcesses()
		w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
		w.wants(400, 0)
		again, err := w.Resume(text)
		w.Must(err)
		w.Must(again.Settle("tpd", 200))
		w.Must(again.Commit(w.Context()))
		w.wants(800, 0)
	})
}

// The end of a limiter tells what its leases have kept.
func TestCloseTellsWhatWasKept(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(budget(100))
		h := w.holder(limiter.Options{})
		open := w.Lease(h.Limiter, ask("key", "tpd", 100))
		w.Must(w.Lease(h.Limiter, ask("key", "tpd", 500)).Commit(w.Context()))
		w.Must(h.Close())
		w.wants(400, 100)
		if err := open.Commit(w.Context()); !errors.Is(err, limiter.ErrClosed) {
			w.Errorf("a commit that could not be told: %v", err)
		}
		loseProcesses()
		w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
		w.wants(500, 0)
	})
}
