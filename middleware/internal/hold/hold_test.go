package hold_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/middleware/internal/hold"
)

// A pause holds calls of its key until it ends. Only a longer one changes it.
func TestAPauseHoldsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, at := hold.New(time.Minute, time.Now), hold.Key{Target: "a"}
		h.Learn(at, 10*time.Second)
		h.Learn(at, 5*time.Second)
		h.Learn(at, 0)
		time.Sleep(time.Second)
		rest, err := h.Pass(t.Context(), at, false)
		if rest != 9*time.Second || err != nil {
			t.Errorf("the rest is %v, %v", rest, err)
		}
		if rest, err := h.Pass(t.Context(), hold.Key{Target: "b"}, false); rest != 0 || err != nil {
			t.Errorf("another key is held for %v, %v", rest, err)
		}
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			h.Learn(at, 20*time.Second)
		}()
		if rest, err := h.Pass(t.Context(), at, true); rest != 0 || err != nil || time.Since(began) != 21*time.Second {
			t.Errorf("passed after %v with %v, %v", time.Since(began), rest, err)
		}
		h.Learn(at, time.Hour)
		if rest, _ := h.Pass(t.Context(), at, false); rest != time.Minute {
			t.Errorf("the longest pause is %v", rest)
		}
	})
}

// A call that cannot pass before its deadline does not wait, and one that leaves does not
// wait on.
func TestAWaitEndsWithItsCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, at, began := hold.New(time.Minute, time.Now), hold.Key{}, time.Now()
		h.Learn(at, 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		if rest, err := h.Pass(ctx, at, true); rest != 10*time.Second || err != nil || time.Since(began) != 0 {
			t.Errorf("%v, %v after %v", rest, err, time.Since(began))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := h.Pass(ctx, at, true); !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// The oldest pause is forgotten, so that memory is bounded, and a negative bound learns none.
func TestPausesAreBounded(t *testing.T) {
	t.Parallel()
	h := hold.New(time.Hour, time.Now)
	for i := range 10_001 {
		h.Learn(hold.Key{Entity: strconv.Itoa(i)}, time.Hour)
	}
	for entity, isHeld := range map[string]bool{"0": false, "1": true, "10000": true} {
		if rest, _ := h.Pass(t.Context(), hold.Key{Entity: entity}, false); rest > 0 != isHeld {
			t.Errorf("%s is held for %v", entity, rest)
		}
	}
	h = hold.New(-1, time.Now)
	h.Learn(hold.Key{}, time.Hour)
	if rest, _ := h.Pass(t.Context(), hold.Key{}, false); rest > 0 {
		t.Errorf("held for %v", rest)
	}
}
