package dynamolite_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

var errBodyRead = errors.New("the body was read")

// A request that its header shows to be wrong is refused before its body is read.
func TestRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	db := newFixture(t).db
	keys := map[string]string{testKey: testSecret}
	for _, tt := range []struct {
		name    string
		options dynamolite.HandlerOptions
		change  func(*http.Request)
		kind    string // "" if the body is read
	}{
		{"known key", dynamolite.HandlerOptions{Credentials: keys}, func(*http.Request) {}, ""},
		{"wrong secret", dynamolite.HandlerOptions{Credentials: map[string]string{testKey: "other"}}, func(*http.Request) {}, ""},
		{"no keys", dynamolite.HandlerOptions{}, func(*http.Request) {}, ""},
		{"unknown key", dynamolite.HandlerOptions{Credentials: map[string]string{"other": testSecret}}, func(*http.Request) {}, "UnrecognizedClientException"},
		{"unknown key for the ledger", dynamolite.HandlerOptions{Credentials: map[string]string{"other": testSecret}}, func(r *http.Request) {
			r.Method, r.URL.Path = http.MethodGet, "/_dynamolite/ledger"
		}, "UnrecognizedClientException"},
		{"unsigned", dynamolite.HandlerOptions{Credentials: keys}, func(r *http.Request) { r.Header.Del("Authorization") }, "MissingAuthenticationTokenException"},
		{"unsigned, no keys", dynamolite.HandlerOptions{}, func(r *http.Request) { r.Header.Del("Authorization") }, "MissingAuthenticationTokenException"},
		{"another scheme, no keys", dynamolite.HandlerOptions{}, func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, "MissingAuthenticationTokenException"},
		{"no signature, no keys", dynamolite.HandlerOptions{}, func(r *http.Request) { r.Header.Set("Authorization", "AWS4-HMAC-SHA256 x") }, "IncompleteSignatureException"},
		{"no signature", dynamolite.HandlerOptions{Credentials: keys}, func(r *http.Request) { r.Header.Set("Authorization", "AWS4-HMAC-SHA256 x") }, "IncompleteSignatureException"},
		{"wrong region", dynamolite.HandlerOptions{Credentials: keys, Region: "eu-west-1"}, func(*http.Request) {}, "InvalidSignatureException"},
		{"old", dynamolite.HandlerOptions{Credentials: keys, Now: func() time.Time { return time.Now().Add(time.Hour) }}, func(*http.Request) {}, "InvalidSignatureException"},
		{"a header that is not signed", dynamolite.HandlerOptions{Credentials: keys}, func(r *http.Request) { r.Header.Set("X-Amz-Other", "x") }, "InvalidSignatureException"},
		{"unknown operation", dynamolite.HandlerOptions{}, func(r *http.Request) { r.Header.Set("X-Amz-Target", "DynamoDB_20120810.Other") }, "UnknownOperationException"},
		{"a form", dynamolite.HandlerOptions{}, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, "UnknownOperationException"},
		{"PUT", dynamolite.HandlerOptions{}, func(r *http.Request) { r.Method = http.MethodPut }, "UnknownOperationException"},
		{"too large", dynamolite.HandlerOptions{}, func(r *http.Request) { r.ContentLength = 17 << 20 }, "RequestEntityTooLargeException"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newPost(t, putTarget, "")
			r.Header.Del("Authorization")
			signRequest(t, r, nil)
			r.Body = io.NopCloser(iotest.ErrReader(errBodyRead))
			tt.change(r)
			got := exchange(t, dynamolite.NewHandler(db, tt.options), r)
			if tt.kind == "" {
				tt.kind = "SerializationException" // the answer to a body that cannot be read
			}
			if got.kind != coralService+tt.kind {
				t.Errorf("answered %s, want %s", got.body, tt.kind)
			}
		})
	}
}

