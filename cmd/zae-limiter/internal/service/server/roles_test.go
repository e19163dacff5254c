package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
)

const roles = "read-0123456789ab reader\ncall-0123456789ab caller@shop\nelse-0123456789ab caller@bank\nmain-0123456789ab operator\n"

// ask sends a request with a token, and returns the code.
func (r *running) ask(client *http.Client, method, url, token, body string) int {
	r.Helper()
	q, err := http.NewRequestWithContext(r.Context(), method, url, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token+"-0123456789ab")
	}
	a, err := client.Do(q)
	if err != nil {
		r.Fatal(err)
	}
	defer a.Body.Close()
	if _, err := io.Copy(io.Discard, a.Body); err != nil {
		r.Fatal(err)
	}
	return a.StatusCode
}

// A role suffices for its paths, over HTTP, gRPC and at the admin address.
func TestRolesOfTheService(t *testing.T) {
	state := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	serve(t, server.Options{Guard: guard(t, roles), AdminExposed: true, Config: state, Register: register}, func(r *running) {
		admin := r.newClient(r.admin)
		const good, forbidden, unproven = http.StatusOK, http.StatusForbidden, http.StatusUnauthorized
		for _, c := range []struct {
			client *http.Client
			path   string
			body   string
			want   map[string]int
		}{
			{r.client, "/v1/acquire", aCall, map[string]int{"read": forbidden, "call": good, "else": forbidden, "main": good, "none": unproven, "": unproven}},
			{r.client, "/v1/check", `{"entity_id":"key-1","resource":"gpt-4"}`, map[string]int{"read": good, "call": good, "else": forbidden, "main": good, "": unproven}},
			{r.client, "/v1/openapi.json", "", map[string]int{"read": good, "call": good, "else": forbidden, "main": good, "": unproven}},
			{r.client, "/v1/batch", `{"calls":[` + aCall + `]}`, map[string]int{"read": forbidden, "call": good, "": unproven}},
			{r.client, "/v1/leases/release", `{"lease":"x"}`, map[string]int{"read": forbidden, "call": http.StatusBadRequest, "": unproven}},
			{r.client, "/metrics", "", map[string]int{"read": forbidden, "main": http.StatusNotFound, "": unproven}},
			{admin, "/metrics", "", map[string]int{"read": good, "call": forbidden, "main": good, "": unproven}},
			{admin, "/config", "", map[string]int{"read": good, "call": forbidden, "main": good, "": unproven}},
			{admin, "/debug/pprof/", "", map[string]int{"read": forbidden, "call": forbidden, "main": good, "": unproven}},
			{admin, "/debug/pprof/trace", "", map[string]int{"read": forbidden, "": unproven}},
			{admin, "/debug/pprof/profile", "", map[string]int{"read": forbidden, "": unproven}},
			{admin, "/debug/pprof/heap", "", map[string]int{"read": forbidden, "main": good, "": unproven}},
			{admin, "/livez", "", map[string]int{"": good}},
			{admin, "/readyz", "", map[string]int{"": good}},
		} {
			method := http.MethodGet
			if c.body != "" {
				method = http.MethodPost
			}
			for token, want := range c.want {
				if got := r.ask(c.client, method, "http://limits.example"+c.path, token, c.body); got != want {
					r.Errorf("%s with %q: %d, want %d", c.path, token, got, want)
				}
			}
		}
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		for token, want := range map[string]codes.Code{"read": codes.PermissionDenied, "call": codes.OK, "else": codes.PermissionDenied, "main": codes.OK, "none": codes.Unauthenticated} {
			ctx := metadata.AppendToOutgoingContext(r.Context(), "authorization", "Bearer "+token+"-0123456789ab")
			if err := ask(ctx, conn, 0); status.Code(err) != want {
				r.Errorf("gRPC with %q: %v, want %v", token, err, want)
			}
		}
	})
}

// Without tokens, no page of another site reaches the metrics and profiles, whatever its name leads to. Who
// asks for a service without proofs is served at any name.
func TestHostsOfTheAdminAddress(t *testing.T) {
	for name, o := range map[string]struct {
		server.Options

		want int
	}{
		"loopback": {server.Options{}, http.StatusForbidden},
		"open":     {server.Options{Open: true, AdminExposed: true}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, o.Options, func(r *running) {
				admin := r.newClient(r.admin)
				for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap"} {
					if got := r.ask(admin, http.MethodGet, "http://evil.example"+path, "", ""); got != o.want {
						r.Errorf("%s: %d, want %d", path, got, o.want)
					}
					if got := r.ask(admin, http.MethodGet, "http://localhost:8070"+path, "", ""); got != http.StatusOK {
						r.Errorf("%s of this machine: %d", path, got)
					}
				}
				if got := r.ask(r.client, http.MethodPost, "http://evil.example/v1/acquire", "", aCall); got != o.want {
					r.Errorf("a call: %d, want %d", got, o.want)
				}
			})
		})
	}
}

