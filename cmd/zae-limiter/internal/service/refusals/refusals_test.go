package refusals_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/store"
)

// observed is a limiter with a log, 3 rpm and 100 tpm for everybody.
func observed(t *testing.T) (*limitertest.Limits, *limiter.Limiter, *refusals.Log) {
	t.Helper()
	limits := limitertest.New(t, limiter.PerMinute("rpm", 3), limiter.PerMinute("tpm", 100))
	log := refusals.New(time.Now)
	return limits, limits.NewLimiter(limiter.Options{Observer: log}), log
}

// A refusal is remembered with the limits, those that refused first, and with the exact wait. Those who
// follow their request learn its ID, and admitted requests are not there.
func TestARefusalIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, l, log := observed(t)
		take := func(request string) (context.Context, error) {
			ctx := log.Follow(t.Context(), request)
			_, err := l.Acquire(ctx, limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpm": 2, "tpm": 1}})
			return ctx, err
		}
		if ctx, err := take("a"); err != nil || log.IDOf(ctx) != "" {
			t.Fatalf("%q, %v", log.IDOf(ctx), err)
		}
		time.Sleep(time.Second)
		ctx, err := take("req-1")
		exceeded := (*limiter.ExceededError)(nil)
		if !errors.As(err, &exceeded) {
			t.Fatal(err)
		}
		found := log.Last(refusals.Query{}, 10)
		if len(found) != 1 {
			t.Fatalf("%+v", found)
		}
		r := found[0]
		if r.ID != log.IDOf(ctx) || !strings.HasPrefix(r.ID, log.Process()+"-") || r.Request != "req-1" || r.Entity != "key-1" || r.Resource != "gpt-4" ||
			!r.At.Equal(time.Now()) || r.Wait != exceeded.RetryAfter() || r.Wait == 0 || len(r.Limits) != 2 {
			t.Errorf("%+v", r)
		}
		if got := r.Limits[0]; got.Name != "rpm" || !got.Refused || got.Requested != 2 || got.Available != 1 || got.Capacity != 3 || got.Wait != r.Wait {
			t.Errorf("%+v", got)
		}
		if r.Limits[1].Name != "tpm" || r.Limits[1].Refused {
			t.Errorf("%+v", r.Limits[1])
		}
	})
}

// A query finds refusals by the ID of the refusal or of the request, by entity, by resource and by a limit
// that refused: also if the limit is the parent's.
func TestQueriesOfRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits, l, log := observed(t)
		if _, err := limits.Store.CreateEntity(t.Context(), store.Entity{ID: "parent"}); err != nil {
			t.Fatal(err)
		}
		if _, err := limits.Store.CreateEntity(t.Context(), store.Entity{ID: "child", Parent: "parent", Cascade: true}); err != nil {
			t.Fatal(err)
		}
		ask := func(entity, resource, request string) {
			t.Helper()
			ctx := log.Follow(t.Context(), request)
			if _, err := l.Acquire(ctx, limiter.Request{Entity: entity, Resource: resource, Consume: map[string]int64{"rpm": 2}}); err != nil && !errors.Is(err, limiter.ErrExceeded) {
				t.Fatal(err)
			}
		}
		for _, entity := range []string{"parent", "child", "lone"} {
			for range 2 {
				ask(entity, "gpt-4", "of-"+entity)
			}
		}
		ids := map[string]string{}
		for _, r := range log.Last(refusals.Query{}, 100) {
			ids[r.ID] = r.Entity
		}
		first := ""
		for id, entity := range ids {
			if entity == "lone" {
				first = id
			}
		}
		for name, c := range map[string]struct {
			q    refusals.Query
			most int
			want string
		}{
			"all":                 {refusals.Query{}, 100, "lone,child,child,parent"},
			"the last":            {refusals.Query{}, 1, "lone"},
			"refusal":             {refusals.Query{ID: first}, 100, "lone"},
			"request":             {refusals.Query{ID: "of-lone"}, 100, "lone"},
			"unknown":             {refusals.Query{ID: "x"}, 100, ""},
			"entity":              {refusals.Query{Entity: "lone"}, 100, "lone"},
			"a parent":            {refusals.Query{Entity: "parent", Limit: "rpm"}, 100, "child,child,parent"},
			"limit":               {refusals.Query{Limit: "tpm"}, 100, ""},
			"another resource":    {refusals.Query{Entity: "lone", Resource: "api"}, 100, ""},
			"entity and resource": {refusals.Query{Entity: "lone", Resource: "gpt-4", Limit: "rpm"}, 100, "lone"},
		} {
			var got []string
			for _, r := range log.Last(c.q, c.most) {
				got = append(got, r.Entity)
			}
			if strings.Join(got, ",") != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	})
}

