package fastclient_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A halting server answers each connection's first request at once. Of the answer to the
// second one it sends some bytes, and the rest when it is told to.
type halting struct {
	answer string
	cut    int
	warms  time.Duration // before a connection's first answer
	slow   time.Duration // before the answers after the second one
	sent   chan struct{} // receives when the first bytes are sent, for each connection
	rest   chan bool     // whether the rest comes, or the connection ends, for each connection

	requests, connections atomic.Int64
	served                sync.WaitGroup
	close                 func()
}

const result = `{"Attributes":` + image + `}`

// newHalting starts a server, with TLS or without.
func newHalting(t *testing.T, secure bool, answer string) (*halting, aws.Config) {
	t.Helper()
	h := &halting{answer: answer, sent: make(chan struct{}, 2), rest: make(chan bool, 2)}
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := clientConfig("http://" + l.Addr().String())
	if secure {
		like := httptest.NewTLSServer(nil) // for its certificate
		t.Cleanup(like.Close)
		trusts, _ := like.Client().Transport.(*http.Transport)
		cfg = clientConfig("https://" + l.Addr().String())
		cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig = trusts.TLSClientConfig.Clone() })
		l = tls.NewListener(l, &tls.Config{Certificates: like.TLS.Certificates, MinVersion: tls.VersionTLS12})
	}
	over := make(chan struct{})
	h.served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.connections.Add(1)
			h.served.Go(func() { h.serve(c) })
			h.served.Go(func() {
				<-over
				_ = c.Close()
			})
		}
	})
	h.close = func() {
		_ = l.Close()
		close(over)
		close(h.rest)
		h.served.Wait()
	}
	return h, cfg
}

func (h *halting) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for n := 1; ; n++ {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		h.requests.Add(1)
		if n != 2 {
			wait := h.slow
			if n == 1 {
				wait = h.warms
			}
			time.Sleep(wait)
			_, _ = io.WriteString(c, response(http.StatusOK, "", result))
			continue
		}
		_, _ = io.WriteString(c, h.answer[:h.cut/2])
		time.Sleep(time.Millisecond) // so that the two halves are probably read one after the other
		_, _ = io.WriteString(c, h.answer[h.cut/2:h.cut])
		h.sent <- struct{}{}
		if !<-h.rest {
			return
		}
		_, _ = io.WriteString(c, h.answer[h.cut:])
	}
}

// A leaver makes bucket writes on its own goroutine, and may leave them.
type leaver struct {
	*testing.T
	crew    *calls.Crew
	updater direct.Updater
	size    int // of a write's body; 0 is small
}

func newLeaver(t *testing.T, cfg aws.Config) *leaver {
	t.Helper()
	crew := calls.NewCrew(time.Minute, false)
	t.Cleanup(func() { crew.Close(time.Minute, nil) })
	return &leaver{T: t, crew: crew, updater: direct.UpdaterOf(fastclient.New(cfg), table)}
}

// write makes a write, and returns what it met.
func (l *leaver) write(ctx context.Context) (schema.Item, error) {
	u := &update{in: bucketWrite(), size: l.size}
	answer, err := l.updater.Update(ctx, u, conn.BucketWrite)
	if answer.Output != nil {
		return answer.Output.Attributes, err
	}
	return u.met, err
}

// warm makes a first connection.
func (l *leaver) warm() {
	l.Helper()
	if _, err := l.write(l.Context()); err != nil {
		l.Fatal(err)
	}
}

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
	server.cut, server.warms = cut, 10*time.Millisecond
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
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: fastclient.New(clientConfig(desk.URL)), Table: table})
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

// A faultyConn is a connection on which a test decides when an interruption comes, and whether a
// request can be written.
type faultyConn struct {
	*net.TCPConn
	interrupted, goes chan struct{} // an interruption comes, and may go on
	breaks            atomic.Bool   // writing fails, once an interruption has come
	dawdles           atomic.Bool   // reading takes longer than ending a context
}

func (c *faultyConn) Read(p []byte) (int, error) {
	if c.dawdles.Load() {
		time.Sleep(5 * time.Millisecond)
	}
	return c.TCPConn.Read(p)
}

func (c *faultyConn) SetReadDeadline(at time.Time) error {
	if at.Before(time.Unix(2, 0)) {
		c.interrupted <- struct{}{}
		<-c.goes
	}
	return c.TCPConn.SetReadDeadline(at)
}

func (c *faultyConn) Write(p []byte) (int, error) {
	if c.breaks.Load() {
		<-c.interrupted
		return 0, errors.New("the pipe is broken")
	}
	return c.TCPConn.Write(p)
}

// newFaulty returns a leaver whose only connection is faulty, and the connection.
func newFaulty(t *testing.T, cfg aws.Config) (*leaver, *faultyConn) {
	t.Helper()
	c := &faultyConn{interrupted: make(chan struct{}, 1), goes: make(chan struct{})}
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c.TCPConn, _ = raw.(*net.TCPConn)
			return c, nil
		}
	})
	l := newLeaver(t, cfg)
	l.warm()
	return l, c
}

