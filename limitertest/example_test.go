package limitertest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// A test of a program that allows three requests a minute. It waits for 20 s of virtual
// time, which take no real time.
func ExampleNew() {
	test := func(t *testing.T) {
		t.Helper()
		limits := limitertest.New(t, limiter.PerMinute("rpm", 3))
		request := limiter.Request{Entity: "key-1", Resource: "api", Consume: map[string]int64{"rpm": 1}}

		limits.Refuse("key-1", "api")
		_, err := limits.Acquire(t.Context(), request)
		refused := (*limiter.ExceededError)(nil)
		if !errors.As(err, &refused) || refused.RetryAfter() != 20*time.Second {
			t.Errorf("got %v, want a refusal for 20s", err)
		}

		time.Sleep(refused.RetryAfter())
		if _, err := limits.Acquire(t.Context(), request); err != nil {
			t.Error(err)
		}

		limits.Restore() // what Refuse has taken goes back
		limits.Fail(limiter.ErrUnavailable)
		if _, err := limits.Acquire(t.Context(), request); !errors.Is(err, limiter.ErrUnavailable) {
			t.Errorf("got %v, want an outage", err)
		}
	}
	passed := testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{
		{Name: "TestHandler", F: func(t *testing.T) {
			t.Helper()
			synctest.Test(t, test)
		}},
	})
	fmt.Println("passed:", passed)
	// Output: passed: true
}
