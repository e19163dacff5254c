package acquire_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// Callers of several processes that come at once find the same lost entry. It goes back once.
func TestWhatIsLostGoesBackOnce(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(budget(100))
		lost := w.holder(limiter.Options{})
		w.Lease(lost.Limiter, ask("key", "tpd", 600))
		lost.pause()
		loseProcesses()
		var others []*limiter.Limiter
		for range 4 {
			l := w.NewLimiter(w.OpenOn(faults.Wrap(w.API, faults.Latency(5*time.Millisecond))), limiter.Options{})
			w.Serve(l, ask("other", "tpd", 1))
			others = append(others, l)
		}
		done := make(chan struct{})
		for _, l := range others {
			for range 3 {
				go func() {
					w.Serve(l, ask("key", "tpd", 10))
					done <- struct{}{}
				}()
			}
		}
		for range 12 {
			<-done
		}
		if got := w.Balance("key", "tpd"); got != 880 {
			w.Errorf("%d left, want 880", got)
		}
		var returned int64
		for _, l := range others {
			returned += l.Stats().LostReturned
		}
		if returned != 600 {
			w.Errorf("%d tokens went back, want 600", returned)
		}
	})
}

// A settlement that was under way when its entry was removed debits what went back.
func TestASettlementMeetsTheRemoval(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(budget(100))
		h := w.holder(limiter.Options{})
		lease := w.Lease(h.Limiter, ask("key", "tpd", 600))
		h.pause()
		loseProcesses()
		var once atomic.Bool
		h.slot.Set(faults.On(faults.Before(func(*faults.Call) error {
			if once.CompareAndSwap(false, true) {
				w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
				w.wants(1000, 0)
			}
			return nil
		}), "UpdateItem"))
		w.Must(lease.Settle("tpd", 200))
		w.Must(lease.Commit(w.Context()))
		w.wants(800, 0)
	})
}

// The item is deleted, and maybe made again: nothing of the lease is reserved on it, and nothing is owed.
func TestADeletedItemHasNoEntries(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			inEachWorld(t, limiter.Options{Trust: -1}, func(w *world) {
				w.System(budget(100))
				h := w.holder(limiter.Options{})
				lease := w.Lease(h.Limiter, ask("key", "tpd", 600))
				time.Sleep(time.Second)
				name := table
				_, err := w.Engine.DeleteItem(w.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: w.shardKeyOf("key", 0)})
				w.Must(err)
				if again {
					w.Serve(w.Limiter, ask("key", "tpd", 100))
					time.Sleep(2 * ledger.FreedAge) // what that reserved is told
				}
				w.Must(lease.Commit(w.Context()))
				time.Sleep(2 * ledger.FreedAge)
				w.Must(w.Lease(h.Limiter, ask("key", "tpd", 50)).Rollback(w.Context()))
				if got := w.Balance("key", "tpd"); again && got != 900 || !again && got != 1000 {
					w.Errorf("%d left", got)
				}
				if got := h.Stats().TakenForLost; got != 0 {
					w.Errorf("taken for lost %d times", got)
				}
			})
		})
	}
}

// A bucket that doubles keeps what is reserved, and a shard on which something is does not merge away.
func TestShardsKeepReservations(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.System(budget(100))
		h := w.holder(limiter.Options{})
		w.Lease(h.Limiter, ask("key", "tpd", 600))
		of := limiter.Bucket{Entity: "key", Resource: "gpt-4"}
		driverOf(w.Limiter).DoubleNow(w.Context(), of.Entity, of.Resource)
		w.wants(400, 600)
		var leases []*limiter.Lease
		for range 8 {
			leases = append(leases, w.Lease(h.Limiter, ask("key", "tpd", 10)))
		}
		merge := func() bool {
			images, err := driverOf(w.Limiter).Shards(w.Context(), of)
			w.Must(err)
			merged, err := driverOf(w.Limiter).Merge(w.Context(), images)
			w.Must(err)
			return merged
		}
		if on := w.Images("key")[1].Reservations(); len(on) == 0 || merge() {
			w.Errorf("%v: merged", on)
		}
		for _, l := range leases {
			w.Must(l.Rollback(w.Context()))
		}
		if !merge() {
			w.Errorf("not merged: %+v", w.Images("key")[1])
		}
		w.wants(400, 600)
		h.pause()
		loseProcesses()
		w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
		w.wants(1000, 0)
	})
}

