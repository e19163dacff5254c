package perform_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust/perform"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// latency is what each request to the table takes.
const latency = 10 * time.Millisecond

// A stage is an actor on a table.
type stage struct {
	*testbed.World
	*perform.Actor

	plan   *scenario.Plan
	faults *faults.Slot
}

func parse(t *testing.T, text string) *scenario.Plan {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newStage makes an actor for a scenario on a table of its own.
func newStage(t *testing.T, text string) *stage {
	t.Helper()
	s := &stage{plan: parse(t, text), faults: &faults.Slot{}}
	api := faults.Wrap(testbed.NewEngine(t, dynamolite.Options{}), faults.Latency(latency), s.faults.Apply)
	s.World = testbed.New(t, testbed.Options{API: api})
	s.Actor = s.actor(t)
	return s
}

// actor makes another actor on the same table, as another worker has.
func (s *stage) actor(t *testing.T) *perform.Actor {
	t.Helper()
	store := s.Open(dynamo.Options{})
	a, err := perform.New(s.plan, []drive.Client{{Limiter: s.NewLimiter(store, limiter.Options{}), Store: store}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// do carries out operation n of the first class, and returns its events.
func (s *stage) do(ctx context.Context, n int64) (events []locust.Event, think time.Duration) {
	think = s.Do(ctx, locust.Op{N: n}, func(e locust.Event) { events = append(events, e) })
	return events, think
}

func texts(events []locust.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %s %v %v; ", e.Method, e.Name, e.Took, e.Err)
	}
	return b.String()
}

const one = `
name: one
duration: 1s
resources: {gpt-4: [rpm:2/min, tpm:1000/min]}
entities: {user: {count: 1}}
load:
  Caller:
    from: user
    users: 1
    think: 3s
    calls: [%s]
`

// The events of operations: names, times and errors.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ call, want string }{
		{"{call: acquire, consume: {rpm: 2}}", "RATE_LIMITED gpt-4 0s <nil>; "},
		{"{call: acquire, consume: {rpm: 1}}", "ACQUIRE gpt-4 10ms <nil>; "},
		{"{call: acquire, consume: {rpm: 1, tpm: 10}, settle: {tpm: 10}, hold: 2s}", "ACQUIRE gpt-4 10ms <nil>; "},
		{"{call: acquire, consume: {rpm: 1, tpm: 10}, settle: {tpm: 30}, hold: 2s}", "ACQUIRE gpt-4 10ms <nil>; COMMIT gpt-4 10ms <nil>; "},
		{"{call: acquire, consume: {rpm: 1, tpm: 10}, settle: {tpm: 4}}", "ACQUIRE gpt-4 10ms <nil>; COMMIT gpt-4 10ms <nil>; "},
		{"{call: available, consume: {rpm: 1}}", "AVAILABLE gpt-4 20ms <nil>; "},
		{"{call: set-limits}", "SET_LIMITS gpt-4 30ms <nil>; "},
		{"{call: get-limits}", "GET_LIMITS gpt-4 10ms <nil>; "},
		{"{call: get-entity}", "GET_ENTITY user 10ms <nil>; "},
		{"{call: get-children}", "GET_CHILDREN user 10ms <nil>; "},
		{"{call: set-resource-defaults}", "SET_RESOURCE_DEFAULTS gpt-4 20ms <nil>; "},
		{"{call: get-resource-defaults}", "GET_RESOURCE_DEFAULTS gpt-4 10ms <nil>; "},
		{"{call: get-system-defaults}", "GET_SYSTEM_DEFAULTS system 10ms <nil>; "},
		{"{call: list-resources}", "LIST_RESOURCES_WITH_DEFAULTS system 10ms <nil>; "},
	} {
		t.Run(c.call, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, fmt.Sprintf(one, c.call))
				if err := s.SetUp(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.do(t.Context(), 0) // fills the caches, and takes tokens
				events, think := s.do(t.Context(), 1)
				if got := texts(events); got != c.want || think != 3*time.Second {
					t.Errorf("%s, think %v; want %s", got, think, c.want)
				}
			})
		})
	}
}

// Failed requests have a text by which Locust can count, and a store that cannot be reached
// grants nothing.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		call string
		hook faults.Hook
		want string
	}{
		{"throttled", "{call: acquire, consume: {rpm: 1}}", faults.Fail(faults.BusyTable()), "ACQUIRE gpt-4 store throttled the request"},
		{"unavailable", "{call: acquire, consume: {rpm: 1}}", faults.Fail(errors.New("no route")), "ACQUIRE gpt-4 store unavailable"},
		{"get-limits", "{call: get-limits}", faults.Fail(errors.New("no route")), "GET_LIMITS gpt-4 store unavailable"},
		{"commit", "{call: acquire, consume: {rpm: 1}, settle: {rpm: 2}}", nthWrite(2, errors.New("no route")), "ACQUIRE gpt-4 <nil>; COMMIT gpt-4 store unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, fmt.Sprintf(one, c.call))
				if err := s.SetUp(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := s.Store.SetSystem(t.Context(), nil, store.Allow); err != nil {
					t.Fatal(err)
				}
				if c.name == "unavailable" { // although the limiter knows that the system allows
					s.do(t.Context(), 1)
				}
				s.faults.Set(c.hook)
				events, _ := s.do(t.Context(), 0)
				var got []string
				for _, e := range events {
					got = append(got, fmt.Sprintf("%s %s %v", e.Method, e.Name, e.Err))
				}
				if strings.Join(got, "; ") != c.want {
					t.Errorf("%v, want %s", got, c.want)
				}
				s.faults.Set(nil)
			})
		})
	}
}

