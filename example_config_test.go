package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// The burst is what the bucket holds, and what a client may take at once.
func ExampleBurst() {
	even := limiter.PerMinute("tpm", 10_000)
	bursty := limiter.PerMinute("tpm", 10_000, limiter.Burst(15_000))
	fmt.Println(even.Capacity, even.Amount, even.Period)
	fmt.Println(bursty.Capacity, bursty.Amount, bursty.Period)
	// Output:
	// 10000 10000 1m0s
	// 15000 10000 1m0s
}

func ExampleCustom() {
	fmt.Println(limiter.Custom("jobs", 10, 5*time.Minute).Validate())
	fmt.Println(limiter.Custom("jobs", 10, 500*time.Millisecond).Validate())
	// Output:
	// <nil>
	// invalid limit jobs: refill period "500ms": give a whole number of seconds from 1 to 10^9
}

// The first level that has limits holds, whole.
func ExampleConfigKey() {
	ctx := context.Background()
	store := openExample(ctx)
	for _, level := range []struct {
		key       limiter.ConfigKey
		perMinute int64
	}{
		{limiter.ConfigKey{Entity: "acme", Resource: "gpt-4"}, 1_000},
		{limiter.ConfigKey{Entity: "acme", Resource: limiter.DefaultResource}, 500},
		{limiter.ConfigKey{Resource: "gpt-4"}, 100},
		{limiter.ConfigKey{}, 60}, // the system's
	} {
		if err := store.SetLimits(ctx, level.key, []limiter.Limit{limiter.PerMinute("rpm", level.perMinute)}); err != nil {
			panic(err)
		}
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	for _, of := range [][2]string{{"acme", "gpt-4"}, {"acme", "gpt-3"}, {"bob", "gpt-4"}, {"bob", "gpt-3"}} {
		holds, err := limits.Limits(ctx, of[0], of[1])
		if err != nil {
			panic(err)
		}
		fmt.Println(of[0], of[1], holds.Limits[0].Amount, holds.Level)
	}
	// Output:
	// acme gpt-4 1000 entity_resource
	// acme gpt-3 500 entity
	// bob gpt-4 100 resource
	// bob gpt-3 60 system
}

// Two keys share the budget of their project: a request takes from the key and from the
// project, or from neither.
func ExampleEntity() {
	ctx := context.Background()
	store := openExample(ctx)
	for _, e := range []limiter.Entity{
		{ID: "acme"},
		{ID: "key-1", Parent: "acme", Cascade: true},
		{ID: "key-2", Parent: "acme", Cascade: true},
	} {
		if _, err := store.CreateEntity(ctx, e); err != nil {
			panic(err)
		}
	}
	if err := errors.Join(
		store.SetSystem(ctx, []limiter.Limit{limiter.PerDay("calls", 5)}, ""),
		store.SetLimits(ctx, limiter.ConfigKey{Entity: "acme", Resource: "api"}, []limiter.Limit{limiter.PerDay("calls", 6)}),
	); err != nil {
		panic(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	for _, key := range []string{"key-1", "key-2"} {
		_, err := limits.Acquire(ctx, limiter.Request{Entity: key, Resource: "api", Consume: map[string]int64{"calls": 4}})
		refused := (*limiter.ExceededError)(nil)
		if !errors.As(err, &refused) {
			fmt.Println(key, err)
			continue
		}
		for _, s := range refused.Statuses {
			fmt.Println(s.Entity, "has", s.Available, "refused:", s.Exceeded)
		}
	}
	// Output:
	// key-1 <nil>
	// key-2 has 5 refused: false
	// acme has 2 refused: true
}

// A program brings limits for what nobody has configured yet. Once an operator configures
// any level, that level holds instead.
func ExampleRequest_fallback() {
	ctx := context.Background()
	store := openExample(ctx)
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()
	request := limiter.Request{
		Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1},
		Fallback: []limiter.Limit{limiter.PerDay("rpd", 10)},
	}

	lease, err := limits.Acquire(ctx, request)
	if err != nil {
		panic(err)
	}
	fmt.Println(lease.Statuses()[0].Limit.Capacity)
	if err := store.SetLimits(ctx, limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{limiter.PerDay("rpd", 5)}); err != nil {
		panic(err)
	}
	if lease, err = limits.Acquire(ctx, request); err != nil {
		panic(err)
	}
	fmt.Println(lease.Statuses()[0].Limit.Capacity)
	// Output:
	// 10
	// 5
}

// A request for a limit that no level configures is an error of the program or of the
// configuration. It is not a refusal.
func ExampleNotConfiguredError() {
	ctx := context.Background()
	limits := newExample(ctx, limiter.PerMinute("rpm", 60))
	defer limits.Close()

	_, err := limits.Acquire(ctx, limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"tpm": 500}})
	missing := (*limiter.NotConfiguredError)(nil)
	if !errors.As(err, &missing) {
		panic(err)
	}
	fmt.Println(missing.Limits, missing.Known, errors.Is(err, limiter.ErrExceeded))
	// Output: [tpm] [rpm] false
}

// Names of identity providers are not valid IDs. EncodeName makes one of any name.
func ExampleEncodeName() {
	id := limiter.EncodeName("auth0|5f7c")
	name, err := limiter.DecodeName(id)
	fmt.Println(id, name, err)
	fmt.Println(limiter.EncodeName("alice+test@example.com"), limiter.EncodeName("key-1"))
	// Output:
	// auth0Z_7C5f7c auth0|5f7c <nil>
	// aliceZ_2Btest@example.com key-1
}
