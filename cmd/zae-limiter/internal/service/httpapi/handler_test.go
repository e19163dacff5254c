package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

var anHour = decide.Policy{MaxWait: time.Hour}

// A refusal has the exact wait, and Retry-After has whole seconds, rounded up: 1 ms before the wait
// is over the same call is refused, and then it is admitted.
func TestTheWaitIsExactAndRetryAfterIsRoundedUp(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		if got := s.acquire(7); got.Code != http.StatusOK || !got.Admitted || got.Statuses[0].Available != 0 {
			s.Fatalf("%d %s", got.Code, got.Body)
		}
		time.Sleep(100 * time.Millisecond)
		got := s.acquire(1)
		wait := time.Duration(*got.RetryAfter) * time.Millisecond
		seconds, err := strconv.Atoi(got.Header().Get("Retry-After"))
		if got.Code != http.StatusTooManyRequests || got.Admitted || err != nil || time.Duration(seconds)*time.Second < wait || time.Duration(seconds-1)*time.Second >= wait {
			s.Fatalf("%d, wait %v, Retry-After %d: %s", got.Code, wait, seconds, got.Body)
		}
		if wait%time.Second == 0 {
			s.Fatal("the test rounds nothing")
		}
		if !reflect.DeepEqual(got.Problem.Violated, []string{"rpm"}) || got.Problem.Status != http.StatusTooManyRequests || len(got.Statuses) != 1 {
			s.Errorf("%s", got.Body)
		}
		if limit, policy := got.Header().Get("RateLimit"), got.Header().Get("RateLimit-Policy"); !strings.HasPrefix(limit, `"rpm";r=0;t=`) || policy != `"rpm";q=7;w=60` {
			s.Errorf("RateLimit %s, RateLimit-Policy %s", limit, policy)
		}
		time.Sleep(wait - time.Millisecond)
		if got := s.acquire(1); got.Code != http.StatusTooManyRequests {
			s.Errorf("admitted 1 ms before its time: %s", got.Body)
		}
		time.Sleep(time.Millisecond)
		if got := s.acquire(1); got.Code != http.StatusOK {
			s.Errorf("refused at its time: %s", got.Body)
		}
	}, limiter.PerMinute("rpm", 7))
}

// A refusal that no wait helps has no Retry-After, and null for a wait.
func TestWhatNoWaitHelps(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		got := s.acquire(8)
		if got.Code != http.StatusTooManyRequests || got.RetryAfter != nil || got.Header().Get("Retry-After") != "" || !strings.Contains(got.Body.String(), `"retry_after_ms":null`) {
			s.Errorf("%d %v %s", got.Code, got.Header(), got.Body)
		}
	}, limiter.PerMinute("rpm", 7))
}

// A dry run is answered as the call would be, and takes nothing.
func TestADryRunTakesNothing(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		for range 3 {
			if got := s.acquire(7, `,"dry_run":true`); got.Code != http.StatusOK || !got.Admitted {
				s.Fatalf("%d %s", got.Code, got.Body)
			}
		}
		s.acquire(7)
		got := s.acquire(1, `,"dry_run":true`)
		if got.Code != http.StatusTooManyRequests || got.RetryAfter == nil || got.Header().Get("Retry-After") == "" {
			s.Errorf("%d %s", got.Code, got.Body)
		}
		if got := s.acquire(1, `,"dry_run":true,"wait_ms":5`); got.Code != http.StatusBadRequest || got.Problem.Field != "wait_ms" {
			s.Errorf("%d %s", got.Code, got.Body)
		}
	}, limiter.PerMinute("rpm", 7))
}

