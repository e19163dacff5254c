package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// oneSlot are the slots of the tests: one of key-1 runs at a time.
var oneSlot = []limiter.SlotLimit{limiter.Slots("inflight", 1)}

func slotOptions() httplimit.Options {
	return httplimit.Options{Slots: map[string]int64{"inflight": 1}, SlotFallback: oneSlot}
}

// held reports whether the slot of an entity is held.
func held(tb testing.TB, limits *limitertest.Limits, entity, resource string) bool {
	tb.Helper()
	lease, err := limits.Acquire(tb.Context(), limiter.Request{
		Entity: entity, Resource: resource, Slots: map[string]int64{"inflight": 1}, SlotFallback: oneSlot,
	})
	if errors.Is(err, limiter.ErrSlotsFull) {
		return true
	}
	if err == nil {
		err = lease.Commit(tb.Context())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return false
}

func (s *server) wantHeld(want bool) {
	s.Helper()
	if got := held(s, s.limits, "key-1", httplimit.DefaultResource); got != want {
		s.Errorf("the slot is held: %t, want %t", got, want)
	}
}

// A request holds its slots while its handler runs. Others are refused, without a wait that nobody
// knows, and take no tokens.
func TestARequestHoldsSlots(t *testing.T) {
	o := slotOptions()
	o.Consume = map[string]int64{"rph": 1}
	o.Slots["inflight"] = 2
	o.SlotFallback = []limiter.SlotLimit{limiter.Slots("inflight", 3)}
	var inside func()
	inBubble(t, o, func(http.ResponseWriter, *http.Request) { inside() }, func(s *server) {
		inside = func() {
			w := s.get()
			s.want(w, http.StatusTooManyRequests, map[string]string{"Retry-After": "", "RateLimit": ""})
			p := s.problemOf(w)
			if p["title"] != "Request cannot be satisfied as assigned quota has been exceeded" || p["violated-policies"].([]any)[0] != "inflight" {
				t.Errorf("the problem is %v", p)
			}
			if detail := p["detail"].(string); !strings.HasPrefix(detail, "Other requests hold the slots of inflight of http.") {
				t.Errorf("the detail is %q", detail)
			}
			s.wantLeft("rph", 9)
		}
		s.want(s.get(), http.StatusOK, nil)
		inside = func() {}
		s.want(s.get(), http.StatusOK, map[string]string{"RateLimit": `"rph";r=8;t=720`})
	}, limiter.PerHour("rph", 10))
}

// With slots alone, a request takes no tokens. It is told to ask for fewer if there are not so many.
func TestSlotsWithoutTokens(t *testing.T) {
	inBubble(t, slotOptions(), nil, func(s *server) {
		s.want(s.get(), http.StatusNoContent, map[string]string{"RateLimit": ""})
		o := slotOptions()
		o.Entity, o.Slots = key, map[string]int64{"inflight": 2}
		s.handler = wrap(t, s.limits, o, http.NotFoundHandler())
		w := s.get()
		s.want(w, http.StatusTooManyRequests, map[string]string{"Retry-After": ""})
		if detail := s.problemOf(w)["detail"].(string); !strings.Contains(detail, "ask for fewer") {
			t.Errorf("the detail is %q", detail)
		}
	})
}

// Slots that are lost end the context of the request, but not in the shadow.
func TestLostSlotsEndARequest(t *testing.T) {
	for name, shadow := range map[string]bool{"enforced": false, "shadow": true} {
		t.Run(name, func(t *testing.T) {
			o := slotOptions()
			o.Shadow = shadow
			var s *server
			h := func(w http.ResponseWriter, r *http.Request) {
				s.limits.Stall()
				select {
				case <-r.Context().Done():
					if cause := context.Cause(r.Context()); shadow || !errors.Is(cause, limiter.ErrSlotsLost) {
						t.Errorf("the context ended because of %v", cause)
					}
				case <-time.After(time.Minute):
					if !shadow {
						t.Error("the context did not end")
					}
				}
				s.limits.Restore()
				w.WriteHeader(http.StatusNoContent)
			}
			inBubble(t, o, h, func(is *server) {
				s = is
				s.want(s.get(), http.StatusNoContent, nil)
			})
		})
	}
}

// A takeover is a server's writer whose connection can be taken over.
type takeover struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (t takeover) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return t.conn, bufio.NewReadWriter(bufio.NewReader(t.conn), bufio.NewWriter(t.conn)), nil
}

