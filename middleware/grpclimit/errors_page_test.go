package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/grpclimit"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// statuses matches a table of docs/errors.md that has statuses.
var statuses = regexp.MustCompile(`(?s)<!-- statuses -->\n(.*?)<!-- end of statuses -->`)

// onThePage are errors as calls return them, by the first cell of their row.
var onThePage = map[string]error{
	"`ErrExceeded`, `ExceededError`": &limiter.ExceededError{},
	"`ErrQueueFull`":                 fmt.Errorf("%w: %w", limiter.ErrQueueFull, limiter.ErrExceeded),
	"`ErrSlotsFull`, `SlotsError`":   &limiter.SlotsError{Limit: "inflight", Slots: 1, Of: 1},
	"`ErrInvalid`, `ValidationError` of an entity, a resource or an amount": &limiter.ValidationError{Field: "entity"},
	"`ErrInvalid`, `ValidationError` of anything else":                      &limiter.ValidationError{Field: "settle"},
	"`ErrNotConfigured`, `NotConfiguredError`":                              &limiter.NotConfiguredError{},
	"`ErrDisabled`, `DisabledError`":                                        &limiter.DisabledError{},
	"`ErrUnavailable`":                                                      limiter.ErrUnavailable,
	"`ErrUnavailable`, `ShareError`":                                        &limiter.ShareError{},
	"`ErrThrottled`":                                                        fmt.Errorf("%w: %w", limiter.ErrThrottled, limiter.ErrUnavailable),
	"`ErrHotPartition`":                                                     errors.Join(limiter.ErrHotPartition, limiter.ErrThrottled, limiter.ErrUnavailable),
	"`ErrConflict`":                                                         limiter.ErrConflict,
	"`ErrAccessDenied`":                                                     limiter.ErrAccessDenied,
	"`ErrNotFound`, `NotFoundError`":                                        &limiter.NotFoundError{},
	"`ErrUnsupported`, `UnsupportedError`":                                  &limiter.UnsupportedError{},
	"`ErrIncompatible`":                                                     limiter.ErrIncompatible,
	"`ErrCorrupt`, `CorruptError`":                                          &limiter.CorruptError{},
	"`ErrClosed`":                                                           limiter.ErrClosed,
	"`ErrLeaseClosed`":                                                      limiter.ErrLeaseClosed,
	"`context.Canceled`":                                                    context.Canceled,
	"`context.DeadlineExceeded`":                                            context.DeadlineExceeded,
	"`ErrHeld`, `HeldError`":                                                &httplimit.HeldError{RetryAfter: time.Second},
	"`RequestError`":                                                        &httplimit.RequestError{Reason: "no"},
	"`ErrNoKey` of `APIKey` or `Claim`":                                     &httplimit.RequestError{Status: http.StatusUnauthorized, Missing: true},
}

// Each row of the page of errors says what servers answer.
func TestThePageOfErrorsSaysWhatServersAnswer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	for _, table := range statuses.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(table[1]) {
			cells := strings.Split(line, " | ")
			if !strings.HasPrefix(line, "| `") { // the head of the table
				continue
			}
			row := strings.TrimPrefix(cells[0], "| ")
			cause, known := onThePage[row]
			if !known {
				t.Errorf("the page has a row %q, which this test does not know", row)
				continue
			}
			met[row] = true
			if got := strconv.Itoa(overHTTP(t, cause)); cells[2] != got {
				t.Errorf("%s: the page says %s, httplimit answers %s", row, cells[2], got)
			}
			if got := inCapitals(overGRPC(t, cause)); cells[3] != got {
				t.Errorf("%s: the page says %s, grpclimit answers %s", row, cells[3], got)
			}
		}
	}
	for row := range onThePage {
		if !met[row] {
			t.Errorf("the page has no row %q", row)
		}
	}
}

// during is the context of a request whose limiter fails for a cause.
func during(t *testing.T, cause error) context.Context {
	t.Helper()
	var ctx context.Context
	var cancel context.CancelFunc
	switch {
	case errors.Is(cause, context.Canceled):
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
	case errors.Is(cause, context.DeadlineExceeded):
		ctx, cancel = context.WithTimeout(t.Context(), -time.Second)
		t.Cleanup(cancel)
	default:
		ctx = t.Context()
	}
	return ctx
}

// overHTTP is the status that the middleware answers.
func overHTTP(t *testing.T, cause error) int {
	t.Helper()
	limit, err := httplimit.New(failing{cause}, httplimit.Options{Entity: httplimit.Constant("key-1")})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(during(t, cause), http.MethodGet, "/", nil)
	limit.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
	return w.Code
}

// overGRPC is the code that the interceptor answers.
func overGRPC(t *testing.T, cause error) codes.Code {
	t.Helper()
	limit, err := grpclimit.NewServer(failing{cause}, grpclimit.Options{Entity: grpclimit.Constant("key-1")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = limit.Unary(during(t, cause), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, func(context.Context, any) (any, error) {
		t.Errorf("%v: the handler runs", cause)
		return nil, nil //nolint:nilnil // unused
	})
	return status.Code(err)
}

// inCapitals is a code as gRPC's specification writes it.
func inCapitals(code codes.Code) string {
	switch name := code.String(); name {
	case "Canceled":
		return "CANCELLED"
	default:
		return strings.ToUpper(regexp.MustCompile("([a-z])([A-Z])").ReplaceAllString(name, "${1}_$2"))
	}
}
