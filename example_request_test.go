package limiter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// newExample makes a limiter on a table in this process, with limits for everybody.
func newExample(ctx context.Context, everybody ...limiter.Limit) *limiter.Limiter {
	store := openExample(ctx)
	if err := store.SetSystem(ctx, everybody, limiter.Block); err != nil {
		panic(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	return limits
}

// On AWS, pass a *dynamodb.Client or fastclient.New(cfg) in place of the engine. The table
// then exists already.
func ExampleNew() {
	ctx := context.Background()
	engine := dynamolite.New(dynamolite.Options{})
	defer engine.Close()
	if err := dynamo.CreateTable(ctx, engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		panic(err)
	}
	store, err := dynamo.Open(ctx, dynamo.Options{API: engine, Table: "limits"})
	if err != nil {
		panic(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close() // waits for what goes on after calls have returned

	fmt.Println(limits.Stats().Config.TTL)
	// Output: 1m0s
}

func ExampleLimiter_Acquire() {
	ctx := context.Background()
	limits := newExample(ctx, limiter.PerHour("rph", 100), limiter.PerHour("tph", 10_000))
	defer limits.Close()

	lease, err := limits.Acquire(ctx, limiter.Request{
		Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rph": 1, "tph": 500},
	})
	if err != nil {
		panic(err)
	}
	for _, s := range lease.Statuses() {
		fmt.Println(s.Limit.Name, "left:", s.Available)
	}
	fmt.Println(lease.Commit(ctx))
	// Output:
	// rph left: 99
	// tph left: 9500
	// <nil>
}

// Do returns what it took if the function fails.
func ExampleLimiter_Do() {
	ctx := context.Background()
	limits := newExample(ctx, limiter.PerHour("rph", 10))
	defer limits.Close()
	request := limiter.Request{Entity: "key-1", Resource: "report", Consume: map[string]int64{"rph": 1}}

	err := limits.Do(ctx, request, func(context.Context, *limiter.Lease) error { return errors.New("no data") })
	fmt.Println(err)
	err = limits.Do(ctx, request, func(context.Context, *limiter.Lease) error { return nil })
	fmt.Println(err)

	statuses, err := limits.Available(ctx, request)
	if err != nil {
		panic(err)
	}
	fmt.Println("left:", statuses[0].Available)
	// Output:
	// no data
	// <nil>
	// left: 9
}

// TimeUntilAvailable takes nothing. A request for more than the capacity is never admitted.
func ExampleLimiter_TimeUntilAvailable() {
	ctx := context.Background()
	limits := newExample(ctx, limiter.PerHour("rph", 10))
	defer limits.Close()
	ask := func(tokens int64) limiter.Request {
		return limiter.Request{Entity: "key-1", Resource: "report", Consume: map[string]int64{"rph": tokens}}
	}

	for _, tokens := range []int64{10, 11} {
		wait, err := limits.TimeUntilAvailable(ctx, ask(tokens))
		if err != nil {
			panic(err)
		}
		fmt.Println(tokens, "now:", wait == 0, "never:", wait == limiter.Never)
	}
	// Output:
	// 10 now: true never: false
	// 11 now: false never: true
}

func ExampleLease_Rollback() {
	ctx := context.Background()
	limits := newExample(ctx, limiter.PerHour("rph", 10))
	defer limits.Close()
	request := limiter.Request{Entity: "key-1", Resource: "report", Consume: map[string]int64{"rph": 10}}

	for range 2 {
		lease, err := limits.Acquire(ctx, request)
		if err != nil {
			panic(err)
		}
		fmt.Println("took all:", lease.Rollback(ctx))
	}
	// Output:
	// took all: <nil>
	// took all: <nil>
}

// What was really used may be more than the bucket holds. The balance is then a debt, which
// the limit earns back.
func ExampleLease_Adjust() {
	ctx := context.Background()
	limits := newExample(ctx, limiter.PerDay("tpd", 1_000))
	defer limits.Close()
	request := limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"tpd": 900}}

	lease, err := limits.Acquire(ctx, request)
	if err != nil {
		panic(err)
	}
	if err := errors.Join(lease.Adjust("tpd", 600), lease.Commit(ctx)); err != nil {
		panic(err)
	}
	standing, err := limits.Standing(ctx, "key-1", "gpt-4")
	if err != nil {
		panic(err)
	}
	fmt.Println("left:", standing.Limits[0].Available)
	// Output: left: -500
}

// A lease that stays open for long returns early what it will not need.
func ExampleLease_Release() {
	ctx := context.Background()
	limits := newExample(ctx, limiter.PerDay("tpd", 1_000))
	defer limits.Close()
	request := limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"tpd": 600}}

	long, err := limits.Acquire(ctx, request)
	if err != nil {
		panic(err)
	}
	fmt.Println("200 back:", long.Release(ctx, map[string]int64{"tpd": 200}))
	other, err := limits.Acquire(ctx, request)
	if err != nil {
		panic(err)
	}
	fmt.Println("600 more:", other.Commit(ctx), long.Commit(ctx))
	// Output:
	// 200 back: <nil>
	// 600 more: <nil> <nil>
}