// The log keeps the last refusals, whoever is refused at the same time, and each has its own ID.
func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	log := refusals.New(time.Now)
	const callers = 8
	var all sync.WaitGroup
	seen := make([]string, 2*refusals.Size)
	for c := range callers {
		all.Go(func() {
			for i := c; i < len(seen); i += callers {
				ctx := log.Follow(t.Context(), "")
				log.EndCall(ctx, refused(strconv.Itoa(i), 2))
				seen[i] = log.IDOf(ctx)
				log.Last(refusals.Query{}, 1)
			}
		})
	}
	all.Wait()
	given := map[string]int{}
	for i, id := range seen {
		given[id] = i
	}
	found := log.Last(refusals.Query{}, 3*refusals.Size)
	if len(given) != len(seen) || len(found) != refusals.Size || found[0].ID != fmt.Sprintf("%s-%d", log.Process(), len(seen)) {
		t.Fatalf("%d IDs, %d found", len(given), len(found))
	}
	for _, r := range found {
		if i, ok := given[r.ID]; !ok || r.Entity != strconv.Itoa(i) || len(r.Limits) != 2 || r.Limits[0].Entity != r.Entity {
			t.Fatalf("%+v", r)
		}
	}
}

// Only so many limits are kept, and those that refused are among them. IDs of requests that are long or
// not printable are not kept.
func TestHostileRefusals(t *testing.T) {
	t.Parallel()
	log := refusals.New(time.Now)
	r := refused("key-1", 40)
	for i := range r.Statuses {
		r.Statuses[i].Exceeded = i == 39
	}
	for _, request := range []string{strings.Repeat("x", 200), "a\nb", "é", "a b"} {
		log.EndCall(log.Follow(t.Context(), request), r)
		if got := log.Last(refusals.Query{}, 1)[0]; got.Request != "" || len(got.Limits) != refusals.MaxLimits || !got.Limits[0].Refused {
			t.Errorf("%+v", got)
		}
	}
	var none *refusals.Log
	if ctx := none.Follow(t.Context(), "a"); none.IDOf(ctx) != "" || len(none.Last(refusals.Query{}, 1)) != 0 {
		t.Error("a nil log remembers")
	}
}

// All slots being held is a refusal without limits of tokens.
func TestSlotsThatRefuse(t *testing.T) {
	t.Parallel()
	log := refusals.New(time.Now)
	log.EndCall(t.Context(), limiter.CallResult{
		Call: limiter.Call{Entity: "key-1", Resource: "gpt-4"}, Result: limiter.Refused, Err: &limiter.SlotsError{Entity: "key-1", Resource: "gpt-4", Limit: "inflight"},
	})
	if got := log.Last(refusals.Query{Limit: "inflight"}, 1); len(got) != 1 || got[0].Slots != "inflight" || got[0].Wait != 0 {
		t.Errorf("%+v", got)
	}
}

// A refusal allocates nothing once the log is full.
func TestARefusalAllocatesNothing(t *testing.T) {
	log := refusals.New(time.Now)
	r := refused("key-1", 3)
	ctx := log.Follow(t.Context(), "req-1")
	for range refusals.Size {
		log.EndCall(ctx, r)
	}
	if n := testing.AllocsPerRun(1000, func() { log.EndCall(ctx, r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRefusal(b *testing.B) {
	log := refusals.New(time.Now)
	r := refused("key-1", 3)
	ctx := log.Follow(b.Context(), "req-1")
	b.ReportAllocs()
	for b.Loop() {
		log.EndCall(ctx, r)
	}
}

// refused is the end of a call that some limits have refused.
func refused(entity string, limits int) limiter.CallResult {
	r := limiter.CallResult{Call: limiter.Call{Entity: entity, Resource: "gpt-4"}, Result: limiter.Refused, Statuses: make([]limiter.Status, limits)}
	for i := range r.Statuses {
		r.Statuses[i] = limiter.Status{Entity: entity, Resource: "gpt-4", Limit: limiter.PerMinute(fmt.Sprintf("l%d", i), 10), Exceeded: true, Requested: 1, RetryAfter: time.Second}
	}
	r.Err = &limiter.ExceededError{Statuses: r.Statuses}
	return r
}