// A request that may have to wait for room in the socket is not sent on the caller's goroutine.
func TestACallerSendsNothingLong(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	l := newLeaver(t, cfg)
	l.warm()
	l.size = 4 << 10
	ctx := l.crew.NewLeavable(t.Context())
	if _, err := l.write(&ctx); !errors.Is(err, calls.ErrApart) || server.requests.Load() != 1 {
		t.Errorf("%v after %d requests", err, server.requests.Load())
	}
}

// An interruption that comes with the answer is waited for. It would end the next call over the
// connection.
func TestALateInterruptionHitsNoOtherCall(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	l, c := newFaulty(t, cfg)
	server.slow = 50 * time.Millisecond
	caller, leave := context.WithCancel(t.Context())
	go func() {
		<-server.sent
		leave()
		<-c.interrupted
		server.rest <- true
		time.Sleep(20 * time.Millisecond) // a call that did not wait is in the next one by now
		close(c.goes)
	}()
	ctx := l.crew.NewLeavable(caller)
	if _, err := l.write(&ctx); err != nil {
		t.Errorf("the answer came: %v", err)
	}
	if _, err := l.write(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// A request that could not be written is not waited for, although its caller has left.
func TestAnUnsentWriteIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	l, c := newFaulty(t, cfg)
	l.crew = calls.NewCrew(2*time.Second, false)
	close(c.goes)
	c.breaks.Store(true)
	caller, leave := context.WithCancel(t.Context())
	leave()
	ctx := l.crew.NewLeavable(caller)
	if _, err := l.write(&ctx); !errors.Is(err, calls.ErrGoesOn) {
		t.Fatal(err)
	}
	if _, err := l.write(ctx.Apart()); err == nil || !strings.Contains(err.Error(), "the pipe is broken") {
		t.Error(err)
	}
}

// A request that was to be sent only, and could not be, goes on to its error. The SDK's part of
// that is not the caller's.
func TestAnUnsentWriteGoesOnToItsError(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	l, c := newFaulty(t, cfg)
	c.interrupted <- struct{}{}
	c.breaks.Store(true)
	ctx := l.crew.NewLeavable(t.Context())
	for _, under := range []func(*calls.Leavable) context.Context{(*calls.Leavable).Begin, (*calls.Leavable).GoOn} {
		if _, err := l.write(under(&ctx)); !errors.Is(err, calls.ErrGoesOn) {
			t.Fatal(err)
		}
	}
	if _, err := l.write(ctx.Apart()); err == nil || !strings.Contains(err.Error(), "the pipe is broken") || server.requests.Load() != 1 {
		t.Errorf("%v after %d requests", err, server.requests.Load())
	}
}

// An answer that came in time counts, although nobody read it in time: another answer, which did
// not come, was waited for.
func TestAnAnswerThatIsThereCounts(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	server.cut = len(server.answer)
	server.rest <- true
	l, c := newFaulty(t, cfg)
	l.crew = calls.NewCrew(100*time.Millisecond, false)
	ctx := l.crew.NewLeavable(t.Context())
	if _, err := l.write(ctx.Begin()); !errors.Is(err, calls.ErrGoesOn) {
		t.Fatal(err)
	}
	<-ctx.Done()
	c.dawdles.Store(true)
	if met, err := l.write(ctx.Apart()); err != nil || schema.KeyOf(met).PK != "a" {
		t.Errorf("met %v, %v", met, err)
	}
}

// A request that goes on is not made again, although its time is up.
func TestTheTimeIsUpAfterTheCallerHasLeft(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	l := newLeaver(t, cfg)
	l.warm()
	l.crew = calls.NewCrew(100*time.Millisecond, false)
	caller, leave := context.WithCancel(t.Context())
	go func() {
		<-server.sent
		leave()
	}()
	ctx := l.crew.NewLeavable(caller)
	if _, err := l.write(&ctx); !errors.Is(err, calls.ErrGoesOn) {
		t.Fatal(err)
	}
	<-ctx.Done()
	if _, err := l.write(ctx.Apart()); err == nil || !strings.Contains(err.Error(), "its outcome is not known") || server.requests.Load() != 2 {
		t.Errorf("%v after %d requests", err, server.requests.Load())
	}
}

// A caller waits for no credentials: only another goroutine asks for those that have expired.
func TestACallerWaitsForNoCredentials(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	var asked atomic.Int32
	comes := make(chan struct{})
	cfg.Credentials = aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		if asked.Add(1) > 1 {
			<-comes
		}
		return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local", CanExpire: true, Expires: time.Now()}, nil
	}))
	l := newLeaver(t, cfg)
	l.warm()
	got := make(chan error, 1)
	ctx := l.crew.NewLeavable(t.Context())
	go func() {
		_, err := l.write(&ctx)
		got <- err
	}()
	select {
	case err := <-got:
		if !errors.Is(err, calls.ErrApart) || server.requests.Load() != 1 {
			t.Errorf("%v after %d requests", err, server.requests.Load())
		}
	case <-time.After(10 * time.Second):
		t.Error("the caller waits")
	}
	close(comes)
}