// A call waits as long as it may, and is refused at once if it would have to wait longer.
func TestACallWaits(t *testing.T) {
	inBubble(t, decide.Policy{MaxWait: time.Minute}, func(s *service) {
		s.acquire(6)
		began := time.Now()
		if got := s.acquire(1, `,"wait_ms":9999`); got.Code != http.StatusTooManyRequests || time.Since(began) != 0 {
			s.Errorf("%d after %v", got.Code, time.Since(began))
		}
		if got := s.acquire(1, `,"wait_ms":20000`); got.Code != http.StatusOK || time.Since(began) != 10*time.Second {
			s.Errorf("%d after %v: %s", got.Code, time.Since(began), got.Body)
		}
		for _, wait := range []string{"-1", "60001"} {
			if got := s.acquire(1, `,"wait_ms":`+wait); got.Code != http.StatusBadRequest || got.Problem.Field != "wait_ms" {
				s.Errorf("wait_ms %s: %d %s", wait, got.Code, got.Body)
			}
		}
	}, limiter.PerMinute("rpm", 6))
}

// A call for several resources takes from all or from none. The header fields are of its first one.
func TestACallForSeveralResources(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		also := `,"also":[{"resource":"embeddings","consume":{"rpm":`
		if got := s.acquire(2, also+`7}}]`); got.Code != http.StatusOK || len(got.Statuses) != 2 || got.Header().Get("RateLimit") != `"rpm";r=5;t=18` {
			s.Errorf("%d %v %s", got.Code, got.Header(), got.Body)
		}
		if got := s.acquire(1, also+`1}}]`); got.Code != http.StatusTooManyRequests || s.left() != 5 {
			s.Errorf("%d, %d left: %s", got.Code, s.left(), got.Body)
		}
		if got := s.acquire(1, also+`-1}}]`); got.Code != http.StatusBadRequest || got.Problem.Field != "also.consume.rpm" {
			s.Errorf("%d %s", got.Code, got.Body)
		}
	}, limiter.PerMinute("rpm", 7))
}

// The calls of a batch are decided side by side: each may wait. One that fails, or is not valid,
// fails alone, and the limit holds over all.
func TestABatch(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		calls := []string{`{"entity_id":"","resource":"gpt-4","consume":{"rpm":1}}`, `{"entity_id":"key-1","misspelled":1}`, `7`}
		for range 8 {
			calls = append(calls, `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1}}`)
		}
		for i := range 2 {
			calls = append(calls, `{"entity_id":"other-`+strconv.Itoa(i)+`","resource":"gpt-4","consume":{"rpm":7}}`)
		}
		got := s.post("/v1/batch", `{"calls":[`+strings.Join(calls, ",")+`]}`)
		if got.Code != http.StatusOK || len(got.Results) != len(calls) {
			s.Fatalf("%d %s", got.Code, got.Body)
		}
		for i, field := range []string{"entity_id", "misspelled", ""} {
			if r := got.Results[i]; r.Status != http.StatusBadRequest || r.Failure == nil || r.Failure.Status != r.Status || r.Failure.Field != field {
				s.Errorf("call %d: %+v", i, r)
			}
		}
		codes := map[int]int{}
		for _, r := range got.Results[3:11] {
			codes[r.Status]++
		}
		if codes[http.StatusOK] != 7 || codes[http.StatusTooManyRequests] != 1 {
			s.Errorf("key-1: %v", codes)
		}
		for i, r := range got.Results[11:] {
			if r.Status != http.StatusOK || !r.Decision.Admitted || r.Decision.Statuses[0].Entity != "other-"+strconv.Itoa(i) {
				s.Errorf("other-%d: %+v", i, r)
			}
		}
		// The second call is decided while the first one waits: a minute later it would be admitted.
		const patient = `{"entity_id":"other-0","resource":"gpt-4","consume":{"rpm":7},"wait_ms":70000},{"entity_id":"other-1","resource":"gpt-4","consume":{"rpm":7}}`
		if got := s.post("/v1/batch", `{"calls":[`+patient+`]}`); got.Results[0].Status != http.StatusOK || got.Results[1].Status != http.StatusTooManyRequests {
			s.Errorf("%s", got.Body)
		}
	}, limiter.PerMinute("rpm", 7))
}