// A refusal names the limits that refused. In JSON it is the body of an HTTP 429.
func ExampleExceededError() {
	ctx := context.Background()
	limits := newExample(ctx, limiter.PerHour("rph", 100), limiter.PerHour("tph", 1_000))
	defer limits.Close()

	_, err := limits.Acquire(ctx, limiter.Request{
		Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rph": 1, "tph": 5_000},
	})
	refused := (*limiter.ExceededError)(nil)
	if !errors.As(err, &refused) {
		panic(err)
	}
	for _, s := range refused.Statuses {
		fmt.Println(s.Limit.Name, "refused:", s.Exceeded)
	}
	fmt.Println("never:", refused.RetryAfter() == limiter.Never)
	body, err := json.Marshal(refused)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.56s\n", body)
	// Output:
	// rph refused: false
	// tph refused: true
	// never: true
	// {"error":"rate_limit_exceeded","message":"rate limit exc
}

// Without the table, a request that says so gets a lease that meters nothing.
func ExampleOnUnavailable() {
	ctx := context.Background()
	engine := dynamolite.New(dynamolite.Options{})
	if err := dynamo.CreateTable(ctx, engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		panic(err)
	}
	store, err := dynamo.Open(ctx, dynamo.Options{API: engine, Table: "limits"})
	if err != nil {
		panic(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()
	if err := engine.Close(); err != nil { // stands for an outage
		panic(err)
	}

	request := limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpm": 1}}
	_, err = limits.Acquire(ctx, request)
	fmt.Println("unavailable:", errors.Is(err, limiter.ErrUnavailable))

	request.OnUnavailable = limiter.Allow
	lease, err := limits.Acquire(ctx, request)
	if err != nil {
		panic(err)
	}
	fmt.Println("degraded:", lease.Degraded(), lease.Commit(ctx))
	// Output:
	// unavailable: true
	// degraded: true <nil>
}

// An operator switched a resource off for an entity. A retry does not help.
func ExampleDisabledError() {
	err := fmt.Errorf("acquire gpt-4 for key-1: %w", &limiter.DisabledError{Entity: "key-1", Resource: "gpt-4"})
	if off := (*limiter.DisabledError)(nil); errors.As(err, &off) {
		fmt.Println(off.Resource, "is off for", off.Entity, errors.Is(err, limiter.ErrDisabled))
	}
	// Output: gpt-4 is off for key-1 true
}

// A quota does not refill between two edges of its calendar.
func ExampleQuota() {
	ctx := context.Background()
	monthly, err := limiter.ParseRenewal("month", "Europe/Berlin")
	if err != nil {
		panic(err)
	}
	limits := newExample(ctx, limiter.Quota("tokens", 1_000_000, monthly))
	defer limits.Close()

	request := limiter.Request{Entity: "team-1", Resource: "gpt-4", Consume: map[string]int64{"tokens": 600_000}}
	if _, err := limits.Acquire(ctx, request); err != nil {
		panic(err)
	}
	_, err = limits.Acquire(ctx, request)
	var refused *limiter.ExceededError
	if !errors.As(err, &refused) {
		panic(err)
	}
	status := refused.Statuses[0]
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	fmt.Println("left:", status.Available, "renews on day", status.ResetsAt.In(berlin).Day(), "at", status.ResetsAt.In(berlin).Format(time.TimeOnly))
	// Output: left: 400000 renews on day 1 at 00:00:00
}
