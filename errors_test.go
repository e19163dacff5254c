package limiter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// conditions are all that callers branch on.
var conditions = map[string]error{
	"exceeded": limiter.ErrExceeded, "queue full": limiter.ErrQueueFull, "lease closed": limiter.ErrLeaseClosed, "closed": limiter.ErrClosed,
	"invalid": limiter.ErrInvalid, "unavailable": limiter.ErrUnavailable, "throttled": limiter.ErrThrottled, "hot partition": limiter.ErrHotPartition,
	"conflict": limiter.ErrConflict, "access denied": limiter.ErrAccessDenied, "not found": limiter.ErrNotFound, "not configured": limiter.ErrNotConfigured,
	"exists": limiter.ErrExists, "nested cascade": limiter.ErrNestedCascade, "disabled": limiter.ErrDisabled, "unsupported": limiter.ErrUnsupported,
	"incomplete": limiter.ErrIncomplete, "corrupt": limiter.ErrCorrupt, "incompatible": limiter.ErrIncompatible,
	"canceled": context.Canceled, "deadline": context.DeadlineExceeded,
}

// An error with data is the condition of the same name and no other, and errors.As finds it:
// as it is, wrapped, and joined.
func TestErrorsWithDataAreOneCondition(t *testing.T) {
	t.Parallel()
	for is, typed := range map[string]error{
		"exceeded":       &limiter.ExceededError{},
		"invalid":        &limiter.ValidationError{Field: "entity", Value: "a b", Reason: "no spaces"},
		"not found":      &limiter.NotFoundError{Kind: "table", Name: "limits"},
		"not configured": &limiter.NotConfiguredError{Limits: []string{"rpm"}},
		"exists":         &limiter.ExistsError{},
		"nested cascade": &limiter.NestedCascadeError{},
		"disabled":       &limiter.DisabledError{Entity: "key", Resource: "gpt-4"},
		"unsupported":    &limiter.UnsupportedError{},
		"incomplete":     &limiter.IncompleteError{Err: limiter.ErrThrottled},
		"corrupt":        &limiter.CorruptError{},
	} {
		for how, err := range map[string]error{"plain": typed, "wrapped": fmt.Errorf("acquire: %w", typed), "joined": errors.Join(errors.New("first"), typed)} {
			for name, condition := range conditions {
				want := name == is || is == "incomplete" && name == "throttled"
				if errors.Is(err, condition) != want {
					t.Errorf("%s %T: errors.Is(%s) is %t", how, typed, name, !want)
				}
			}
			target := reflect.New(reflect.TypeOf(typed))
			if !errors.As(err, target.Interface()) || target.Elem().Interface() != any(typed) {
				t.Errorf("%s %T: errors.As does not find it", how, typed)
			}
			if err.Error() == "" {
				t.Errorf("%s %T has no text", how, typed)
			}
		}
	}
}

// Seconds are rounded up, and there is no number where no wait helps.
func TestRetryAfterInWholeSeconds(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		wait    time.Duration
		seconds int64
		ok      bool
	}{
		{0, 0, true},
		{1, 1, true},
		{time.Millisecond, 1, true},
		{999 * time.Millisecond, 1, true},
		{time.Second - 1, 1, true},
		{time.Second, 1, true},
		{time.Second + 1, 2, true},
		{20 * time.Second, 20, true},
		{(math.MaxInt32 + 1) * time.Second, math.MaxInt32 + 1, true},
		{100 * 365 * day, 100 * 365 * 86_400, true},
		{limiter.Never - 1, int64(limiter.Never/time.Second) + 1, true},
		{limiter.Never, 0, false},
	} {
		status := limiter.Status{Limit: limiter.PerMinute("rpm", 1), Requested: 1, Exceeded: true, RetryAfter: tt.wait}
		refusal := &limiter.ExceededError{Statuses: []limiter.Status{{}, status, {RetryAfter: min(tt.wait, 1)}}}
		if seconds, ok := status.RetryAfterSeconds(); seconds != tt.seconds || ok != tt.ok {
			t.Errorf("a status of %v: %d, %t", tt.wait, seconds, ok)
		}
		if seconds, ok := refusal.RetryAfterSeconds(); seconds != tt.seconds || ok != tt.ok || refusal.RetryAfter() != tt.wait {
			t.Errorf("a refusal of %v: %d, %t", tt.wait, seconds, ok)
		}
		text, err := json.Marshal(refusal)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal(text, &body); err != nil || (body["retry_after_ms"] == nil) != (tt.wait == limiter.Never) {
			t.Errorf("%v in JSON: %v, %v", tt.wait, body, err)
		}
	}
}

// A quota has no refill in JSON, and says when it renews, as in the peer's error body.
func TestAQuotaInJSON(t *testing.T) {
	t.Parallel()
	month, err := limiter.ParseRenewal("month", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	resets := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		status  limiter.Status
		has     []string
		hasNone []string
	}{
		{limiter.Status{Limit: limiter.Quota("q", 5, month), ResetsAt: resets, ResetsIn: time.Hour}, []string{"kind", "capacity", "resets_at_ms"}, []string{"refill_amount", "refill_period_seconds"}},
		{limiter.Status{Limit: limiter.PerMinute("q", 5)}, []string{"kind", "capacity", "refill_amount", "refill_period_seconds"}, []string{"resets_at_ms"}},
	} {
		text, err := json.Marshal(tt.status)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal(text, &body); err != nil {
			t.Fatal(err)
		}
		for _, name := range tt.has {
			if body[name] == nil {
				t.Errorf("%s lacks %s", text, name)
			}
		}
		for _, name := range tt.hasNone {
			if _, has := body[name]; has {
				t.Errorf("%s has %s", text, name)
			}
		}
	}
}
