package xds_test

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
)

// The client speaks as the protocol says: what it accepts is acknowledged, what it does not is refused
// with the version before, and a new connection begins with the version in use and without a nonce.
func TestProtocol(t *testing.T) {
	inBubble(t, func(w *world) {
		s := newScript()
		end := w.serve(s.register)
		defer end()
		expect := func(what, version, nonce, problem string) {
			w.Helper()
			r := <-s.requests
			if r.GetVersionInfo() != version || r.GetResponseNonce() != nonce || r.GetTypeUrl() != typeURL || len(r.GetResourceNames()) != 0 ||
				r.GetNode().GetId() != "envoy-ratelimit" || r.GetNode().GetCluster() != "east" {
				w.Errorf("%s: %v", what, r)
			}
			if d := r.GetErrorDetail(); (d == nil) != (problem == "") || d != nil && (d.GetCode() != int32(codes.InvalidArgument) || !strings.Contains(d.GetMessage(), problem)) {
				w.Errorf("%s: %v", what, d)
			}
		}
		say := func(r *discovery.DiscoveryResponse) { s.responses <- r }

		expect("the first request", "", "", "")
		w.expect("nothing yet", "", "", 0)
		say(w.response("1", "n1", domain("a", 1), domain("b", 2)))
		expect("valid", "1", "n1", "")
		w.expect("valid", "1", "", 1, "a", "b")

		bad := domain("b", 2)
		bad.Descriptors[0].RateLimit.Unit = 99
		say(w.response("2", "n2", domain("c", 1), bad))
		const problem = `version "2": resource "b", domain "b": descriptors[0].rate_limit.unit: give second, minute, hour, day, week, month or year, not "99"`
		expect("not valid", "1", "n2", problem)
		w.expect("not valid", "1", problem, 1, "a", "b")

		say(w.response("3", "n3", domain("c", 1)))
		expect("two domains less", "3", "n3", "")
		w.expect("two domains less", "3", "", 2, "c")

		wrong := w.response("4", "n4")
		wrong.TypeUrl = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
		say(wrong)
		expect("of another type", "3", "n4", "resources of type \"type.googleapis.com/envoy.config.cluster.v3.Cluster\" were not asked for")
		wrong = w.response("5", "n5", domain("a", 1))
		wrong.Resources = append(wrong.Resources, &anypb.Any{TypeUrl: "type.googleapis.com/envoy.service.discovery.v3.Resource"})
		say(wrong)
		expect("with a resource of another type", "3", "n5", "resources[1]: the type is")
		wrong = w.response("6", "n6", domain("a", 1))
		wrong.Resources[0].Value = []byte{0xff}
		say(wrong)
		expect("no message", "3", "n6", "resources[0]: not a message of its type")
		var many []*ratelimit.RateLimitDescriptor
		for range 200 {
			many = append(many, &ratelimit.RateLimitDescriptor{Value: strings.Repeat("é", 200)})
		}
		say(w.response("7", "n7", &ratelimit.RateLimitConfig{Name: strings.Repeat("é", 99), Domain: strings.Repeat("é", 99), Descriptors: many}))
		r := <-s.requests
		if n := len(r.GetErrorDetail().GetMessage()); n > 4<<10 || n < 4<<10-4 {
			w.Errorf("the detail has %d bytes", n)
		}
		w.expect("the last good one", "3", "key is missing", 2, "c")

		say(w.response("", "n8"))
		expect("without resources and a version", "", "n8", "")
		w.expect("no domain", "", "", 3)
		say(w.response("9", "n9", domain("a", 1)))
		expect("valid", "9", "n9", "")

		say(nil)
		begun := time.Now()
		w.expect("ended", "9", "the management server 127.0.0.1:18000: it has ended the stream: the service tries again", 4, "a")
		expect("again", "9", "", "")
		if waited := time.Since(begun); waited < 500*time.Millisecond || waited > time.Second {
			w.Errorf("waited for %v", waited)
		}
		w.expect("there again", "9", "", 4, "a")
		say(w.response("1", "n1", domain("b", 1)))
		expect("of a server that counts anew", "1", "n1", "")
		w.expect("of a server that counts anew", "1", "", 5, "b")
	})
}

