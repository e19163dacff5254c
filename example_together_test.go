package limiter_test

import (
	"context"
	"errors"
	"fmt"

	limiter "github.com/zeroae/zae-limiter-go"
)

// One request takes from all its resources, or from none.
func ExampleLease_Resource() {
	ctx := context.Background()
	limits := newExample(ctx, limiter.PerHour("tph", 1000))
	defer limits.Close()
	request := limiter.Request{
		Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"tph": 600},
		Also: []limiter.Part{{Resource: "embeddings", Consume: map[string]int64{"tph": 100}}},
	}

	lease, err := limits.Acquire(ctx, request)
	if err != nil {
		panic(err)
	}
	embeddings, err := lease.Resource("embeddings")
	if err != nil {
		panic(err)
	}
	fmt.Println(embeddings.Settle("tph", 80)) // what was really used
	fmt.Println(lease.Commit(ctx))            // of both

	_, err = limits.Acquire(ctx, request)
	if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
		for _, s := range refused.Statuses {
			fmt.Println(s.Resource, "left:", s.Available, "refused:", s.Exceeded)
		}
	}
	// Output:
	// <nil>
	// <nil>
	// gpt-4 left: 400 refused: true
	// embeddings left: 920 refused: false
}
