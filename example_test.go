package limiter_test

import (
	"context"
	"errors"
	"fmt"

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