// Without a server, the client tries less and less often, and not at the same times as others. What was in
// use stays in use.
func TestAServerThatIsAway(t *testing.T) {
	inBubble(t, func(w *world) {
		var tries []time.Time
		w.through(func(context.Context) (net.Conn, error) {
			tries = append(tries, time.Now())
			return nil, errors.New("no route to host")
		})
		time.Sleep(5 * time.Minute)
		w.expect("away", "", "no route to host", 0)
		var waits []float64
		for i, bound := range []float64{1, 2, 4, 8, 16, 30, 30, 30, 30} {
			wait := tries[i+1].Sub(tries[i]).Seconds()
			if wait < bound/2 || wait > bound {
				w.Errorf("wait %d: %vs, want from %v to %v", i, wait, bound/2, bound)
			}
			waits = append(waits, wait/bound)
		}
		if slices.Sort(waits); waits[len(waits)-1]-waits[0] < 0.01 {
			w.Errorf("the waits have no jitter: %v", waits)
		}
		s := newScript()
		end := w.serve(s.register)
		defer end()
		<-s.requests
		s.responses <- w.response("1", "n", domain("a", 1))
		<-s.requests
		w.expect("there", "1", "", 1, "a")
		end()
		w.expect("away again", "1", "the management server", 1, "a")
		begun, again := time.Now(), make(chan time.Time, 1)
		w.through(func(context.Context) (net.Conn, error) {
			select {
			case again <- time.Now():
			default:
			}
			return nil, errors.New("no route to host")
		})
		if waited := (<-again).Sub(begun); waited > time.Second { // an answer begins the waits anew
			w.Errorf("waited for %v", waited)
		}
		if n := w.rules.State().Failures; n != 2 {
			w.Errorf("%d failures", n)
		}
	})
}

// A server without the service is no reason to call it all the time.
func TestAServerThatDoesNotKnowTheService(t *testing.T) {
	inBubble(t, func(w *world) {
		var calls atomic.Int64
		end := w.serve(func(*grpc.Server) {})
		defer end()
		to := w.dial
		w.through(func(ctx context.Context) (net.Conn, error) {
			calls.Add(1)
			return to(ctx)
		})
		time.Sleep(time.Minute)
		w.expect("unknown", "", "unknown service envoy.service.discovery.v3.AggregatedDiscoveryService", 0)
		if n := calls.Load(); n < 5 || n > 9 {
			w.Errorf("%d calls", n)
		}
	})
}

// A response that is too large ends the connection, and what was in use stays in use.
func TestAHugeResponse(t *testing.T) {
	inBubble(t, func(w *world) {
		s := newScript()
		end := w.serve(s.register)
		defer end()
		<-s.requests
		s.responses <- w.response("1", "n1", domain("a", 1))
		<-s.requests
		huge := domain("b", 1)
		huge.Descriptors[0].Value = strings.Repeat("x", 4<<20)
		s.responses <- w.response("2", "n2", huge)
		w.expect("huge", "1", "larger than max", 1, "a")
		if r := <-s.requests; r.GetVersionInfo() != "1" || r.GetResponseNonce() != "" {
			w.Errorf("%v", r)
		}
		huge.Descriptors[0].Value = strings.Repeat("x", 4<<20-1000)
		s.responses <- w.response("3", "n3", huge)
		if r := <-s.requests; r.GetVersionInfo() != "3" {
			w.Errorf("%v", r)
		}
	})
}

// A deaf connection loses what is written, and brings nothing, once it is told to.
type deaf struct {
	net.Conn

	isDeaf *atomic.Bool
}

func (c *deaf) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.isDeaf.Load() {
		return c.Read(p)
	}
	return n, err
}

func (c *deaf) Write(p []byte) (int, error) {
	if c.isDeaf.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A server that is gone without a word is noticed.
func TestAServerThatLostItsPower(t *testing.T) {
	inBubble(t, func(w *world) {
		s := newScript()
		end := w.serve(s.register)
		to := w.dial
		var isDeaf atomic.Bool
		w.through(func(ctx context.Context) (net.Conn, error) {
			c, err := to(ctx)
			return &deaf{c, &isDeaf}, err
		})
		<-s.requests
		s.responses <- w.response("1", "n1", domain("a", 1))
		<-s.requests
		time.Sleep(time.Hour) // a silent server is asked whether it is there, and says so
		w.expect("there", "1", "", 1, "a")
		isDeaf.Store(true)
		other := newScript()
		endOther := w.serve(other.register)
		defer endOther()
		begun := time.Now()
		if r := <-other.requests; r.GetVersionInfo() != "1" {
			w.Errorf("%v", r)
		}
		if waited := time.Since(begun); waited > 7*time.Minute {
			w.Errorf("noticed after %v", waited)
		}
		end()
	})
}

// A server with hundreds of domains is no special case.
func TestManyDomains(t *testing.T) {
	inBubble(t, func(w *world) {
		s := newScript()
		end := w.serve(s.register)
		defer end()
		<-s.requests
		var all []*ratelimit.RateLimitConfig
		for _, name := range slices.Repeat([]string{"x"}, 500) {
			all = append(all, domain(name+strings.Repeat("y", len(all)), math.MaxUint32))
		}
		s.responses <- w.response("1", "n1", append(all, domain("a", 1))...)
		<-s.requests
		w.expect("many", "1", "", 1, "a")
		if n := len(w.rules.State().Files); n != 501 {
			w.Errorf("%d names", n)
		}
	})
}