// A connection in use ends some minutes after it began, so that new replicas get calls. No call fails.
func TestConnectionsAge(t *testing.T) {
	serve(t, server.Options{}, func(r *running) {
		began := time.Now()
		for {
			a, err := r.call("localhost", `{"calls":[]}`)
			if err != nil {
				r.Fatal(err)
			}
			age := time.Since(began)
			if a.closes {
				if age < 4*time.Minute {
					r.Errorf("a connection ended after %v", age)
				}
				return
			}
			if age > 6*time.Minute {
				r.Fatalf("a connection is in use for %v", age)
			}
			time.Sleep(time.Second)
		}
	})
}

// Not more calls are under way than there is memory for. The others are refused at once, before their
// messages are read, and are served later.
func TestCallsUnderWayAreBounded(t *testing.T) {
	api := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == "stays" {
			<-r.Context().Done()
		}
	})
	serve(t, server.Options{Register: register, API: api}, func(r *running) {
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		batch := func() int {
			return r.ask(r.client, http.MethodPost, "http://localhost/v1/batch", "", `{}`)
		}
		var stay []net.Conn
		defer func() {
			for _, c := range stay {
				_ = c.Close()
			}
		}()
		const alone = httpapi.MaxBatchBody / httpapi.MaxBody
		for range server.MaxUnderWay - alone {
			stay = append(stay, r.say("GET /v1/check HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: stays\r\n\r\n"))
		}
		synctest.Wait()
		if got := batch(); got != http.StatusOK {
			r.Errorf("a batch that is the last: %d", got)
		}
		done := make(chan error, 1)
		go func() { done <- ask(r.Context(), conn, 20) }()
		synctest.Wait()
		if got := batch(); got != http.StatusServiceUnavailable {
			r.Errorf("a batch that is too much: %d", got)
		}
		for range alone - 1 {
			go func() { _ = ask(r.Context(), conn, 20) }()
		}
		synctest.Wait()
		if err := ask(r.Context(), conn, 0); status.Code(err) != codes.Unavailable {
			r.Errorf("a call of gRPC that is too much: %v", err)
		}
		if a, err := r.call("localhost", aCall); err != nil || a.code != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" {
			r.Errorf("a call that is too much: %v %v", a, err)
		}
		if err := conn.Invoke(r.Context(), "/sk-secret/sk-secret", &rls.RateLimitRequest{}, &rls.RateLimitResponse{}); status.Code(err) != codes.Unavailable {
			r.Errorf("a call of no method that is too much: %v", err)
		}
		if _, text := r.get(r.newClient(r.admin), "/metrics"); strings.Contains(text, "sk-secret") || !strings.Contains(text, `{code="Unavailable",path="other"} 1`) {
			r.Errorf("the metrics:\n%s", text)
		}
		if code, _ := r.get(r.client, "/readyz"); code != http.StatusOK {
			r.Errorf("ready: %d", code)
		}
		if err := <-done; err != nil {
			r.Error(err)
		}
		synctest.Wait()
		if got := batch(); got != http.StatusOK {
			r.Errorf("a batch when calls of gRPC have ended: %d", got)
		}
		if err := ask(r.Context(), conn, 0); err != nil {
			r.Error(err)
		}
	})
}

// The time of an answer begins with the answer, also over HTTP/2: a call that waits longer is served.
func TestACallOfHTTP2Waits(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(25 * time.Second)
		w.WriteHeader(http.StatusOK)
	})
	var certs *tls.Config
	latest := func(*tls.ClientHelloInfo) (*tls.Config, error) { return certs, nil }
	serve(t, server.Options{API: api, DrainTime: time.Minute, TLS: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, GetConfigForClient: latest}}, func(r *running) {
		ours := newAuthority(r.T)
		_, cert, key := ours.certify("localhost", ours)
		certs = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
		roots := x509.NewCertPool()
		roots.AddCert(ours.cert)
		transport := &http.Transport{DialContext: r.calls.Dial, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
		defer transport.CloseIdleConnections()
		q, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "https://localhost/v1/acquire", strings.NewReader(aCall))
		if err != nil {
			r.Fatal(err)
		}
		a, err := (&http.Client{Transport: transport}).Do(q)
		if err != nil {
			r.Fatal(err)
		}
		defer a.Body.Close()
		if a.ProtoMajor != 2 || a.StatusCode != http.StatusOK {
			r.Errorf("%s: %d", a.Proto, a.StatusCode)
		}
	})
}