// Without credentials, no page of another site reaches the database, whatever its name resolves to.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	db := newFixture(t).db
	with := func(host string, header ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.Host = host
			for i := 0; i < len(header); i += 2 {
				r.Header.Add(header[i], header[i+1])
			}
		}
	}
	for _, tt := range []struct {
		name    string
		request func(*http.Request)
		refused bool
	}{
		{"an address", with("127.0.0.1:8000"), false},
		{"another address of loopback", with("127.9.9.9"), false},
		{"IPv6", with("[::1]:8000"), false},
		{"IPv6 without a port", with("[::1]"), false},
		{"IPv4 in IPv6", with("[::ffff:127.0.0.1]:8000"), false},
		{"localhost", with("localhost:8000"), false},
		{"capitals and the root", with("LocalHost.:8000"), false},
		{"below localhost", with("db.localhost:8000"), false},
		{"a listed name", with("Host.Docker.Internal:8000"), false},
		{"a listed address", with("[fd00::1]:8000"), false},
		{"own page", with("localhost:8000", "Origin", "http://localhost:8000", "Sec-Fetch-Site", "same-origin"), false},
		{"another page of this machine", with("localhost:8000", "Origin", "http://127.0.0.1:3000", "Sec-Fetch-Site", "same-site"), false},
		{"typed in", with("localhost:8000", "Sec-Fetch-Site", "none"), false},
		{"a rebound name", with("evil.example:8000"), true},
		{"a rebound name and its own origin", with("evil.example:8000", "Origin", "http://evil.example:8000", "Sec-Fetch-Site", "same-origin"), true},
		{"a name that begins like an address", with("127.0.0.1.evil.example:8000"), true},
		{"a name that ends like localhost", with("evillocalhost:8000"), true},
		{"localhost below another", with("localhost.evil.example"), true},
		{"another address", with("192.0.2.1:8000"), true},
		{"all addresses", with("0.0.0.0:8000"), true},
		{"no host", with(""), true},
		{"a port that is none", with("localhost:evil.example"), true},
		{"brackets below localhost", with("[evil.example].localhost"), true},
		{"a foreign origin", with("localhost:8000", "Origin", "https://evil.example"), true},
		{"the second origin is foreign", with("localhost:8000", "Origin", "http://localhost:8000", "Origin", "https://evil.example"), true},
		{"an origin like localhost", with("localhost:8000", "Origin", "https://localhost.evil.example"), true},
		{"an origin with a user", with("localhost:8000", "Origin", "https://localhost@evil.example"), true},
		{"no origin", with("localhost:8000", "Origin", "null"), true},
		{"an extension", with("localhost:8000", "Origin", "chrome-extension://abcdef"), true},
		{"an extension named like this machine", with("localhost:8000", "Origin", "chrome-extension://localhost"), true},
		{"an origin without a scheme", with("localhost:8000", "Origin", "//localhost"), true},
		{"cross-site", with("localhost:8000", "Sec-Fetch-Site", "cross-site"), true},
		{"cross-site after another", with("localhost:8000", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := dynamolite.NewHandler(db, dynamolite.HandlerOptions{Hosts: []string{"host.docker.internal.", "fd00::1", "", "."}})
			signed := dynamolite.NewHandler(db, dynamolite.HandlerOptions{Credentials: map[string]string{testKey: testSecret}})
			for _, target := range []struct{ method, path, kind string }{
				{http.MethodPost, "/", coralValidate + "ValidationException"},
				{http.MethodGet, "/", ""},
				{http.MethodGet, "/_dynamolite/ledger", ""},
			} {
				r := newPost(t, putTarget, `{}`)
				r.Method, r.URL.Path = target.method, target.path
				tt.request(r)
				want := target.kind
				if tt.refused {
					want = coralService + "AccessDeniedException"
				}
				got := exchange(t, h, r)
				if got.kind != want || tt.refused && got.status != http.StatusForbidden {
					t.Errorf("%s %s: answered %d %s, want %q", target.method, target.path, got.status, got.body, want)
				}
				r.Body = io.NopCloser(strings.NewReader(`{}`))
				if got := exchange(t, signed, r); got.status == http.StatusForbidden {
					t.Errorf("%s %s: with credentials, answered %s", target.method, target.path, got.body)
				}
			}
		})
	}
}

// GET / tells the truth about a database that no longer works, and not where its files are.
func TestHealthOfADeadDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	h := dynamolite.NewHandler(db, dynamolite.HandlerOptions{})
	health := func() string {
		got := exchange(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody))
		return fmt.Sprint(got.status, " ", string(got.body))
	}
	if got := health(); got != "200 healthy: localhost\n" || db.Err() != nil {
		t.Errorf("answered %s, %v", got, db.Err())
	}
	if _, err := db.CreateTable(t.Context(), mainInput()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := db.Checkpoint(); err == nil { // it and the log need new files
		t.Fatal("wrote a checkpoint into nothing")
	}
	if _, err := db.CreateTable(t.Context(), otherInput()); !errors.Is(err, dynamolite.ErrDiskFailed) {
		t.Fatalf("wrote into nothing: %v", err)
	}
	if got := health(); !strings.HasPrefix(got, "503 unhealthy: localhost: the disk has failed") || strings.Contains(got, dir) || !errors.Is(db.Err(), dynamolite.ErrDiskFailed) {
		t.Errorf("answered %s, %v", got, db.Err())
	}
	_ = db.Close()
	if got := health(); !strings.HasPrefix(got, "503 unhealthy: localhost: the database is closed") || !errors.Is(db.Err(), dynamolite.ErrClosed) {
		t.Errorf("answered %s, %v", got, db.Err())
	}
}

