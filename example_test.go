package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// openExample creates a table in this process. Use a *dynamodb.Client in place of the
// engine to use a real table.
func openExample(ctx context.Context) *dynamo.Store {
	engine := dynamolite.New(dynamolite.Options{})
	if err := dynamo.CreateTable(ctx, engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		panic(err)
	}
	store, err := dynamo.Open(ctx, dynamo.Options{API: engine, Table: "limits"})
	if err != nil {
		panic(err)
	}
	return store
}

func Example() {
	ctx := context.Background()
	store := openExample(ctx)
	err := store.SetLimits(ctx, limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{
		limiter.PerHour("rph", 100),
		limiter.PerHour("tph", 10_000, limiter.Burst(2_000)),
	})
	if err != nil {
		panic(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	request := limiter.Request{
		Entity: "key-1", Resource: "gpt-4",
		Consume: map[string]int64{"rph": 1, "tph": 1_500},
	}
	err = limits.Do(ctx, request, func(_ context.Context, lease *limiter.Lease) error {
		return lease.Adjust("tph", -600) // the call used 900 of the 1,500 reserved
	})
	fmt.Println("first:", err)

	err = limits.Do(ctx, request, func(context.Context, *limiter.Lease) error { return nil })
	var refused *limiter.ExceededError
	fmt.Println("second refused:", errors.As(err, &refused))
	fmt.Println("limit:", refused.Statuses[1].Limit.Name, "available:", refused.Statuses[1].Available)
	// Output:
	// first: <nil>
	// second refused: true
	// limit: tph available: 1100
}

func ExampleLimiter_Available() {
	ctx := context.Background()
	limits, err := limiter.New(openExample(ctx), limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	statuses, err := limits.Available(ctx, limiter.Request{
		Entity: "key-1", Resource: "gpt-4",
		Consume:  map[string]int64{"rpm": 20},
		Fallback: []limiter.Limit{limiter.PerMinute("rpm", 10)},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(statuses[0].Available, statuses[0].Exceeded, statuses[0].RetryAfter == limiter.Never)
	// Output: 10 true true
}

func ExampleLimiter_Limits() {
	ctx := context.Background()
	store := openExample(ctx)
	err := errors.Join(
		store.SetSystem(ctx, []limiter.Limit{limiter.PerMinute("rpm", 10)}, limiter.Allow),
		store.SetLimits(ctx, limiter.ConfigKey{Entity: "key-1", Resource: "gpt-4"}, []limiter.Limit{limiter.PerMinute("rpm", 500)}),
	)
	if err != nil {
		panic(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	for _, entity := range []string{"key-1", "key-2"} {
		e, err := limits.Limits(ctx, entity, "gpt-4")
		if err != nil {
			panic(err)
		}
		fmt.Println(entity, e.Level, e.Limits[0].Name, e.Limits[0].Amount, e.OnUnavailable)
	}
	// Output:
	// key-1 entity_resource rpm 500 allow
	// key-2 system rpm 10 allow
}

func ExampleLimiter_Standing() {
	ctx := context.Background()
	limits, err := limiter.New(spentExample(ctx), limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	s, err := limits.Standing(ctx, "key-1", "gpt-4")
	if err != nil {
		panic(err)
	}
	for _, b := range s.Limits {
		fmt.Println(b.Limit.Name, b.Available, "of", b.Limit.Capacity, "full in", b.FullAfter.Round(time.Hour))
	}
	// Output:
	// rpd 75 of 100 full in 6h0m0s
	// tpd 500 of 1000 full in 12h0m0s
}

func ExampleLimiter_Top() {
	ctx := context.Background()
	limits, err := limiter.New(spentExample(ctx), limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	top, err := limits.Top(ctx, "gpt-4", 3)
	if err != nil {
		panic(err)
	}
	for _, b := range top {
		fmt.Printf("%s %s %.0f%% used\n", b.Entity, b.Limit.Name, 100*b.Used)
	}
	// Output:
	// key-2 rpd 90% used
	// key-1 tpd 50% used
	// key-1 rpd 25% used
}

// spentExample is a store on which two entities have used some of what a day allows.
func spentExample(ctx context.Context) *dynamo.Store {
	store := openExample(ctx)
	err := store.SetSystem(ctx, []limiter.Limit{limiter.PerDay("rpd", 100), limiter.PerDay("tpd", 1000)}, "")
	if err != nil {
		panic(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	for entity, consume := range map[string]map[string]int64{
		"key-1": {"rpd": 25, "tpd": 500}, "key-2": {"rpd": 90, "tpd": 0},
	} {
		lease, err := limits.Acquire(ctx, limiter.Request{Entity: entity, Resource: "gpt-4", Consume: consume})
		if err != nil {
			panic(err)
		}
		if err := lease.Commit(ctx); err != nil {
			panic(err)
		}
	}
	if err := limits.Close(); err != nil {
		panic(err)
	}
	return store
}