// A connection that a handler took over holds the slots until both have ended, whichever is last.
func TestAConnectionHoldsSlots(t *testing.T) {
	type scene struct {
		*server
		conn net.Conn // as the handler has it
	}
	for name, c := range map[string]struct {
		handler func(*scene)
		held    bool // when the handler has returned
		after   func(*scene)
	}{
		"closed by the handler": {func(s *scene) { _ = s.conn.Close(); s.wantHeld(true) }, false, func(*scene) {}},
		"closed later":          {func(*scene) {}, true, func(s *scene) { _ = s.conn.Close(); _ = s.conn.Close() }},
		"the handler panicked":  {func(*scene) { panic(http.ErrAbortHandler) }, false, func(*scene) {}},
		"lost, and then closed": {func(*scene) {}, true, func(s *scene) { s.limits.Stall(); time.Sleep(20 * time.Second); s.limits.Restore() }},
		"lost during the handler": {func(s *scene) {
			s.limits.Stall()
			if _, err := s.conn.Read(make([]byte, 1)); err == nil {
				s.Error("the connection is open")
			}
			s.limits.Restore()
			time.Sleep(time.Minute)
		}, false, func(*scene) {}},
	} {
		t.Run(name, func(t *testing.T) {
			var s scene
			h := func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
				}
				s.conn = conn
				c.handler(&s)
			}
			inBubble(t, slotOptions(), h, func(is *server) {
				s.server = is
				near, far := net.Pipe()
				defer far.Close()
				ended, gone := make(chan error), make(chan struct{})
				go func() {
					_, err := far.Read(make([]byte, 1))
					ended <- err
					close(gone)
				}()
				ctx, cancel := context.WithCancel(s.Context())
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
				r.Header.Set("Key", "key-1")
				func() {
					defer func() { _ = recover() }()
					s.handler.ServeHTTP(takeover{httptest.NewRecorder(), near}, r)
				}()
				cancel() // as a server does
				time.Sleep(2 * time.Second)
				s.wantHeld(c.held)
				c.after(&s)
				time.Sleep(2 * time.Second)
				s.wantHeld(false)
				if err := <-ended; !errors.Is(err, io.EOF) {
					t.Errorf("the other end got %v", err)
				}
				<-gone
			})
		})
	}
}

// A request to an upstream holds its slots until the response's body is closed. An answer 429 gives
// them back at once, and its body can still be read.
func TestATransportHoldsSlots(t *testing.T) {
	status := http.StatusOK
	base := func(*http.Request) (*http.Response, error) { //nolint:unparam // as a round tripper
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("body"))}, nil
	}
	inBubble(t, httplimit.Options{}, nil, func(s *server) {
		client := &http.Client{Transport: transport(t, s.limits, httplimit.TransportOptions{
			Base: roundTripper(base), Entity: httplimit.Constant("key-1"), Resource: httplimit.Constant("http"),
			Slots: map[string]int64{"inflight": 1}, SlotFallback: oneSlot,
		})}
		get := func() (*http.Response, error) {
			r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://api.example", nil)
			if err != nil {
				t.Fatal(err)
			}
			return client.Do(r)
		}
		res, err := get()
		if err != nil {
			t.Fatal(err)
		}
		s.wantHeld(true)
		if _, err := get(); !errors.Is(err, limiter.ErrSlotsFull) { //nolint:bodyclose // there is none
			t.Errorf("got %v", err)
		}
		_ = res.Body.Close()
		s.wantHeld(false)
		if err := res.Request.Context().Err(); err == nil {
			t.Error("the context of the request has not ended")
		}
		status = http.StatusTooManyRequests
		res, err = get()
		if err != nil {
			t.Fatal(err)
		}
		s.wantHeld(false)
		if err := res.Request.Context().Err(); err != nil {
			t.Errorf("the context of the request has ended: %v", err)
		}
		_ = res.Body.Close()
	})
}

// A request whose slots are lost is canceled, and says why.
func TestATransportCancelsWhatLostItsSlots(t *testing.T) {
	inBubble(t, httplimit.Options{}, nil, func(s *server) {
		o := httplimit.TransportOptions{Slots: map[string]int64{"inflight": 1}, SlotFallback: oneSlot}
		o.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
			s.limits.Stall()
			<-r.Context().Done()
			s.limits.Restore()
			return nil, r.Context().Err()
		})
		r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://api.example", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = transport(t, s.limits, o).RoundTrip(r) //nolint:bodyclose // there is none
		if !errors.Is(err, limiter.ErrSlotsLost) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
