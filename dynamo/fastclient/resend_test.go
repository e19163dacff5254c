package fastclient_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A write that is not answered is sent again over another connection, and applied once: the caller gets its
// tokens, whether the first one had arrived or not.
func TestAWriteThatHangsIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, held := range []string{"key-1", "project"} { // whose write is not answered
		for _, arrives := range []bool{true, false} {
			t.Run(held, func(t *testing.T) {
				t.Parallel()
				hangOnce(t, held, arrives)
			})
		}
	}
}

func hangOnce(t *testing.T, held string, arrives bool) {
	t.Helper()
	engine := dynamolite.NewHandler(newTable(t), dynamolite.HandlerOptions{})
	var hangs atomic.Bool
	desk := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "UpdateItem") && bytes.Contains(body, []byte(held)) && hangs.CompareAndSwap(true, false) {
			if arrives {
				engine.ServeHTTP(httptest.NewRecorder(), r)
			}
			<-r.Context().Done() // the client has closed the connection
			return
		}
		engine.ServeHTTP(w, r)
	})).started()
	l, err := limiter.New(openFamily(t, desk.URL), limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	request := limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1}}
	for i := range 4 {
		hangs.Store(i == 3)
		if _, err := l.Acquire(t.Context(), request); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if n := l.Stats().Resent; n != 1 {
		t.Errorf("%d writes were sent again, want 1", n)
	}
	status, err := l.Available(t.Context(), request)
	if err != nil || len(status) != 2 || status[0].Available != 6 || status[1].Available != 6 {
		t.Errorf("after four of ten: %+v, %v", status, err)
	}
}
