package replay_test

import (
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
)

// What would 2 requests a minute have refused of 5 requests, 10 seconds apart?
func Example() {
	replayer, err := replay.New(replay.Options{
		Levels: replay.Levels{{Resource: "gpt-4"}: {limiter.PerMinute("rpm", 2)}},
		Costs:  []string{"rpm"},
	})
	if err != nil {
		panic(err)
	}
	began := time.Date(2026, time.January, 2, 3, 4, 0, 0, time.UTC)
	for i := range 5 {
		at := began.Add(time.Duration(i) * 10 * time.Second)
		admitted, err := replayer.Add(&replay.Event{
			At: at.UnixMilli(), Entity: "key-1", Resource: "gpt-4", Amounts: []int64{1},
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(at.Format(time.TimeOnly), admitted)
	}
	result := replayer.Result()
	fmt.Printf("%d of %d refused\n", result.Refused, result.Events)
	// Output:
	// 03:04:00 true
	// 03:04:10 true
	// 03:04:20 false
	// 03:04:30 true
	// 03:04:40 false
	// 2 of 5 refused
}