// nthWrite fails the writes to buckets from the nth on.
func nthWrite(n int, err error) faults.Hook {
	writes := 0
	return faults.On(faults.Before(func(*faults.Call) error {
		if writes++; writes >= n {
			return err
		}
		return nil
	}), faults.UpdateItem, faults.PutItem)
}

// A user that is told to stop at once stops in a hold.
func TestAHoldEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, fmt.Sprintf(one, "{call: acquire, consume: {rpm: 1}, settle: {rpm: 2}, hold: 1h}"))
		if err := s.SetUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		events, _ := s.do(ctx, 0)
		if took := time.Since(began); len(events) != 1 || events[0].Err != nil || took != time.Minute {
			t.Errorf("%s after %v", texts(events), took)
		}
	})
}

const world = `
name: world
duration: 1s
resources: {a: [rpm:100/min], b: [rpm:200/min]}
entities:
  plain: {count: 3}
  own: {count: 4, limits: [rpm:7/min], limited: 2}
  child: {count: 5, parents: 2}
  empty: {count: 2, exhausted: true}
load:
  Empty: {from: empty, resources: {b: 1}, calls: [{call: acquire, consume: {rpm: 1}}], users: 1}
  All:
    from: [{entities: plain}, {entities: own}, {entities: child}]
    calls: [{call: acquire, consume: {rpm: 1}}]
    users: 1
`

// Several workers set the same scenario up, at the same time and again.
func TestSetUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, world)
		others := []*perform.Actor{s.actor(t), s.actor(t)}
		ended := make(chan error)
		for _, a := range append(others, s.Actor) {
			go func() { ended <- a.SetUp(t.Context()) }()
		}
		for range 3 {
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		want := map[store.ConfigKey]int64{
			{Resource: "a"}: 100, {Resource: "b"}: 200,
			{Entity: "own-0", Resource: store.DefaultResource}: 7, {Entity: "own-1", Resource: store.DefaultResource}: 7,
		}
		keys, err := s.Store.ConfiguredLevels(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := map[store.ConfigKey]int64{}
		for _, k := range keys {
			c, err := s.Store.Limits(t.Context(), k)
			if err != nil || len(c.Limits) != 1 {
				t.Fatalf("%v: %v, %v", k, c, err)
			}
			got[k] = c.Limits[0].Capacity
		}
		if !maps.Equal(want, got) {
			t.Errorf("levels (-want +got):\n%s", cmp.Diff(want, got))
		}
		for i, parent := range []string{"child-parent-0", "child-parent-1", "child-parent-0", "child-parent-1", "child-parent-0"} {
			e, err := s.Store.Entity(t.Context(), fmt.Sprintf("child-%d", i))
			if err != nil || e.Parent != parent || !e.Cascade {
				t.Errorf("child %d: %+v, %v", i, e, err)
			}
		}
		events, _ := s.do(t.Context(), 0)
		if events[0].Method != perform.MethodRateLimited {
			t.Errorf("a bucket that is to be exhausted: %s", texts(events))
		}

		// Nothing is changed twice: each change has an event.
		for entity, changes := range map[string]int{"own-1": 1, "child-4": 1, "child-parent-1": 1, audit.Resource("a"): 1, "plain-0": 0, "own-3": 0} {
			page, err := s.Store.AuditEvents(t.Context(), audit.Query{Entity: entity})
			if err != nil || len(page.Events) != changes {
				t.Errorf("%s: %d changes, want %d: %v", entity, len(page.Events), changes, err)
			}
		}
	})
}

func TestSetUpEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, world)
		s.faults.Set(faults.Fail(errors.New("no route")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.SetUp(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "set the limits of resource a") {
			t.Error(err)
		}
		s.faults.Set(nil)
	})
}

func TestClassesAndTheirErrors(t *testing.T) {
	t.Parallel()
	s := newStage(t, world)
	if diff := cmp.Diff([]string{"Empty", "All"}, s.Classes()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	open := parse(t, strings.Replace(fmt.Sprintf(one, "{call: get-entity}"), "users: 1\n    think: 3s", "rate: 5/s", 1))
	wrong, ok := errors.AsType[*store.ValidationError](perform.Check(open))
	if _, err := perform.New(open, nil, nil); !ok || wrong.Field != "load.Caller" || !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a class with a rate: %v", wrong)
	}
	if _, err := perform.New(s.plan, nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("no client: %v", err)
	}
}
