package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/dated"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A house is a table behind a server whose answers have dates, in a bubble.
type house struct {
	*testing.T
	server *dated.Server
	r      *rand.Rand
}

func inHouse(t *testing.T, f func(*house)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := fixture.NewTableOf(t, dynamo.TableOptions{Name: table})
		h := &house{T: t, r: rand.New(rand.NewPCG(1, 1))} //nolint:gosec // a seed is a history
		h.server = &dated.Server{
			Handler: dynamolite.NewHandler(db, dynamolite.HandlerOptions{}),
			Date:    dateBy(time.Now),
			Latency: func() time.Duration { return h.span(100*time.Microsecond, 2*time.Millisecond) },
		}
		f(h)
	})
}

// dateBy returns the Date header of a server with a clock.
func dateBy(now func() time.Time) func(int) time.Time {
	return func(int) time.Time { return now() }
}

func undated(int) time.Time { return time.Time{} }

func (h *house) span(from, to time.Duration) time.Duration {
	return from + time.Duration(h.r.Int64N(int64(to-from)))
}

func (h *house) open(o dynamo.Options) *dynamo.Store {
	h.Helper()
	o.API, o.Table = h.server.Client(), table
	s, err := dynamo.Open(h.Context(), o)
	if err != nil {
		h.Fatal(err)
	}
	return s
}

// ask sends a request and ignores its result.
func (h *house) ask(s *dynamo.Store) {
	_, _ = s.Load(h.Context(), &store.Load{Entity: "user"})
}

// listen sends so many requests, one after the other.
func (h *house) listen(s *dynamo.Store, times int, pause time.Duration) {
	for range times {
		time.Sleep(pause)
		h.ask(s)
	}
}

// near checks that a clock is wrong by no more than most.
func (h *house) near(s *dynamo.Store, most time.Duration) {
	h.Helper()
	if wrong := time.Until(s.Now()); wrong.Abs() > most {
		h.Errorf("the clock is wrong by %v, want at most %v", wrong, most)
	}
}

// Clients whose clocks differ by seconds and hours agree after fifty answers, if the
// answers are spread over the second.
func TestClocksAgreeWithinMilliseconds(t *testing.T) {
	inHouse(t, func(h *house) {
		const spread = 620 * time.Millisecond // fifty of them divide the second evenly
		var all []*dynamo.Store
		for _, wrong := range []time.Duration{0, 200 * time.Millisecond, -time.Second, 3 * time.Second, -7 * time.Second, time.Hour, -365 * 24 * time.Hour} {
			time.Sleep(h.span(0, time.Second))
			s := h.open(dynamo.Options{Now: faults.Skewed(wrong).Now})
			h.near(s, time.Second) // after one answer
			all = append(all, s)
		}
		start := time.Now()
		for n := range 49 {
			time.Sleep(time.Until(start.Add(time.Duration(n+1) * spread)))
			for _, s := range all {
				h.ask(s)
			}
		}
		least, most := all[0].Now(), all[0].Now()
		for i, s := range all {
			h.near(s, 20*time.Millisecond)
			if now := s.Now(); now.Before(least) {
				least = now
			} else if now.After(most) {
				most = now
			}
			if r := s.Clock(); !r.Checked || r.Uncertainty > 25*time.Millisecond {
				h.Errorf("clock %d: %+v", i, r)
			}
		}
		if apart := most.Sub(least); apart > 20*time.Millisecond {
			h.Errorf("the clocks are %v apart", apart)
		}
	})
}

// A clock that may be right is not corrected.
func TestARightClockIsLeftAlone(t *testing.T) {
	inHouse(t, func(h *house) {
		s := h.open(dynamo.Options{})
		for range 50 {
			h.listen(s, 20, h.span(0, 300*time.Millisecond))
			h.near(s, 0)
		}
		if r := s.Clock(); !r.Checked || r.Correction != 0 || r.Uncertainty <= 0 || r.Uncertainty > 20*time.Millisecond {
			h.Errorf("%+v", r)
		}
	})
}

// Without dates, a clock follows the local one and does not claim to be checked.
func TestWithoutDatesNothingIsChecked(t *testing.T) {
	inHouse(t, func(h *house) {
		h.server.Date = undated
		s := h.open(dynamo.Options{Now: faults.Skewed(time.Hour).Now})
		h.listen(s, 10, time.Second)
		if got := time.Until(s.Now()); got != time.Hour {
			h.Errorf("the clock is ahead by %v", got)
		}
		if _, checked := s.CheckedNow(); checked || s.Clock() != (dynamo.ClockReport{}) {
			h.Errorf("%+v", s.Clock())
		}
	})
}

