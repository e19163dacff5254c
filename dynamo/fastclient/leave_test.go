package fastclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A caller may leave at any byte of an answer, of any form, and another goroutine gets the
// answer. The write is sent once, and the connection remains in use.
func TestTheAnswerGoesToAnotherGoroutine(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a result":  response(http.StatusOK, "", result),
		"a refusal": response(http.StatusBadRequest, "", refused),
		"chunks":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{\"Attributes\":{\"\r\n1d\r\nPK\":{\"S\":\"a\"},\"b\":{\"N\":\"7\"}}}\r\n0\r\n\r\n",
		"a retry":   response(http.StatusBadRequest, "", `{"__type":"TransactionConflictException"}`),
	} {
		for _, secure := range []bool{false, true} {
			if secure {
				name += ", with TLS"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				every := 1
				if secure || testing.Short() {
					every = 7
				}
				for cut := 0; cut <= len(answer); cut += every {
					leaveAt(t, secure, answer, cut)
				}
			})
		}
	}
}

func leaveAt(t *testing.T, secure bool, answer string, cut int) {
	t.Helper()
	server, cfg := newHalting(t, secure, answer)
	defer server.close()
	server.cut = cut
	l := newLeaver(t, cfg)
	l.warm()
	caller, leave := context.WithCancel(t.Context())
	go func() {
		<-server.sent
		if cut%2 == 0 {
			time.Sleep(time.Millisecond) // so that those bytes are probably read
		}
		leave()
	}()
	ctx := l.crew.NewLeavable(caller)
	met, err := l.write(&ctx)
	if err == nil && cut < len(answer) {
		t.Fatalf("cut at %d: the caller did not leave", cut)
	}
	server.rest <- true
	if errors.Is(err, calls.ErrGoesOn) {
		met, err = l.write(ctx.Apart())
	}
	want := int64(2)
	if strings.Contains(answer, "TransactionConflict") { // nothing was applied, and the SDK tries again
		want = 3
	}
	if err != nil || schema.KeyOf(met).PK != "a" || server.requests.Load() != want || server.connections.Load() > want-1 {
		t.Errorf("cut at %d: met %v, %v, after %d requests over %d connections", cut, met, err, server.requests.Load(), server.connections.Load())
	}
	if _, err := l.write(t.Context()); err != nil { // soon, over the same connection
		t.Errorf("cut at %d: the next write: %v", cut, err)
	}
}

