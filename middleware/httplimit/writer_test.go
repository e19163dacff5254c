package httplimit_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// recovered serves a request and returns what the handler panicked with.
func (s *server) recovered() (what any) {
	defer func() { what = recover() }()
	s.get()
	return nil
}

// statusOf has Settle note the status of each response.
func statusOf(to *[]int) httplimit.Options {
	return httplimit.Options{Settle: func(_ *http.Request, res *httplimit.Response) map[string]int64 {
		*to = append(*to, res.Status)
		return nil
	}}
}

// TestASourceThatFailsAtOnceBeginsNoResponse: a handler that copies from a source that has
// nothing can still answer an error.
func TestASourceThatFailsAtOnceBeginsNoResponse(t *testing.T) {
	var statuses []int
	h := func(w http.ResponseWriter, _ *http.Request) {
		if n, err := io.Copy(w, failing{}); n != 0 || err == nil {
			t.Errorf("copied %d, %v", n, err)
		}
		w.WriteHeader(http.StatusBadGateway)
	}
	inBubble(t, statusOf(&statuses), h, func(s *server) {
		s.want(s.get(), http.StatusBadGateway, nil)
		if len(statuses) != 1 || statuses[0] != http.StatusBadGateway {
			s.Errorf("Settle is told %v", statuses)
		}
	}, limiter.PerMinute("requests", 10))
}

// failing is a source that has nothing.
type failing struct{ panics bool }

func (f failing) Read([]byte) (int, error) {
	if f.panics {
		panic("no source")
	}
	return 0, errors.New("no source")
}

// TestASourceThatPanicsHasMaybeBegun: the client may have got a part, so the request is
// charged.
func TestASourceThatPanicsHasMaybeBegun(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		src := io.MultiReader(strings.NewReader("a part"), failing{panics: true})
		_, _ = io.Copy(w, struct{ io.Reader }{src}) // which does not write itself
	}
	inBubble(t, httplimit.Options{}, h, func(s *server) {
		if s.recovered() == nil {
			s.Error("the panic was swallowed")
		}
		s.wantLeft("requests", 9)
	}, limiter.PerMinute("requests", 10))
}

// strict is a writer that panics on a bad status, as a server's does.
type strict struct{ *httptest.ResponseRecorder }

func (s strict) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic("invalid WriteHeader code")
	}
	s.ResponseRecorder.WriteHeader(status)
}

// TestAStatusThatIsNoneBeginsNoResponse: the server panics, nothing was sent, and nothing is
// charged.
func TestAStatusThatIsNoneBeginsNoResponse(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) }
	inBubble(t, httplimit.Options{}, h, func(s *server) {
		r := httptest.NewRequestWithContext(s.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Key", "key-1")
		func() {
			defer func() {
				if recover() == nil {
					s.Error("the panic was swallowed")
				}
			}()
			s.handler.ServeHTTP(strict{httptest.NewRecorder()}, r)
		}()
		s.wantLeft("requests", 10)
	}, limiter.PerMinute("requests", 10))
}

// A plain writer of another middleware, which has only Unwrap besides.
type plain struct{ inner http.ResponseWriter }

func (p plain) Header() http.Header         { return p.inner.Header() }
func (p plain) Write(b []byte) (int, error) { return p.inner.Write(b) }
func (p plain) WriteHeader(status int)      { p.inner.WriteHeader(status) }
func (p plain) Unwrap() http.ResponseWriter { return p.inner }

// A reporting writer reports errors of a flush, and lets handlers take over a connection.
type reporting struct {
	*httptest.ResponseRecorder
	flushes *int
	err     error
}

func (r reporting) FlushError() error {
	*r.flushes++
	return r.err
}

func (r reporting) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, _ := net.Pipe()
	return conn, nil, nil
}