// stalled is a body that sends some bytes and then waits.
type stalled struct {
	bytes   int
	sent    chan struct{} // closed once they are sent
	release chan struct{}
}

func (s *stalled) Read(p []byte) (int, error) {
	if s.bytes == 0 {
		close(s.sent)
		<-s.release
		return 0, io.EOF
	}
	n := min(len(p), s.bytes)
	s.bytes -= n
	return n, nil
}

// Large requests and answers share a budget. A request beyond it gets an error that SDKs send
// again. Small requests need no budget until it is used up.
func TestBytesInFlight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := dynamolite.NewHandler(f.db, dynamolite.HandlerOptions{MaxBodyBytes: 1 << 20, MaxInFlightBytes: 3 << 20})
	small := func() reply {
		return post(t, h, putTarget, `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"b"}}}`)
	}
	large := `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"x":{"S":"` + strings.Repeat("x", 300<<10) + `"}}}`
	var bodies sync.WaitGroup
	release := make(chan struct{})
	for range 3 {
		body := &stalled{900 << 10, make(chan struct{}), release}
		r := newPost(t, putTarget, "")
		r.Body = io.NopCloser(body)
		bodies.Go(func() { h.ServeHTTP(httptest.NewRecorder(), r) })
		<-body.sent
	}
	throttled := post(t, h, putTarget, large)
	if throttled.status != http.StatusBadRequest || throttled.kind != dynamoDBPrefix+"ThrottlingException" {
		t.Errorf("answered %d %s", throttled.status, throttled.body)
	}
	if got := small(); got.status != http.StatusOK {
		t.Errorf("a small request was answered with %d %s", got.status, got.body)
	}
	close(release)
	bodies.Wait()
	for range 2 {
		if got := post(t, h, putTarget, large); got.status != http.StatusOK {
			t.Errorf("answered %d %s after the others were gone", got.status, got.body)
		}
	}

	// Answers count until they are sent, and a request that finds the budget used up is refused
	// before it is executed.
	get := func() *http.Request {
		return newPost(t, "DynamoDB_20120810.GetItem", `{"TableName":"main","Key":{"pk":{"S":"a"},"sk":{"S":"b"}}}`)
	}
	taken := make(chan struct{})
	for range 14 { // of 300 KiB, of which 64 do not count
		w := &slowWriter{httptest.NewRecorder(), make(chan struct{}), taken}
		bodies.Go(func() { h.ServeHTTP(w, get()) })
		<-w.writing
	}
	if got := small(); got.kind != dynamoDBPrefix+"ThrottlingException" {
		t.Errorf("answered %d %s", got.status, got.body)
	}
	close(taken)
	bodies.Wait()
	if got := small(); got.status != http.StatusOK {
		t.Errorf("answered %d %s after the others were gone", got.status, got.body)
	}
}

// slowWriter does not take an answer before it is released.
type slowWriter struct {
	*httptest.ResponseRecorder

	writing, release chan struct{}
}

func (w *slowWriter) Write(p []byte) (int, error) {
	close(w.writing)
	<-w.release
	return w.ResponseRecorder.Write(p)
}

// The SDK sends a request again that was refused for want of memory.
func TestBusyIsRetried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := dynamolite.NewHandler(f.db, dynamolite.HandlerOptions{MaxBodyBytes: 1 << 20, MaxInFlightBytes: 1 << 20})
	url := listen(t, h)
	body := &stalled{900 << 10, make(chan struct{}), make(chan struct{})}
	r := newPost(t, putTarget, "")
	r.Body = io.NopCloser(body)
	var other sync.WaitGroup
	other.Go(func() { h.ServeHTTP(httptest.NewRecorder(), r) })
	<-body.sent
	item := &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: with(keyed("a", "b"), attrs{"x": str(strings.Repeat("x", 300<<10))})}
	_, err := clientOf(url).PutItem(t.Context(), item)
	if _, ok := errors.AsType[*types.ThrottlingException](err); !ok || !retry.NewStandard().IsErrorRetryable(err) {
		t.Errorf("got %v, want an error that is retried", err)
	}
	close(body.release)
	other.Wait()
	if _, err := clientOf(url).PutItem(t.Context(), item); err != nil {
		t.Error(err)
	}
}

