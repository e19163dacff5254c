package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

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

func ExampleLogDecisions() {
	ctx := context.Background()
	toOutput := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "latency" || a.Key == "retry_after" { // they differ each time
				return slog.Attr{}
			}
			return a
		},
	}))
	limits, err := limiter.New(openExample(ctx), limiter.Options{Observer: limiter.LogDecisions(toOutput)})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	for range 2 {
		_, _ = limits.Acquire(ctx, limiter.Request{
			Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpm": 1},
			Fallback: []limiter.Limit{limiter.PerMinute("rpm", 1)},
		})
	}
	// Output:
	// level=DEBUG msg="limiter call" call=acquire entity=key-1 resource=gpt-4 result=admitted requests=4
	// level=DEBUG msg="limiter call" call=acquire entity=key-1 resource=gpt-4 result=refused requests=0 from_memory=true refused_by.entity=key-1 refused_by.limit=rpm refused_by.requested=1 refused_by.available=0
}

// refusals counts the refused requests of each entity.
type refusals map[string]int

func (refusals) BeginCall(ctx context.Context, _ limiter.Call) context.Context { return ctx }

func (r refusals) EndCall(_ context.Context, c limiter.CallResult) {
	if c.Result == limiter.Refused {
		r[c.Entity]++ // a program with goroutines needs a lock
	}
}

func (refusals) BeginOperation(ctx context.Context, _ limiter.Operation) context.Context { return ctx }
func (refusals) EndOperation(context.Context, limiter.OperationResult)                   {}

func ExampleObserver() {
	ctx := context.Background()
	refused := refusals{}
	limits, err := limiter.New(openExample(ctx), limiter.Options{Observer: refused})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	for range 3 {
		_, _ = limits.Acquire(ctx, limiter.Request{
			Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpm": 1},
			Fallback: []limiter.Limit{limiter.PerMinute("rpm", 1)},
		})
	}
	fmt.Println(refused)
	// Output: map[key-1:2]
}