// If the engine is in the same process, both use one clock, unless another one is
// given.
func TestAnEngineInProcessGoesByTheLocalClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := fixture.NewTableOf(t, dynamo.TableOptions{Name: table})
		for _, c := range []struct {
			now     func() time.Time
			wrong   time.Duration
			checked bool
		}{{nil, 0, true}, {faults.Skewed(time.Hour).Now, time.Hour, false}} {
			s, err := dynamo.Open(t.Context(), dynamo.Options{API: dynamo.NewMeter(db), Table: table, Now: c.now})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			now, checked := s.CheckedNow()
			if wrong := time.Until(now); wrong != c.wrong || checked != c.checked || s.Clock().Checked != c.checked {
				t.Errorf("ahead by %v, checked %t; want %v, %t", wrong, checked, c.wrong, c.checked)
			}
		}
	})
}

// The date of a failed request counts as any other.
func TestFailuresHaveDatesToo(t *testing.T) {
	b := store.Bucket{Entity: "user", Resource: "gpt-4"}
	for name, fail := range map[string]func(*dynamo.Store, context.Context) error{
		"a write that is refused": func(s *dynamo.Store, ctx context.Context) error {
			out, err := s.Take(ctx, &store.Take{Bucket: b, Now: 1})
			return expect(err == nil && !out.Applied, "the take is not refused", err)
		},
		"a creation that is refused": func(s *dynamo.Store, ctx context.Context) error {
			one := store.Params{Capacity: 1, Amount: 1, Period: 1}
			c := &store.Create{Bucket: b, Now: 1, ShardCount: 1, Writes: store.NewLimit{NamedParams: store.NamedParams{Limit: "wcu", Params: one}}}
			_, _ = s.Create(ctx, c)
			out, err := s.Create(ctx, c)
			return expect(err == nil && !out.Applied, "the creation is not refused", err)
		},
		"a transaction that is refused": func(s *dynamo.Store, ctx context.Context) error {
			joint, err := s.Gather(ctx, []*store.Refill{{Bucket: b, Seen: &store.Image{ShardCount: 1}, Writes: store.Change{Limit: "wcu"}}})
			return expect(err == nil && !joint.Applied, "the transaction is not refused", err)
		},
		"a change that is wrong": func(s *dynamo.Store, ctx context.Context) error {
			_, err := s.CreateEntity(ctx, store.Entity{ID: "child", Parent: "nobody"})
			return expect(errors.Is(err, store.ErrNotFound), "a child of nobody", err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(h *house) {
				h.server.Date = func(status int) time.Time {
					if status == http.StatusOK {
						return time.Time{}
					}
					return time.Now()
				}
				s := h.open(dynamo.Options{Now: faults.Skewed(time.Hour).Now, Principal: "tester"})
				if err := fail(s, h.Context()); err != nil {
					h.Fatal(err)
				}
				h.near(s, time.Second)
				if !s.Clock().Checked {
					h.Errorf("%+v", s.Clock())
				}
			})
		})
	}
}

func expect(ok bool, what string, err error) error {
	if ok {
		return nil
	}
	return errors.Join(errors.New(what), err)
}

