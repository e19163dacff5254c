package server_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
)

const header = "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "

// No call fails when the service ends: a balancer that asks for /readyz each second stops sending in
// time, calls that are sent until then are served, and those that wait get what they wait for.
func TestNoCallFailsInADrain(t *testing.T) {
	serve(t, server.Options{DrainWait: 5 * time.Second, DrainTime: time.Minute}, func(r *running) {
		var all sync.WaitGroup
		var served [8]int
		interrupted := time.Now().Add(3 * time.Second)
		last := time.Time{}
		for i := range served {
			all.Go(func() {
				client := strings.Replace(aCall, "key-1", "client-"+strconv.Itoa(i), 1)
				for n := 0; ; n++ {
					if (n+i)%10 == 0 { // once a second
						if code, _ := r.get(r.client, "/readyz"); code != http.StatusOK {
							return
						}
					}
					a, err := r.call("localhost", client)
					if err != nil || a.code != http.StatusOK && a.code != http.StatusTooManyRequests {
						r.Errorf("a call failed: %v", err)
						return
					}
					if served[i]++; time.Now().After(interrupted) {
						if !a.closes {
							r.Error("a client keeps its connection to a server that ends")
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		time.Sleep(3*time.Second - time.Millisecond)
		if _, err := r.call("localhost", strings.Replace(aCall, `"rpm":1`, `"rpm":60`, 1)); err != nil {
			r.Fatal(err)
		}
		all.Go(func() { // waits beyond the drain
			a, err := r.call("localhost", `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":20},"wait_ms":30000}`)
			if err != nil || a.code != http.StatusOK {
				r.Errorf("a call that waited failed: %v", err)
			}
			last = time.Now()
		})
		synctest.Wait()
		r.stop()
		all.Wait()
		if after := last.Sub(interrupted); after < 15*time.Second {
			r.Errorf("the call that waits ended %v after the interrupt: it shows nothing", after)
		}
		if err := <-r.ended; err != nil {
			r.Error(err)
		}
		close(r.ended)
		if _, err := r.call("localhost", aCall); err == nil {
			r.Error("the service still serves")
		}
		for i, n := range served {
			if n < 30 {
				r.Errorf("client %d was served %d calls", i, n)
			}
		}
	})
}

// A call that does not end in the time of a drain is cut off, and the error says so.
func TestADrainEnds(t *testing.T) {
	serve(t, server.Options{DrainWait: time.Second, DrainTime: 2 * time.Second}, func(r *running) {
		if _, err := r.call("localhost", strings.Replace(aCall, `"rpm":1`, `"rpm":60`, 1)); err != nil {
			r.Fatal(err)
		}
		cut := make(chan error, 1)
		go func() {
			_, err := r.call("localhost", `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":20},"wait_ms":30000}`)
			cut <- err
		}()
		synctest.Wait()
		began := time.Now()
		r.stop()
		if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "cut off") || time.Since(began) != 3*time.Second {
			r.Errorf("after %v: %v", time.Since(began), err)
		}
		close(r.ended)
		if err := <-cut; err == nil {
			r.Error("the call was answered")
		}
	})
}

// Health is told at both addresses, to everybody. Metrics are told to operators only.
func TestHealthAndMetrics(t *testing.T) {
	serve(t, server.Options{Guard: guard(t, "0123456789abcdef"), DrainWait: time.Second, DrainTime: time.Second}, func(r *running) {
		admin := r.newClient(r.admin)
		if _, err := r.call("localhost", aCall, "Authorization", "Bearer 0123456789abcdef"); err != nil {
			r.Fatal(err)
		}
		for _, client := range []*http.Client{r.client, admin} {
			for _, path := range []string{"/livez", "/readyz"} {
				if code, _ := r.get(client, path); code != http.StatusOK {
					r.Errorf("%s: %d", path, code)
				}
			}
		}
		if code, _ := r.get(r.client, "/metrics"); code != http.StatusUnauthorized {
			r.Errorf("callers get metrics: %d", code)
		}
		if code, _ := r.get(admin, "/debug/pprof/"); code != http.StatusOK {
			r.Errorf("profiles: %d", code)
		}
		code, text := r.get(admin, "/metrics")
		for _, series := range []string{`zae_limiter_service_calls_total{code="200",path="/v1/acquire"} 1`, `zae_limiter_service_calls_total{code="401",path="other"} 1`} {
			if code != http.StatusOK || !strings.Contains(text, series) {
				r.Errorf("%d, no %s in\n%s", code, series, text)
			}
		}
		r.stop()
		synctest.Wait()
		for _, client := range []*http.Client{r.client, admin} {
			if code, _ := r.get(client, "/readyz"); code != http.StatusServiceUnavailable {
				r.Errorf("ready while it drains: %d", code)
			}
			if code, _ := r.get(client, "/livez"); code != http.StatusOK {
				r.Errorf("not alive while it drains: %d", code)
			}
		}
	})
}

// With tokens, only their bearers may call.
func TestOnlyBearersOfATokenMayCall(t *testing.T) {
	serve(t, server.Options{Guard: guard(t, "# ours\n0123456789abcdef\n\n  fedcba9876543210  \n")}, func(r *running) {
		for authorization, want := range map[string]int{
			"Bearer 0123456789abcdef": http.StatusOK, "bearer fedcba9876543210": http.StatusOK, "": http.StatusUnauthorized, "Bearer": http.StatusUnauthorized,
			"Bearer 0123456789abcdeF": http.StatusUnauthorized, "Bearer 0123456789abcdef0": http.StatusUnauthorized, "Basic 0123456789abcdef": http.StatusUnauthorized,
			"Bearer # ours": http.StatusUnauthorized,
		} {
			a, err := r.call("limits.example.com", aCall, "Authorization", authorization)
			if err != nil || a.code != want || want != http.StatusOK && a.header.Get("WWW-Authenticate") != "Bearer" {
				r.Errorf("%q: %v %v, want %d", authorization, a, err, want)
			}
		}
	})
}

// Without tokens, a page of another site cannot call by a name of its own that leads here.
func TestWithoutTokensTheHostIsThisMachine(t *testing.T) {
	serve(t, server.Options{}, func(r *running) {
		for host, want := range map[string]int{
			"localhost": http.StatusOK, "LOCALHOST:8080": http.StatusOK, "127.0.0.1:8080": http.StatusOK, "[::1]:8080": http.StatusOK, "127.9.9.9": http.StatusOK,
			"evil.example.com": http.StatusForbidden, "localhost.evil.example.com": http.StatusForbidden, "192.0.2.1:8080": http.StatusForbidden,
		} {
			if a, err := r.call(host, aCall); err != nil || a.code != want {
				r.Errorf("%s: %v %v, want %d", host, a, err, want)
			}
		}
	})
}

// A client that sends its header or its body slowly is cut off, and so is one that does not take
// its answer.
func TestSlowClientsAreCutOff(t *testing.T) {
	serve(t, server.Options{DrainTime: time.Second}, func(r *running) {
		began := time.Now()
		c := r.say("POST /v1/acquire HTTP/1.1\r\nHost: ")
		if code := codeOf(c); code != 0 || time.Since(began) != 5*time.Second {
			r.Errorf("half a header: %d after %v", code, time.Since(began))
		}
		began = time.Now()
		c = r.say(header + "100\r\n\r\n{")
		for range 9 {
			time.Sleep(time.Second)
			_, _ = c.Write([]byte(" "))
		}
		if code := codeOf(c); code != http.StatusRequestTimeout || time.Since(began) != 10*time.Second {
			r.Errorf("half a body: %d after %v", code, time.Since(began))
		}
		r.say(header + strconv.Itoa(len(aCall)) + "\r\n\r\n" + aCall) // its answer is never read
		time.Sleep(11 * time.Second)
		r.stop()
		if err := <-r.ended; err != nil { // else its call would be under way
			r.Error(err)
		}
		close(r.ended)
	})
}

// The time for a body does not end a call that waits for its tokens.
func TestTheTimeForABodyEndsWithTheBody(t *testing.T) {
	serve(t, server.Options{}, func(r *running) {
		if _, err := r.call("localhost", strings.Replace(aCall, `"rpm":1`, `"rpm":60`, 1)); err != nil {
			r.Fatal(err)
		}
		began := time.Now()
		a, err := r.call("localhost", `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":20},"wait_ms":30000}`)
		if err != nil || a.code != http.StatusOK || time.Since(began).Round(time.Second) != 20*time.Second {
			r.Errorf("after %v: %v %v", time.Since(began), a, err)
		}
	})
}

// A client that leaves while its call waits takes nothing, and the service goes on.
func TestAClientLeavesWhileItWaits(t *testing.T) {
	serve(t, server.Options{}, func(r *running) {
		if _, err := r.call("localhost", strings.Replace(aCall, `"rpm":1`, `"rpm":60`, 1)); err != nil {
			r.Fatal(err)
		}
		body := `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":20},"wait_ms":30000}`
		c := r.say(header + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
		time.Sleep(time.Second)
		_ = c.Close()
		time.Sleep(20 * time.Second)
		if a, err := r.call("localhost", strings.Replace(aCall, `"rpm":1`, `"rpm":21`, 1)); err != nil || a.code != http.StatusOK {
			r.Errorf("the client that left has taken tokens: %v %v", a, err)
		}
	})
}

// A header that is too large is refused.
func TestHeadersAreBounded(t *testing.T) {
	serve(t, server.Options{}, func(r *running) {
		a, err := r.call("localhost", aCall, "X-Large", strings.Repeat("x", 64<<10))
		if err == nil && a.code != http.StatusRequestHeaderFieldsTooLarge {
			r.Errorf("got %d", a.code)
		}
		if a, err := r.call("localhost", aCall); err != nil || a.code != http.StatusOK {
			r.Errorf("afterwards: %v %v", a, err)
		}
	})
}
