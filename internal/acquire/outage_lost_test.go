package acquire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A call that the cut met gets its share, and what it took is debited once: if its write landed although no
// answer came, the write is returned. An item whose writes are sent once keeps that instead of the debt.
func TestACallThatTheCutMet(t *testing.T) {
	for name, tt := range map[string]struct {
		cut           faults.Hook
		once          bool // the writes to the item are sent once
		want, returns int64
	}{
		"the write landed":              {faults.After(func(*faults.Call, error) error { return errCut }), false, 36, 1},
		"it did not land":               {faults.Fail(errCut), false, 36, 0},
		"it landed, and was sent once":  {faults.After(func(*faults.Call, error) error { return errCut }), true, 36, 0},
		"it was sent once, and is lost": {faults.Fail(errCut), true, 16, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inSevered(t, 1, limiter.Options{}, func(s *severed) {
				c := &outageCase{severed: s, own: s.all[0]}
				if c.System(limiter.PerDay("rph", 100)); tt.once {
					c.System(sentOnce(limiter.PerDay("rph", 100))...)
				}
				c.Take(c.own, ask("user", "rph", 10))
				c.away.Set(tt.cut)
				c.take(ask("user", "rph", 20))
				time.Sleep(time.Minute)
				c.find()
				time.Sleep(time.Second)
				c.Take(c.own, ask("user", "rph", 6))
				driverOf(c.own).Settle()
				if got := c.consumedOf("user", "rph"); got != tt.want {
					c.Errorf("%d are counted, want %d", got, tt.want)
				}
				if got := c.Balance("user", "rph"); got != 100-tt.want {
					c.Errorf("the balance is %d, want %d", got, 100-tt.want)
				}
				if got := c.own.Stats().Reclaimed; int64(got) != tt.returns {
					c.Errorf("%d writes were returned, want %d", got, tt.returns)
				}
			})
		})
	}
}

// The error of a write of which nobody knows says whether its tokens will be returned if it landed: not if
// the item is gone, or if the write is sent once. One that was not sent took none.
func TestWhatBecomesOfALostWrite(t *testing.T) {
	lost := faults.After(func(*faults.Call, error) error { return errCut })
	for name, tt := range map[string]struct {
		cut   func(*outageCase) faults.Hook
		once  bool // the writes to the item are sent once
		keeps bool // the tokens
	}{
		"no answer comes": {func(*outageCase) faults.Hook { return lost }, false, false},
		"it is sent once": {func(*outageCase) faults.Hook { return lost }, true, true},
		"it is not sent":  {func(*outageCase) faults.Hook { return faults.Fail(errNoRoute) }, true, false},
		"the item is gone": {func(c *outageCase) faults.Hook {
			return func(ctx context.Context, q *faults.Call, next faults.Next) error {
				err := next(ctx)
				if name := table; q.Writes() && err == nil {
					_, err = c.Engine.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &name, Key: c.shardKey(0)})
					c.Check(err)
					return errCut
				}
				return err
			}
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			inSevered(t, 1, limiter.Options{}, func(s *severed) {
				c := &outageCase{severed: s, own: s.all[0]}
				if c.System(limiter.PerDay("rph", 100)); tt.once {
					c.System(sentOnce(limiter.PerDay("rph", 100))...)
				}
				c.Take(c.own, ask("user", "rph", 10))
				c.away.Set(tt.cut(c))
				_, err := c.own.Acquire(c.Context(), ask("user", "rph", 20))
				if !errors.Is(err, limiter.ErrUnavailable) || process.MayHaveLanded(err) != tt.keeps {
					c.Errorf("%v: its tokens stay taken: %t, want %t", err, process.MayHaveLanded(err), tt.keeps)
				}
			})
		})
	}
}