// Strangers cannot make the server hold their requests in memory, and others not more than the
// budget. Not parallel: it measures the heap.
func TestMemoryOfRequests(t *testing.T) {
	const clients = 60
	const bodyBytes = 16 << 20
	const budget = 64 << 20
	keys := map[string]string{testKey: testSecret}
	body := bytes.Repeat([]byte(" "), bodyBytes) // no JSON
	for _, tt := range []struct {
		name    string
		options dynamolite.HandlerOptions
		most    uint64 // bytes of the heap
	}{
		{"unknown key", dynamolite.HandlerOptions{Credentials: map[string]string{"other": testSecret}}, 8 << 20},
		{"false signature", dynamolite.HandlerOptions{Credentials: keys}, 16 << 20},
		{"no keys", dynamolite.HandlerOptions{}, 4 * budget},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.options.MaxInFlightBytes = budget
			url := listen(t, dynamolite.NewHandler(newFixture(t).db, tt.options))
			stop, peak := make(chan struct{}), make(chan uint64)
			runtime.GC()
			var at runtime.MemStats
			runtime.ReadMemStats(&at)
			before := at.HeapInuse
			go func() {
				most := before
				for {
					select {
					case <-stop:
						peak <- most
						return
					case <-time.After(2 * time.Millisecond):
						runtime.ReadMemStats(&at)
						most = max(most, at.HeapInuse)
					}
				}
			}()
			var sending sync.WaitGroup
			for range clients {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Amz-Target", putTarget)
				r.Header.Set("Content-Type", "application/x-amz-json-1.0")
				signRequest(t, r, nil)
				sending.Go(func() {
					transport := &http.Transport{}
					defer transport.CloseIdleConnections()
					answer, err := transport.RoundTrip(r)
					if err != nil {
						return // the server has closed the connection
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				})
			}
			sending.Wait()
			close(stop)
			grown := <-peak - before
			t.Logf("%d requests of %d MiB: the heap grew by %.1f MiB", clients, bodyBytes>>20, float64(grown)/(1<<20))
			if grown > tt.most {
				t.Errorf("the heap grew by %d MiB, want at most %d", grown>>20, tt.most>>20)
			}
		})
	}
}

// isClosed reports whether the server has closed a connection.
func isClosed(c net.Conn) bool {
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return true // only of a pipe
	}
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// The server keeps a limited number of connections. A new one replaces the one that has been idle
// for longest; if none is idle, the new one is closed, and a log says so once a minute.
func TestServeLimitsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := serve(t, dynamolite.HandlerOptions{MaxConnections: 3, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		fresh, idle, busy := s.dial(), s.dial(), s.dial()
		write(t, idle, requestHead+"{}")
		answers := bufio.NewReader(idle)
		wantAnswer(t, answers, http.StatusOK, "Endpoints")
		write(t, busy, requestHead+"{")
		synctest.Wait()

		second := s.dial()
		synctest.Wait()
		if !isClosed(fresh) || isClosed(idle) {
			t.Error("the oldest idle connection was not replaced")
		}
		write(t, second, requestHead+"{")
		third := s.dial()
		synctest.Wait()
		write(t, third, requestHead+"{")
		synctest.Wait()
		if !isClosed(idle) {
			t.Error("the idle connection was not replaced")
		}
		for range 3 {
			refused := s.dial()
			synctest.Wait()
			if !isClosed(refused) {
				t.Error("a connection beyond the limit was accepted")
			}
		}
		if got := strings.Count(log.String(), "connections are refused"); got != 1 {
			t.Errorf("%d refusals were logged, want 1: %s", got, &log)
		}
		for _, c := range []net.Conn{busy, second, third} {
			if err := c.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			write(t, c, "}")
			wantAnswer(t, bufio.NewReader(c), http.StatusOK, "Endpoints")
		}
		s.stop()
		if err := <-s.result; err != nil {
			t.Error(err)
		}
	})
}

// A header beyond 32 KiB is refused before it is kept.
func TestServeLimitsHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, dynamolite.HandlerOptions{})
		c := s.dial()
		sent := make(chan int, 1)
		go func() {
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: localhost\r\n")
			n := 0
			for {
				more, err := io.WriteString(c, "X-Filler: "+strings.Repeat("x", 1<<10)+"\r\n")
				if n += more; err != nil {
					sent <- n
					return
				}
			}
		}()
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Fatalf("answered %v, %v", answer, err)
		}
		_ = answer.Body.Close()
		_ = c.Close()
		if n := <-sent; n > 64<<10 {
			t.Errorf("the server read %d bytes of a header", n)
		}
		s.stop()
		if err := <-s.result; err != nil {
			t.Error(err)
		}
	})
}