// A step of the local clock changes nothing until a date confirms it.
func TestAStepOfTheLocalClock(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"back an hour": -time.Hour, "forward an hour": time.Hour, "forward a year": 365 * 24 * time.Hour,
		"back half a second": -time.Second / 2, "forward half a second": time.Second / 2,
	} {
		for how, date := range map[string]func(int) time.Time{"with dates": dateBy(time.Now), "without": undated} {
			t.Run(name+" "+how, func(t *testing.T) {
				inHouse(t, func(h *house) {
					h.server.Date = date
					var log bytes.Buffer
					wall := &faults.Clock{}
					s := h.open(dynamo.Options{Now: wall.Now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
					h.listen(s, 50, 107*time.Millisecond)
					before := s.Clock()
					if wall.Set(step); s.Clock().Steps != before.Steps+1 || s.Clock().Checked {
						h.Errorf("the step is not noticed: %+v", s.Clock())
					}
					h.near(s, 20*time.Millisecond)
					for range 20 {
						h.listen(s, 1, 107*time.Millisecond)
						h.near(s, 20*time.Millisecond)
					}
					if r := s.Clock(); r.Checked != before.Checked || r.Steps != 1 || r.Restarts != 0 {
						h.Errorf("%+v", r)
					}
					if n := strings.Count(log.String(), "local clock was set"); n != 1 {
						h.Errorf("the step is logged %d times:\n%s", n, log.String())
					}
				})
			})
		}
	}
}

// A suspended machine wakes with a local clock that is right, and a process in which no
// time has passed. The first date confirms the step.
func TestASuspendedMachine(t *testing.T) {
	inHouse(t, func(h *house) {
		var asleep time.Duration
		now := func() time.Time { return time.Now().Add(asleep) }
		h.server.Date = dateBy(now)
		s := h.open(dynamo.Options{Now: now})
		h.listen(s, 100, 107*time.Millisecond)
		asleep = time.Hour
		h.near(s, 0) // not yet
		h.ask(s)
		if wrong := s.Now().Sub(now()); wrong != 0 || !s.Clock().Checked || s.Clock().Restarts != 1 {
			h.Errorf("after an answer the clock is wrong by %v: %+v", wrong, s.Clock())
		}
	})
}

// An answer that was on its way during the suspension is ignored.
func TestAnAnswerFromBeforeTheSuspension(t *testing.T) {
	inHouse(t, func(h *house) {
		var asleep time.Duration
		now := func() time.Time { return time.Now().Add(asleep) }
		s := h.open(dynamo.Options{Now: now})
		h.server.Date = dateBy(now)
		h.listen(s, 30, 107*time.Millisecond)
		h.server.Date = func(int) time.Time {
			at := now()
			asleep = time.Hour // once the server has answered
			return at
		}
		h.ask(s)
		if s.Clock().Checked || s.Clock().Steps != 1 {
			h.Errorf("%+v", s.Clock())
		}
		h.server.Date = dateBy(now)
		h.ask(s)
		if wrong := s.Now().Sub(now()); wrong != 0 || !s.Clock().Checked {
			h.Errorf("after an answer the clock is wrong by %v: %+v", wrong, s.Clock())
		}
	})
}

// A slewed local clock is followed where there are no dates. A clock that runs much
// faster than any slewed one counts as set.
func TestALocalClockThatDrifts(t *testing.T) {
	for name, c := range map[string]struct {
		ppm   int64
		steps bool
	}{"slewed": {100, false}, "slewed fast": {-450, false}, "far too fast": {50_000, true}} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(h *house) {
				h.server.Date = undated
				start := time.Now()
				wall := func() time.Time { return time.Now().Add(time.Since(start) / 1_000_000 * time.Duration(c.ppm)) }
				s := h.open(dynamo.Options{Now: wall})
				h.listen(s, 1000, time.Minute)
				if wrong := s.Now().Sub(wall()).Abs(); wrong > 20*time.Millisecond != c.steps || s.Clock().Steps > 0 != c.steps {
					h.Errorf("%v from the local clock: %+v", wrong, s.Clock())
				}
			})
		})
	}
}

// One front end in three has a wrong clock. This changes nothing, except that a clock
// does not count as checked right after a wrong answer.
func TestOneFrontEndWithAWrongDate(t *testing.T) {
	for name, wrong := range map[string]time.Duration{"a minute": time.Minute, "an hour behind": -time.Hour, "three seconds": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(h *house) {
				is := false
				h.server.Date = func(int) time.Time {
					if is = h.r.IntN(3) == 0; is {
						return time.Now().Add(wrong)
					}
					return time.Now()
				}
				s := h.open(dynamo.Options{Now: faults.Skewed(-20 * time.Second).Now})
				h.listen(s, 20, 107*time.Millisecond)
				for range 3000 {
					h.listen(s, 1, 107*time.Millisecond)
					h.near(s, 100*time.Millisecond)
					if _, checked := s.CheckedNow(); checked == is {
						h.Fatalf("checked is %t after an answer that is wrong (%t)", checked, is)
					}
				}
				if r := s.Clock(); r.Restarts > 1 {
					h.Errorf("%+v", r)
				}
			})
		})
	}
}

// If the first answer is wrong, and the local clock is right, the next answer shows it.
func TestAFirstDateThatIsWrong(t *testing.T) {
	inHouse(t, func(h *house) {
		h.server.Date = dateBy(faults.Skewed(time.Hour).Now)
		s := h.open(dynamo.Options{})
		h.server.Date = dateBy(time.Now)
		h.ask(s)
		h.near(s, 0)
	})
}

