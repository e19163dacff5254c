package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

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

	top, err := limits.Top(ctx, limiter.TopQuery{Resource: "gpt-4", Most: 3})
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