// TestAControllerDoesNotPassBy: a handler that flushes or hijacks through a
// ResponseController begins a response, whatever writers other middleware has put in
// between, and is told the server's error.
func TestAControllerDoesNotPassBy(t *testing.T) {
	t.Parallel()
	broken := errors.New("the client is gone")
	for name, act := range map[string]func(*testing.T, *http.ResponseController){
		"flush": func(t *testing.T, c *http.ResponseController) {
			t.Helper()
			if err := c.Flush(); !errors.Is(err, broken) {
				t.Errorf("flushing says %v", err)
			}
		},
		"hijack": func(t *testing.T, c *http.ResponseController) {
			t.Helper()
			if _, _, err := c.Hijack(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := func(w http.ResponseWriter, _ *http.Request) {
				act(t, http.NewResponseController(w))
				panic("later")
			}
			inBubble(t, httplimit.Options{}, h, func(s *server) {
				flushes := 0
				r := httptest.NewRequestWithContext(s.Context(), http.MethodGet, "/", nil)
				r.Header.Set("Key", "key-1")
				func() {
					defer func() { _ = recover() }()
					s.handler.ServeHTTP(plain{reporting{httptest.NewRecorder(), &flushes, broken}}, r)
				}()
				if name == "flush" && flushes != 1 {
					s.Errorf("flushed %d times", flushes)
				}
				s.wantLeft("requests", 9) // the response has begun, so the panic is charged
			}, limiter.PerMinute("requests", 10))
		})
	}
}

// TestAFlushThatIsNotSupportedBeginsNothing: a writer that cannot flush says so.
func TestAFlushThatIsNotSupportedBeginsNothing(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		if err := c.Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("flushing says %v", err)
		}
		if _, _, err := c.Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("hijacking says %v", err)
		}
		panic("before the response")
	}
	inBubble(t, httplimit.Options{}, h, func(s *server) {
		r := httptest.NewRequestWithContext(s.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Key", "key-1")
		func() {
			defer func() { _ = recover() }()
			s.handler.ServeHTTP(sink{http.Header{}}, r)
		}()
		s.wantLeft("requests", 10)
	}, limiter.PerMinute("requests", 10))
}

// TestInformationalResponsesBeginNothing: early hints come before the response, and trailers
// after it.
func TestInformationalResponsesBeginNothing(t *testing.T) {
	var statuses []int
	h := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Sum")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "body")
		w.Header().Set("Sum", "4")
	}
	t.Parallel()
	s := newServer(t, statusOf(&statuses), h, limiter.PerMinute("requests", 10))
	web := httptest.NewServer(s.handler)
	defer web.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Key", "key-1")
	res, err := web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "body" || res.StatusCode != http.StatusCreated || res.Trailer.Get("Sum") != "4" {
		t.Errorf("%d, %q, %v, trailer %v", res.StatusCode, body, err, res.Trailer)
	}
	web.Close() // waits for the handler, and so for Settle
	if len(statuses) != 1 || statuses[0] != http.StatusCreated {
		t.Errorf("Settle is told %v", statuses)
	}
}

// TestAnObserverThatPanicsTakesNothing: the request is not served, and nothing stays taken.
func TestAnObserverThatPanicsTakesNothing(t *testing.T) {
	o := httplimit.Options{Observe: func(*http.Request, *httplimit.Decision) { panic("observer") }}
	inBubble(t, o, nil, func(s *server) {
		if s.recovered() == nil {
			s.Error("the panic was swallowed")
		}
		s.wantLeft("requests", 10)
	}, limiter.PerMinute("requests", 10))
}

// TestABaseWithoutABody: http.Client tolerates a RoundTripper that returns no body.
func TestABaseWithoutABody(t *testing.T) {
	inBubble(t, httplimit.Options{}, nil, func(s *server) {
		base := roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}}, nil
		})
		transport, err := httplimit.NewTransport(s.limits, httplimit.TransportOptions{Base: base})
		if err != nil {
			s.Fatal(err)
		}
		req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://upstream.test/", nil)
		if err != nil {
			s.Fatal(err)
		}
		res, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			s.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); len(body) > 0 || err != nil {
			s.Errorf("read %q, %v", body, err)
		}
		if err := res.Body.Close(); err != nil {
			s.Error(err)
		}
	}, limiter.PerMinute("requests", 10))
}
