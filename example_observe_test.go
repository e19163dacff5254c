package limiter_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	limiter "github.com/zeroae/zae-limiter-go"
)

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
