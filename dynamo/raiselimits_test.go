package dynamo_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// raises multiplies rph until a time from now.
func (w *township) raises(k store.ConfigKey, permille int64, after time.Duration) error {
	w.Helper()
	_, err := w.RaiseLimits(w.Context(), k, dynamo.Raise{Limits: map[string]int64{"rph": permille}, Until: time.Now().Add(after), Cause: dynamo.Cause{Reason: "load test"}})
	return err
}

// admits counts the tokens of rph that a client gets at once, one by one.
func (w *township) admits(l *limiter.Limiter) (n int) {
	w.Helper()
	for w.asks(l, "user") == nil {
		n++
	}
	return n
}

// A raise doubles what an hour admits, for clients that know the limits already too, and ends by
// itself at its instant. The balance that is left is then cut to the capacity.
func TestARaiseEndsByItself(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
		l := w.client(w.api.Table)
		if n := w.admits(l); n != 10 {
			t.Fatalf("%d were admitted before", n)
		}
		w.must(w.raises(theEntity, 2000, 150*time.Minute))
		time.Sleep(2 * time.Hour)
		if n := w.admits(l); n != 20 {
			t.Errorf("%d were admitted in two hours of a doubled rate of 10 an hour, which holds 20", n)
		}
		time.Sleep(30 * time.Minute) // earns ten, and ends
		time.Sleep(3 * time.Hour)
		for name, l := range map[string]*limiter.Limiter{"a client that knew the raise": l, "another": w.client(w.api.Table)} {
			if n := w.admits(l); n != 10 {
				t.Errorf("%s admitted %d after the raise, want 10", name, n)
			}
			time.Sleep(time.Hour)
		}
	})
}

// A raise given again replaces the one before: it does not double twice.
func TestARaiseReplacesARaise(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
		w.must(w.raises(theEntity, 2000, time.Hour))
		w.must(w.raises(theEntity, 3000, 2*time.Hour))
		c, err := w.Limits(w.Context(), theEntity)
		w.must(err)
		if all := c.Limits[0].Varies.Changes(); len(all) != 1 || all[0].Permille != 3000 {
			t.Errorf("the limit is %v", c.Limits[0])
		}
		events := fixture.Trail(w.T, w.Store, "user")
		if last := events[len(events)-1]; last.Details["reason"] != "load test" {
			t.Errorf("the event is %+v", last)
		}
	})
}

// A level without limits gets those of the next level, of which one is raised.
func TestARaiseOfTheNextLevelsLimits(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, theResource, []store.Limit{limiter.PerHour("rph", 10), limiter.PerHour("tph", 100)})
		_, err := w.SetSwitch(w.Context(), theEntity, dynamo.Switch{Policy: store.No}, nil)
		w.must(err)
		w.must(w.raises(theEntity, 500, time.Hour))
		c, err := w.Limits(w.Context(), theEntity)
		w.must(err)
		if len(c.Limits) != 2 || c.Limits[0].Capacity != 10 || c.Limits[0].Varies == nil || c.Limits[1] != limiter.PerHour("tph", 100) || c.Disabled.Policy != store.No {
			t.Errorf("the level is %+v", c)
		}
	})
}

// A setting between a raise's read and its write is not lost: the raise is made again
// on what is there, or is refused for it.
func TestARaiseRacesWithLimits(t *testing.T) {
	nights, err := limiter.ParseSchedule("* 0-5 * * * x2", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		between limiter.Limit
		refused bool
	}{
		"another capacity": {between: limiter.PerHour("rph", 7)},
		"a schedule":       {between: limiter.PerHour("rph", 10, limiter.Varies(nights)), refused: true},
		"another limit":    {between: limiter.PerHour("tph", 10), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
				n := 0
				racing := w.open(faults.Wrap(w.api.Table, faults.On(faults.Before(func(*faults.Call) error {
					if n++; n == 1 {
						fixture.SetLimits(w.T, w.Store, theEntity, []store.Limit{tt.between, limiter.PerHour("zph", 5)})
					}
					return nil
				}), faults.TransactWriteItems)))
				_, err := racing.RaiseLimits(w.Context(), theEntity, dynamo.Raise{Limits: map[string]int64{"rph": 2000}, Until: time.Now().Add(time.Hour)})
				if _, ok := errors.AsType[*store.ValidationError](err); ok != tt.refused || err != nil && !ok {
					t.Errorf("got %v", err)
				}
				c, err := w.Limits(w.Context(), theEntity)
				w.must(err)
				got := c.Limits[0]
				if raised := got.Varies != tt.between.Varies; raised == tt.refused {
					t.Errorf("the limit is %v", got)
				}
				if got.Varies = tt.between.Varies; got != tt.between || len(c.Limits) != 2 {
					t.Errorf("the level is %+v", c)
				}
			})
		})
	}
}

// Each wrong raise is refused with what to do, and changes nothing.
func TestWrongRaises(t *testing.T) {
	inTownship(t, func(w *township) {
		day, err := limiter.ParseRenewal("day", "")
		w.must(err)
		nights, err := limiter.ParseSchedule("* 0-5 * * * x2", "")
		w.must(err)
		limits := []store.Limit{limiter.PerHour("rph", 10), limiter.Quota("rpd", 10, day, limiter.CarryDebt()), limiter.PerHour("tph", 10, limiter.Varies(nights))}
		fixture.SetLimits(w.T, w.Store, theEntity, limits)
		soon := time.Now().Add(time.Hour)
		for want, r := range map[string]dynamo.Raise{
			"name at least one":        {Until: soon},
			"in the future":            {Limits: map[string]int64{"rph": 2000}, Until: time.Now()},
			"no limit of this name":    {Limits: map[string]int64{"rps": 2000}, Until: soon},
			"top it up":                {Limits: map[string]int64{"rpd": 2000}, Until: soon},
			"a factor is ambiguous":    {Limits: map[string]int64{"tph": 2000}, Until: soon},
			"must either scale":        {Limits: map[string]int64{"rph": 0}, Until: soon},
			"out of bounds":            {Limits: map[string]int64{"rph": -1}, Until: soon},
			"idempotency key":          {Limits: map[string]int64{"rph": 2000}, Until: soon, Cause: dynamo.Cause{Key: "a b"}},
			"use printable characters": {Limits: map[string]int64{"rph": 2000}, Until: soon, Cause: dynamo.Cause{Reason: "\n"}},
		} {
			_, err := w.RaiseLimits(w.Context(), theEntity, r)
			if invalid, ok := errors.AsType[*store.ValidationError](err); !ok || !strings.Contains(invalid.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		if err := w.raises(store.ConfigKey{Entity: "nobody", Resource: "gpt-4"}, 2000, time.Hour); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("no level has limits: %v", err)
		}
		c, err := w.Limits(w.Context(), theEntity)
		w.must(err)
		if len(c.Limits) != 3 || c.Limits[1] != limits[0] {
			t.Errorf("the level is %+v", c)
		}
	})
	t.Run("beside Python clients", func(t *testing.T) {
		s := fixture.OpenStore(t, fixture.NewTableOf(t, dynamo.TableOptions{IndexKeys: dynamo.SharedKeys}))
		fixture.SetLimits(t, s, theEntity, perHour(10))
		_, err := s.RaiseLimits(t.Context(), theEntity, dynamo.Raise{Limits: map[string]int64{"rph": 2000}, Until: time.Now().AddDate(20, 0, 0)})
		fixture.WantErr(t, err, store.ErrIncompatible)
	})
}