// A batch has 1 to 100 calls.
func TestABatchIsBounded(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		const call = `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1}}`
		for n, want := range map[int]int{0: http.StatusBadRequest, 1: http.StatusOK, 100: http.StatusOK, 101: http.StatusBadRequest} {
			calls := strings.TrimSuffix(strings.Repeat(call+",", n), ",")
			if got := s.post("/v1/batch", `{"calls":[`+calls+`]}`); got.Code != want {
				s.Errorf("%d calls: %d, want %d", n, got.Code, want)
			}
		}
	}, limiter.PerMinute("rpm", 1000))
}

// In an outage a call fails and may be repeated, or is admitted without metering, as the operator
// has chosen.
func TestAnOutage(t *testing.T) {
	inBubble(t, decide.Policy{}, func(s *service) {
		s.acquire(1)
		s.limits.Fail(limiter.ErrUnavailable)
		if got := s.acquire(1); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "1" {
			s.Errorf("%d %s", got.Code, got.Body)
		}
		s.handler = handlerOf(s.limits, decide.Policy{OnUnavailable: limiter.Allow})
		if got := s.acquire(1); got.Code != http.StatusOK || !got.Admitted || got.Degraded == "" {
			s.Errorf("%d %s", got.Code, got.Body)
		}
	}, limiter.PerMinute("rpm", 7))
}

// An entity without limits is told so, unless the service has a fallback.
func TestAFallback(t *testing.T) {
	inBubble(t, decide.Policy{}, func(s *service) {
		if got := s.acquire(1); got.Code != http.StatusUnprocessableEntity || got.Problem.Field != "consume" {
			s.Errorf("%d %s", got.Code, got.Body)
		}
		s.handler = handlerOf(s.limits, decide.Policy{Fallback: []limiter.Limit{limiter.PerMinute("rpm", 3)}})
		if got := s.acquire(1); got.Code != http.StatusOK || s.left() != 2 {
			s.Errorf("%d %s", got.Code, got.Body)
		}
	})
}

// A leaver's client leaves just after the limiter has admitted its call.
type leaver struct {
	decide.Limiter
	leave context.CancelFunc
}

func (l leaver) Acquire(ctx context.Context, req limiter.Request) (*limiter.Lease, error) {
	lease, err := l.Limiter.Acquire(ctx, req)
	l.leave()
	return lease, err
}

