package acquire_test

import (
	"context"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A write whose answer is lost has landed in the period of the item that it was planned on, whatever image shows
// that later. So what it took does not return to the next period, nor to a quota that the limit became.
func TestALostAnswerIsOfThePeriodInWhichItLanded(t *testing.T) {
	day, err := limiter.ParseRenewal("day", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	quota := limiter.Quota("rpd", 10, day)
	for name, c := range map[string]struct {
		was      limiter.Limit
		takes    int64 // by another process, while the answer is on its way
		crosses  bool  // the edge of the day
		returned int64
	}{
		"the next day":                 {was: quota, takes: 10, crosses: true},
		"the same day":                 {was: quota, takes: 7, returned: 3},
		"a rate that became a quota":   {was: limiter.PerHour("rpd", 10), takes: 7},
		"the same day, with some left": {was: quota, takes: 3, returned: 3},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(c.was)
				other, loses := w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{}), false
				meanwhile := func() {
					if c.crosses {
						time.Sleep(2 * time.Second)
					} else if c.was != quota {
						w.System(quota)
						other.InvalidateConfig()
					}
					w.Serve(other, ask("user", "rpd", c.takes))
				}
				slow := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, func(ctx context.Context, q *faults.Call, next faults.Next) error {
					if !loses || q.Op != faults.UpdateItem {
						return next(ctx)
					}
					loses = false
					if err := next(ctx); err != nil {
						return err
					}
					meanwhile()
					return &timeout{}
				})), limiter.Options{})
				w.Serve(slow, ask("user", "rpd", 0))
				time.Sleep(time.Until(time.UnixMilli(day.Next(time.Now().UnixMilli()))) - time.Second)
				w.Serve(slow, ask("user", "rpd", 0)) // after it, the next write is a take
				loses = true
				lease := w.Lease(slow, ask("user", "rpd", 3))
				left := w.Balance("user", "rpd")
				w.Must(lease.Rollback(w.Context()))
				if got := w.Balance("user", "rpd"); got != left+c.returned {
					t.Errorf("%d are left after a rollback, %d before", got, left)
				}
			})
		})
	}
}