// The clock follows a server whose clock is set.
func TestAServerWhoseClockIsSet(t *testing.T) {
	inHouse(t, func(h *house) {
		s := h.open(dynamo.Options{})
		h.listen(s, 100, 107*time.Millisecond)
		h.server.Date = dateBy(faults.Skewed(10 * time.Minute).Now)
		h.listen(s, 40, 107*time.Millisecond)
		if wrong := s.Now().Sub(time.Now().Add(10 * time.Minute)); wrong.Abs() > 50*time.Millisecond || s.Clock().Restarts != 1 {
			h.Errorf("the clock is %v from the server's: %+v", wrong, s.Clock())
		}
	})
}

// Front ends that differ by milliseconds, and dates that are late by up to a second,
// keep the clients' clocks close together.
func TestDatesThatDifferALittle(t *testing.T) {
	for name, c := range map[string]struct {
		date  func(*house) time.Time
		apart time.Duration
	}{
		"front ends": {func(h *house) time.Time { return time.Now().Add(h.span(-5*time.Millisecond, 5*time.Millisecond)) }, 40 * time.Millisecond},
		"a date renewed every second": {func(*house) time.Time {
			const phase = 300 * time.Millisecond
			return time.Now().Add(-phase).Truncate(time.Second).Add(phase)
		}, 20 * time.Millisecond},
		"dates late at random": {func(h *house) time.Time { return time.Now().Add(-h.span(0, time.Second)) }, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(h *house) {
				h.server.Date = func(int) time.Time { return c.date(h) }
				a, b := h.open(dynamo.Options{Now: faults.Skewed(2 * time.Second).Now}), h.open(dynamo.Options{Now: faults.Skewed(-3 * time.Second).Now})
				for range 300 {
					h.listen(a, 1, 53*time.Millisecond)
					h.listen(b, 1, 54*time.Millisecond)
				}
				for range 300 {
					h.listen(a, 1, 53*time.Millisecond)
					h.listen(b, 1, 54*time.Millisecond)
					if apart := a.Now().Sub(b.Now()).Abs(); apart > c.apart {
						h.Fatalf("the clocks are %v apart, want %v at most", apart, c.apart)
					}
				}
				h.near(a, time.Second)
				if a.Clock().Restarts+b.Clock().Restarts > 0 {
					h.Errorf("%+v, %+v", a.Clock(), b.Clock())
				}
			})
		})
	}
}

// Slow answers, and answers that took several attempts, leave more uncertainty but no
// error beyond it.
func TestSlowAnswers(t *testing.T) {
	inHouse(t, func(h *house) {
		h.server.Latency = func() time.Duration { return h.span(0, time.Second) }
		engine, fails := h.server.Handler, 0
		h.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if fails++; fails%2 != 0 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			engine.ServeHTTP(w, r)
		})
		s := h.open(dynamo.Options{Now: faults.Skewed(time.Minute).Now})
		h.near(s, 10*time.Second)
		for range 100 {
			h.listen(s, 1, h.span(0, time.Second))
			if r := s.Clock(); time.Until(s.Now()).Abs() > r.Uncertainty {
				h.Fatalf("wrong by %v: %+v", time.Until(s.Now()), r)
			}
		}
		h.near(s, 2*time.Second)
	})
}

// An invalid date, or a date of another age, is ignored.
func TestDatesOfAnotherAge(t *testing.T) {
	inHouse(t, func(h *house) {
		h.server.Date = dateBy(func() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) })
		s := h.open(dynamo.Options{})
		h.near(s, 0)
		if s.Clock().Checked {
			h.Errorf("%+v", s.Clock())
		}
	})
}

func TestClockIsSafeForConcurrentUse(t *testing.T) {
	inHouse(t, func(h *house) {
		var mu sync.Mutex
		var wall time.Duration
		s := h.open(dynamo.Options{Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(wall)
		}})
		h.server.Latency = nil
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					h.ask(s)
					s.CheckedNow()
					s.Clock()
					mu.Lock()
					wall += 100 * time.Millisecond
					mu.Unlock()
					time.Sleep(13 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		h.near(s, time.Second)
	})
}

func TestReadingTheClockAllocatesNothing(t *testing.T) {
	for name, now := range map[string]func() time.Time{"the machine's": nil, "another": faults.Skewed(time.Minute).Now} {
		s, err := dynamo.Open(t.Context(), dynamo.Options{API: (&dated.Server{
			Handler: dynamolite.NewHandler(fixture.NewTable(t), dynamolite.HandlerOptions{}), Date: dateBy(time.Now),
		}).Client(), Table: table, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if got := testing.AllocsPerRun(100, func() { s.CheckedNow() }); got != 0 {
			t.Errorf("%s: %.0f allocations", name, got)
		}
	}
}