// A client that has gone by the time of the decision gets its tokens back.
func TestAClientThatHasGone(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		s.acquire(1)
		ctx, leave := context.WithCancel(s.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/acquire", strings.NewReader(`{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":3}}`))
		r.Header.Set("Content-Type", "application/json")
		own := s.handler
		s.handler = handlerOf(leaver{s.limits, leave}, anHour)
		if got := s.send(r); got.Code != 499 || got.Body.Len() > 0 {
			s.Errorf("the answer, which nobody gets, is %d", got.Code)
		}
		s.handler = own
		if left := s.left(); left != 6 {
			s.Errorf("%d left, want 6", left)
		}
	}, limiter.PerMinute("rpm", 7))
}

// A together holds calls back until all calls of a batch have begun, or for a minute.
type together struct {
	limiter.Observers

	missing atomic.Int64
	met     chan struct{}
	alone   atomic.Bool
}

func (w *together) BeginCall(ctx context.Context, c limiter.Call) context.Context {
	if c.Kind != limiter.CallAcquire {
		return ctx
	}
	if w.missing.Add(-1) == 0 {
		close(w.met)
	}
	select {
	case <-w.met:
	case <-time.After(time.Minute):
		w.alone.Store(true)
	}
	return ctx
}

// All calls of a batch may wait at the same time, each for what it asks, and each is made once.
func TestAllCallsOfABatchMayWait(t *testing.T) {
	for _, n := range []int{1, 2, httpapi.MaxBatch} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			inBubble(t, decide.Policy{}, func(s *service) {
				meet := &together{met: make(chan struct{})}
				meet.missing.Store(int64(n))
				s.handler = handlerOf(s.limits.NewLimiter(limiter.Options{Observer: meet}), decide.Policy{})
				calls := make([]string, n)
				for i := range calls {
					calls[i] = fmt.Sprintf(`{"entity_id":"key-%d","resource":"gpt-4","consume":{"rpm":%d}}`, i, i+1)
				}
				got := s.post("/v1/batch", `{"calls":[`+strings.Join(calls, ",")+`]}`)
				if len(got.Results) != n || meet.alone.Load() {
					s.Fatalf("alone: %t, %d %s", meet.alone.Load(), got.Code, got.Body)
				}
				for i, r := range got.Results {
					if d := r.Decision; d == nil || len(d.Statuses) != 1 || d.Statuses[0].Entity != fmt.Sprintf("key-%d", i) || d.Statuses[0].Available != int64(1000-i-1) {
						s.Errorf("call %d: %+v", i, r)
					}
				}
			}, limiter.PerMinute("rpm", 1000))
		})
	}
}

// The problem of a refusal has the ID by which the process remembers it. So has each call of a batch. Other
// answers have none.
func TestARefusalHasAnID(t *testing.T) {
	inBubble(t, decide.Policy{}, func(s *service) {
		log := refusals.New(time.Now)
		s.handler = httpapi.New(httpapi.Options{Limiter: s.limits.NewLimiter(limiter.Options{Observer: log}), Logger: slog.New(slog.DiscardHandler), Refusals: log})
		idOf := func(text []byte) (id string) {
			s.Helper()
			var p struct{ Instance string }
			if err := json.Unmarshal(text, &p); err != nil {
				s.Fatal(err)
			}
			return p.Instance
		}
		if got := s.acquire(2); got.Code != http.StatusOK || idOf(got.Body.Bytes()) != "" {
			s.Errorf("%d %s", got.Code, got.Body)
		}
		const call = `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":2}}`
		got := s.post("/v1/acquire", call, "X-Request-Id", "req-7")
		found := log.Last(refusals.Query{ID: idOf(got.Body.Bytes())}, 10)
		if got.Code != http.StatusTooManyRequests || len(found) != 1 || found[0].Request != "req-7" || found[0].Entity != "key-1" {
			s.Errorf("%d %s: %+v", got.Code, got.Body, found)
		}
		if got := s.acquire(2, `,"dry_run":true`); idOf(got.Body.Bytes()) != "" {
			s.Errorf("a dry run: %s", got.Body)
		}
		if got := s.acquire(-1); idOf(got.Body.Bytes()) != "" {
			s.Errorf("no call: %s", got.Body)
		}
		var batch struct {
			Results []struct{ Failure struct{ Instance string } }
		}
		if err := json.Unmarshal(s.post("/v1/batch", `{"calls":[`+call+`,`+call+`]}`, "X-Request-Id", "req-8").Body.Bytes(), &batch); err != nil {
			s.Fatal(err)
		}
		if a, b := batch.Results[0].Failure.Instance, batch.Results[1].Failure.Instance; a == "" || b == "" || a == b || len(log.Last(refusals.Query{ID: "req-8"}, 10)) != 2 {
			s.Errorf("%q and %q", a, b)
		}
		if _, err := s.limits.Store.SetSwitch(s.Context(), limiter.ConfigKey{Entity: "key-2", Resource: "gpt-4"}, dynamo.Switch{Policy: store.Yes}, nil); err != nil {
			s.Fatal(err)
		}
		for i, also := range []string{"", `,"dry_run":true`} {
			got := s.post("/v1/acquire", `{"entity_id":"key-2","resource":"gpt-4","consume":{"rpm":1}`+also+`}`, "X-Request-Id", "off-"+strconv.Itoa(i))
			found := log.Last(refusals.Query{ID: "off-" + strconv.Itoa(i)}, 10)
			if id := idOf(got.Body.Bytes()); also == `,"dry_run":true` && (id != "" || len(found) != 0) {
				s.Errorf("a dry run: %s", got.Body)
			} else if also != `,"dry_run":true` && (got.Code != http.StatusForbidden || len(found) != 1 || found[0].ID != id || found[0].Disabled != (refusals.Bucket{Entity: "key-2", Resource: "gpt-4"})) {
				s.Errorf("%d %s: %+v", got.Code, got.Body, found)
			}
		}
	}, limiter.PerMinute("rpm", 3))
}