// A caller may also leave while it waits for two answers.
func TestTwoAnswersGoToOtherGoroutines(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"results":  response(http.StatusOK, "", result),
		"refusals": response(http.StatusBadRequest, "", refused),
		"retries":  response(http.StatusBadRequest, "", `{"__type":"TransactionConflictException"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			every := 3
			if testing.Short() {
				every = 17
			}
			for cut := 0; cut <= len(answer); cut += every {
				leaveTwoAt(t, answer, cut)
			}
		})
	}
}

func leaveTwoAt(t *testing.T, answer string, cut int) {
	t.Helper()
	server, cfg := newHalting(t, false, answer)
	defer server.close()
	var made atomic.Int32
	twoMade := make(chan struct{})
	server.cut, server.warm = cut, func() { // the first answers come when two connections are made
		if made.Add(1) == 2 {
			close(twoMade)
		}
		<-twoMade
	}
	l := newLeaver(t, cfg)
	l.warmTwo()
	caller, leave := context.WithCancel(t.Context())
	go func() {
		<-server.sent
		<-server.sent
		leave()
	}()
	first := l.crew.NewLeavable(caller)
	both := [...]*calls.Leavable{&first, first.Another()}
	for _, ctx := range both {
		if _, err := l.write(ctx.Begin()); !errors.Is(err, calls.ErrGoesOn) {
			t.Fatal(err)
		}
	}
	var met [2]schema.Item
	var errs [2]error
	for i, ctx := range both {
		if met[i], errs[i] = l.write(ctx.GoOn()); errs[i] == nil && cut < len(answer) {
			t.Fatalf("cut at %d: the caller did not leave", cut)
		}
	}
	server.rest <- true
	server.rest <- true
	want := int64(4)
	if strings.Contains(answer, "TransactionConflict") {
		want = 6
	}
	for i, ctx := range both {
		if errors.Is(errs[i], calls.ErrGoesOn) {
			met[i], errs[i] = l.write(ctx.Apart())
		}
		if errs[i] != nil || schema.KeyOf(met[i]).PK != "a" {
			t.Errorf("cut at %d: met %v, %v", cut, met[i], errs[i])
		}
	}
	if server.requests.Load() != want || server.connections.Load() > want-2 {
		t.Errorf("cut at %d: %d requests over %d connections", cut, server.requests.Load(), server.connections.Load())
	}
}

// warmTwo makes two first connections.
func (l *leaver) warmTwo() {
	l.Helper()
	var errs [2]error
	var both sync.WaitGroup
	for i := range errs {
		both.Go(func() { _, errs[i] = l.write(l.Context()) })
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		l.Fatal(err)
	}
}

// A call that cannot be left at any time is not begun, or another goroutine goes on with it.
func TestWhatACallerCannotLeave(t *testing.T) {
	t.Parallel()
	whole := response(http.StatusOK, "", result)
	for name, c := range map[string]struct {
		answer string
		busy   bool // the only connection is in use
		own    bool // the credentials are not in a cache
		ends   bool // the connection ends before the answer
		first  error
		then   string // what the error says after going on
		sent   int64
	}{
		"a connection is to be made":    {whole, true, false, false, calls.ErrApart, "", 2},
		"credentials may take time":     {whole, false, true, false, calls.ErrApart, "", 1},
		"a server error":                {response(http.StatusInternalServerError, "", `{"__type":"InternalServerError"}`), false, false, false, calls.ErrGoesOn, "InternalServerError", 2},
		"an error of the request":       {response(http.StatusBadRequest, "", `{"__type":"ValidationException"}`), false, false, false, calls.ErrGoesOn, "ValidationException", 2},
		"an answer that is damaged":     {strings.Replace(whole, `"7"`, `"8"`, 1), false, false, false, calls.ErrGoesOn, "damaged", 2},
		"a connection ends in between":  {whole, false, false, true, calls.ErrGoesOn, "EOF", 2},
		"nothing":                       {whole, false, false, false, nil, "", 2},
		"a condition that did not hold": {response(http.StatusBadRequest, "", refused), false, false, false, nil, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, cfg := newHalting(t, false, c.answer)
			defer server.close()
			server.cut = len(c.answer) / 2
			if c.own {
				cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
					return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
				})
			}
			l := newLeaver(t, cfg)
			l.warm()
			if c.busy {
				other := make(chan error, 1)
				defer func() { <-other }()
				go func() {
					_, err := l.write(t.Context())
					other <- err
				}()
				<-server.sent
				defer func() { server.rest <- true }()
			} else {
				server.rest <- !c.ends
			}
			ctx := l.crew.NewLeavable(t.Context())
			_, err := l.write(&ctx)
			if !errors.Is(err, c.first) || server.requests.Load() != c.sent {
				t.Fatalf("%v after %d requests", err, server.requests.Load())
			}
			if errors.Is(err, calls.ErrGoesOn) {
				_, err = l.write(ctx.Apart())
				if err == nil || !strings.Contains(err.Error(), c.then) || server.requests.Load() != c.sent {
					t.Errorf("then %v after %d requests", err, server.requests.Load())
				}
			}
		})
	}
}

// A caller leaves while its write is under way: the call returns, and the tokens come back.
func TestACallerLeavesItsOwnWrite(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"cancels", "has a deadline", "has a time-out"} {
		for _, held := range []string{"key-1", "project"} { // whose write is under way
			t.Run(way+", "+held, func(t *testing.T) {
				t.Parallel()
				leaveOwnWrite(t, way, held)
			})
		}
	}
}

func leaveOwnWrite(t *testing.T, way, held string) {
	t.Helper()
	engine := dynamolite.NewHandler(newTable(t), dynamolite.HandlerOptions{})
	var holds atomic.Bool
	arrived, goes := make(chan struct{}, 1), make(chan struct{})
	desk := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(held)) && holds.CompareAndSwap(true, false) {
			arrived <- struct{}{}
			<-goes
		}
		engine.ServeHTTP(w, r)
	})).started()
	s := openFamily(t, desk.URL)
	l, err := limiter.New(s, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	request := limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1}}
	for range 3 {
		if _, err := l.Acquire(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	want := context.Canceled
	if way != "cancels" {
		ctx, leave = context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		want = context.DeadlineExceeded
	}
	go func() {
		<-arrived
		if way == "cancels" {
			leave()
		}
	}()
	holds.Store(true)
	if _, err := l.Acquire(ctx, request); !errors.Is(err, want) {
		t.Errorf("a caller that %s got %v", way, err)
	}
	close(goes) // after the caller has returned
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	again, err := limiter.New(s, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	status, err := again.Available(t.Context(), request)
	if err != nil || len(status) != 2 || status[0].Available != 7 || status[1].Available != 7 {
		t.Errorf("after three of ten: %+v, %v", status, err)
	}
}

// openFamily opens the table of a server, and configures ten a day for an entity and its parent.
func openFamily(t *testing.T, url string) *dynamo.Store {
	t.Helper()
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: fastclient.New(clientConfig(url)), Table: table})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []limiter.Entity{{ID: "project"}, {ID: "key-1", Parent: "project", Cascade: true}} {
		if _, err := s.CreateEntity(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	limits := []limiter.Limit{limiter.PerDay("rpd", 10)}
	if err := s.SetLimits(t.Context(), limiter.ConfigKey{Resource: "gpt-4"}, limits); err != nil {
		t.Fatal(err)
	}
	return s
}