// A request that several shards serve together reserves nothing, and says so.
func TestAGatherKeeps(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.System(budget(100))
		w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
		driverOf(w.Limiter).DoubleNow(w.Context(), "key", "gpt-4")
		before := w.Stats().Unreserved
		lease := w.Lease(w.Limiter, ask("key", "tpd", 800))
		w.wants(200, 0)
		if got := w.Stats().Unreserved - before; got != 1 {
			w.Errorf("%d unreserved, want 1", got)
		}
		w.Must(lease.Rollback(w.Context()))
		w.wants(1000, 0)
	})
}

// Where the item has no room, nothing is reserved: reservations never cost a unit.
func TestAFullItemKeeps(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(budget(100))
		w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
		var kept uint64
		most := 0.0
		for range 12 {
			h := w.holder(limiter.Options{})
			before := w.Meter.Totals()
			w.Must(w.Lease(h.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
			used := w.Meter.Totals().Sub(before)["UpdateItem"]
			most = max(most, used.WCU/float64(used.Requests))
			kept += h.Stats().Unreserved
		}
		if img := w.Images("key")[0]; img.Places() > store.MostPositions || kept == 0 || most != 1 {
			w.Errorf("%d places, %d unreserved, %v units a write", img.Places(), kept, most)
		}
		w.wants(1000, 0)
	})
}

// Several callers of a process share a write, and each lowers its own part.
func TestSharedWritesReserveForEach(t *testing.T) {
	inEngineLatency(t, func(w *world) {
		w.System(budget(50))
		w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
		leases := make(chan *limiter.Lease, 10)
		for range 10 {
			go func() { leases <- w.Lease(w.Limiter, ask("key", "tpd", 20)) }()
		}
		var all []*limiter.Lease
		for range 10 {
			all = append(all, <-leases)
		}
		w.wants(800, 100)
		if w.Stats().Carried == 0 {
			w.Error("no callers shared a write")
		}
		for i, l := range all {
			w.Must(l.Rollback(w.Context()))
			w.wants(800+int64(i+1)*20, 100-int64(i+1)*10)
		}
	})
}

func inEngineLatency(t *testing.T, f func(*world)) {
	t.Helper()
	inWorld(t, limiter.Options{}, func(w *world) {
		slow := &world{w.World}
		slow.Limiter = w.NewLimiter(w.OpenOn(faults.Wrap(w.API, faults.Latency(10*time.Millisecond))), limiter.Options{})
		f(slow)
	})
}

// A take whose answer never comes holds nothing: its process returns it once an image shows it, or it is lost with
// the process.
func TestATakeForNobodyGoesBack(t *testing.T) {
	for name, survives := range map[string]bool{"its process goes on": true, "its process is killed": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(budget(100))
				h := w.holder(limiter.Options{})
				w.Must(w.Lease(h.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
				var sent atomic.Bool // the first copy is applied, and no other one arrives
				h.slot.Set(faults.On(func(ctx context.Context, q *faults.Call, next faults.Next) error {
					if sent.CompareAndSwap(false, true) {
						w.Check(next(ctx))
					}
					return &timeout{}
				}, "UpdateItem"))
				if _, err := h.Acquire(context.Background(), ask("key", "tpd", 600)); err == nil {
					w.Fatal("admitted without an answer")
				}
				w.wants(400, 600)
				if h.goOn(); survives {
					w.Must(w.Lease(h.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
					time.Sleep(time.Minute)
				} else {
					h.pause()
					time.Sleep(plan.LostAfter + time.Minute)
					w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(w.Context()))
				}
				w.wants(1000, 0)
			})
		})
	}
}
