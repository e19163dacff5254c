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

// A worker waits for its turn instead of being refused. The context bounds the wait: with
// context.Background, Wait waits as long as it takes.
func ExampleLimiter_Wait() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	limits, err := limiter.New(openExample(ctx), limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	request := limiter.Request{
		Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rps": 1},
		Fallback: []limiter.Limit{limiter.PerSecond("rps", 100, limiter.Burst(2))},
	}
	for i := range 4 { // the third has to wait
		lease, err := limits.Wait(ctx, request)
		if err != nil {
			panic(err)
		}
		fmt.Println("admitted:", i+1)
		if err := lease.Commit(ctx); err != nil {
			panic(err)
		}
	}

	request.Consume = map[string]int64{"rps": 3} // more than the bucket ever holds
	_, err = limits.Wait(ctx, request)
	fmt.Println("refused at once:", errors.Is(err, limiter.ErrExceeded))
	// Output:
	// admitted: 1
	// admitted: 2
	// admitted: 3
	// admitted: 4
	// refused at once: true
}

// A gateway streams an answer and charges what was streamed, also if the upstream breaks.
func ExampleLease_Settle() {
	ctx := context.Background()
	limits, err := limiter.New(openExample(ctx), limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	broken := errors.New("connection reset")
	stream := func(send func(tokens int64)) error { // the upstream breaks after 200 tokens
		send(120)
		send(80)
		return broken
	}

	request := limiter.Request{
		Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"tph": 500},
		Fallback: []limiter.Limit{limiter.PerHour("tph", 1_000)},
	}
	serve := func() (err error) {
		lease, err := limits.Acquire(ctx, request)
		if err != nil {
			return err
		}
		used := int64(0)
		defer func() {
			ended := context.WithoutCancel(ctx) // the client may have left
			err = errors.Join(err, lease.Settle("tph", used), lease.Commit(ended))
		}()
		return stream(func(tokens int64) { used += tokens })
	}
	fmt.Println("upstream broke:", errors.Is(serve(), broken))

	request.Consume["tph"] = 0
	statuses, err := limits.Available(ctx, request)
	if err != nil {
		panic(err)
	}
	fmt.Println("left:", statuses[0].Available)
	// Output:
	// upstream broke: true
	// left: 800
}

// A long stream takes more as it goes on, under enforcement, and returns early what it will
// not need.
func ExampleLease_Take() {
	ctx := context.Background()
	limits, err := limiter.New(openExample(ctx), limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()

	lease, err := limits.Acquire(ctx, limiter.Request{
		Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"tpd": 600},
		Fallback: []limiter.Limit{limiter.PerDay("tpd", 1_000)},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("300 more:", lease.Take(ctx, map[string]int64{"tpd": 300}))
	err = lease.Take(ctx, map[string]int64{"tpd": 300})
	fmt.Println("300 more refused:", errors.Is(err, limiter.ErrExceeded))
	fmt.Println("500 returned:", lease.Release(ctx, map[string]int64{"tpd": 500}))
	fmt.Println("300 more:", lease.Take(ctx, map[string]int64{"tpd": 300}))
	fmt.Println("taken:", lease.Consumed()["tpd"], lease.Commit(ctx))
	// Output:
	// 300 more: <nil>
	// 300 more refused: true
	// 500 returned: <nil>
	// 300 more: <nil>
	// taken: 700 <nil>
}

// Errors as statuses of HTTP. A refusal may have no wait that helps; then there is no
// header Retry-After.
func ExampleExceededError_RetryAfterSeconds() {
	respond := func(err error) string {
		var refused *limiter.ExceededError
		switch {
		case errors.As(err, &refused): // ErrQueueFull, too
			if seconds, ok := refused.RetryAfterSeconds(); ok {
				return fmt.Sprintf("429, Retry-After: %d", seconds)
			}
			return "429"
		case errors.Is(err, limiter.ErrInvalid):
			return "400" // the client's key or model, for instance
		case errors.Is(err, limiter.ErrDisabled):
			return "403"
		case errors.Is(err, limiter.ErrNotConfigured):
			return "500" // this service's own fault
		default:
			return "503" // ErrUnavailable, ErrClosed and others
		}
	}
	fmt.Println(respond(&limiter.ExceededError{Statuses: []limiter.Status{{Exceeded: true, RetryAfter: 400 * time.Millisecond}}}))
	fmt.Println(respond(&limiter.ExceededError{Statuses: []limiter.Status{{Exceeded: true, RetryAfter: limiter.Never}}}))
	fmt.Println(respond(&limiter.NotConfiguredError{Entity: "key-1", Resource: "gpt-4", Limits: []string{"tpm"}}))
	fmt.Println(respond(&limiter.ValidationError{Field: "entity", Value: "a|b", Reason: "no |"}))
	// Output:
	// 429, Retry-After: 1
	// 429
	// 500
	// 400
}
