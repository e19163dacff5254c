package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
)

// A sleeper answers a call after as many seconds as it has hits.
type sleeper struct {
	rls.UnimplementedRateLimitServiceServer
}

func (sleeper) ShouldRateLimit(_ context.Context, in *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	time.Sleep(time.Duration(in.GetHitsAddend()) * time.Second)
	return &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}, nil
}

func register(to grpc.ServiceRegistrar) { rls.RegisterRateLimitServiceServer(to, sleeper{}) }

// proxy connects as a proxy does.
func (r *running) proxy(with credentials.TransportCredentials) *grpc.ClientConn {
	r.Helper()
	conn, err := grpc.NewClient("passthrough:service.example", grpc.WithTransportCredentials(with),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return r.grpc.Dial(ctx, "", "") }))
	if err != nil {
		r.Fatal(err)
	}
	return conn
}

func ask(ctx context.Context, conn *grpc.ClientConn, seconds uint32) error {
	_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{HitsAddend: seconds})
	return err
}

// No call of a proxy fails when the service ends, if the proxy asks for its health: calls are served until
// the wait is over, and those under way are then served to their end.
func TestNoCallOfGRPCFailsInADrain(t *testing.T) {
	serve(t, server.Options{Register: register, DrainWait: 5 * time.Second, DrainTime: time.Minute}, func(r *running) {
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		health := func(service string, want healthpb.HealthCheckResponse_ServingStatus) {
			r.Helper()
			got, err := healthpb.NewHealthClient(conn).Check(r.Context(), &healthpb.HealthCheckRequest{Service: service})
			if err != nil || got.GetStatus() != want {
				r.Errorf("health of %q: %v %v, want %v", service, got, err, want)
			}
		}
		health("", healthpb.HealthCheckResponse_SERVING)
		health("envoy.service.ratelimit.v3.RateLimitService", healthpb.HealthCheckResponse_SERVING)
		var all sync.WaitGroup
		all.Go(func() {
			if err := ask(r.Context(), conn, 20); err != nil {
				r.Errorf("the call under way: %v", err)
			}
		})
		time.Sleep(time.Second)
		r.stop()
		synctest.Wait()
		health("", healthpb.HealthCheckResponse_NOT_SERVING)
		time.Sleep(5*time.Second - time.Millisecond)
		if err := ask(r.Context(), conn, 0); err != nil {
			r.Errorf("a call in the wait: %v", err)
		}
		all.Wait()
		if err := <-r.ended; err != nil {
			r.Error(err)
		}
		close(r.ended)
		if err := ask(r.Context(), conn, 0); status.Code(err) != codes.Unavailable {
			r.Errorf("it still serves: %v", err)
		}
	})
}

// A call of gRPC that does not end in the time of a drain is cut off, and the error says so.
func TestADrainOfGRPCEnds(t *testing.T) {
	serve(t, server.Options{Register: register, DrainTime: 2 * time.Second}, func(r *running) {
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		cut := make(chan error, 1)
		go func() { cut <- ask(r.Context(), conn, 3) }()
		synctest.Wait()
		r.stop()
		began := time.Now()
		if err := <-cut; status.Code(err) != codes.Unavailable || time.Since(began) != 2*time.Second {
			r.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "cut off") {
			r.Error(err)
		}
		close(r.ended)
	})
}

// With tokens, only their bearers may call. Health is told to everybody.
func TestTokensOfGRPC(t *testing.T) {
	serve(t, server.Options{Register: register, Guard: guard(t, "0123456789abcdef")}, func(r *running) {
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		for authorization, want := range map[string]codes.Code{"Bearer 0123456789abcdef": codes.OK, "Bearer 0123456789abcdeF": codes.Unauthenticated, "": codes.Unauthenticated} {
			ctx := metadata.AppendToOutgoingContext(r.Context(), "authorization", authorization)
			if err := ask(ctx, conn, 0); status.Code(err) != want {
				r.Errorf("%q: %v, want %v", authorization, err, want)
			}
		}
		if _, err := healthpb.NewHealthClient(conn).Check(r.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			r.Error(err)
		}
		_, text := r.get(r.newClient(r.admin), "/metrics")
		const series = `zae_limiter_service_calls_total{code="Unauthenticated",path="/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"} 2`
		if !strings.Contains(text, series) {
			r.Errorf("no %s in\n%s", series, text)
		}
	})
}

// A message that is too large is refused before it is read.
func TestMessagesAreBounded(t *testing.T) {
	serve(t, server.Options{Register: register}, func(r *running) {
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(r.Context(), &rls.RateLimitRequest{Domain: strings.Repeat("x", 128<<10)})
		if status.Code(err) != codes.ResourceExhausted {
			r.Error(err)
		}
	})
}

// An authority certifies keys for a test.
type authority struct {
	*testing.T

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{T: t}
	_, a.cert, a.key = a.certify("authority", nil)
	return a
}

// certify makes a key with a certificate, in PEM and parsed. The authority certifies itself.
func (a *authority) certify(name string, by *authority) (text []byte, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: by == nil, BasicConstraintsValid: true,
	}
	signer, signedBy := key, form
	if by != nil {
		signer, signedBy = by.key, by.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, form, signedBy, key.Public(), signer)
	if err != nil {
		a.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		a.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), cert, key
}

// files writes a certificate and its key.
func (a *authority) files(folder string) (cert, key string) {
	a.Helper()
	text, _, private := a.certify("service.example", a)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.Fatal(err)
	}
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	a.write(cert, text)
	a.write(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return cert, key
}

func (a *authority) write(file string, text []byte) {
	a.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		a.Fatal(err)
	}
}

// Both listeners speak TLS, and let in callers whose authority is known, without a token.
func TestTLS(t *testing.T) {
	folder := t.TempDir()
	var files *hot.Value[*tls.Config]
	latest := func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		return server.Latest(files).GetConfigForClient(hello)
	}
	certs := server.Certificates{ClientCA: filepath.Join(folder, "ca.pem")}
	serve(t, server.Options{Register: register, TLS: &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: latest}}, func(r *running) {
		ours, theirs := newAuthority(r.T), newAuthority(r.T)
		certs.Cert, certs.Key = ours.files(folder)
		ours.write(certs.ClientCA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: theirs.cert.Raw}))
		var err error
		if files, err = hot.Open(certs.Source(), time.Now); err != nil {
			r.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(ours.cert)
		client := func(by *authority) *tls.Config {
			to := &tls.Config{RootCAs: roots, ServerName: "service.example", MinVersion: tls.VersionTLS12}
			if by != nil {
				_, cert, key := by.certify("client", by)
				to.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
			}
			return to
		}
		for by, admits := range map[*authority]bool{theirs: true, ours: false, nil: false} {
			conn := r.proxy(credentials.NewTLS(client(by)))
			if err := ask(r.Context(), conn, 0); (err == nil) != admits {
				r.Errorf("gRPC: %v", err)
			}
			_ = conn.Close()
			transport := &http.Transport{DialContext: r.calls.Dial, TLSClientConfig: client(by), ForceAttemptHTTP2: true}
			q, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "https://service.example/v1/acquire", strings.NewReader(aCall))
			if err != nil {
				r.Fatal(err)
			}
			q.Header.Set("Content-Type", "application/json")
			a, err := (&http.Client{Transport: transport}).Do(q)
			if (err == nil && a.StatusCode == http.StatusOK && a.ProtoMajor == 2) != admits {
				r.Errorf("HTTP: %v %v", a, err)
			}
			if err == nil {
				_ = a.Body.Close()
			}
			transport.CloseIdleConnections()
		}
	})
}

// Files of TLS that do not belong together are an error with their names.
func TestCertificates(t *testing.T) {
	t.Parallel()
	folder, other := t.TempDir(), t.TempDir()
	a := newAuthority(t)
	cert, key := a.files(folder)
	_, wrong := a.files(other)
	for _, tt := range []struct {
		certs server.Certificates
		want  string
	}{
		{server.Certificates{Cert: cert, Key: key}, ""},
		{server.Certificates{Cert: cert, Key: wrong}, cert + " and " + wrong},
		{server.Certificates{Cert: cert, Key: key, ClientCA: key}, key + " has no certificate of an authority"},
		{server.Certificates{Cert: cert, Key: filepath.Join(folder, "none")}, "no such file"},
	} {
		_, err := hot.Open(tt.certs.Source(), time.Now)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// The service is ready once it can decide: health, over HTTP and gRPC, says so. It is alive before.
func TestReadyOnceItCanDecide(t *testing.T) {
	ready := make(chan struct{})
	serve(t, server.Options{Register: register, Ready: ready}, func(r *running) {
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		expect := func(code int, body string, want healthpb.HealthCheckResponse_ServingStatus) {
			r.Helper()
			for _, p := range []*http.Client{r.client, r.newClient(r.admin)} {
				if got, text := r.get(p, "/readyz"); got != code || text != body {
					r.Errorf("%d %q", got, text)
				}
				if got, _ := r.get(p, "/livez"); got != http.StatusOK {
					r.Errorf("it is not alive: %d", got)
				}
			}
			for _, service := range []string{"", "envoy.service.ratelimit.v3.RateLimitService"} {
				if got, err := healthpb.NewHealthClient(conn).Check(r.Context(), &healthpb.HealthCheckRequest{Service: service}); err != nil || got.GetStatus() != want {
					r.Errorf("%q: %v %v", service, got, err)
				}
			}
		}
		expect(http.StatusServiceUnavailable, "waiting for rules\n", healthpb.HealthCheckResponse_NOT_SERVING)
		close(ready)
		synctest.Wait()
		expect(http.StatusOK, "ready\n", healthpb.HealthCheckResponse_SERVING)
	})
}

// A service that was never ready ends, and what comes then does not make it ready.
func TestADrainBeforeItCanDecide(t *testing.T) {
	ready := make(chan struct{})
	serve(t, server.Options{Register: register, Ready: ready, DrainWait: 5 * time.Second}, func(r *running) {
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		r.stop()
		synctest.Wait()
		close(ready)
		synctest.Wait()
		if code, text := r.get(r.client, "/readyz"); code != http.StatusServiceUnavailable || text != "draining\n" {
			r.Errorf("%d %q", code, text)
		}
		if got, err := healthpb.NewHealthClient(conn).Check(r.Context(), &healthpb.HealthCheckRequest{}); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
			r.Errorf("%v %v", got, err)
		}
	})
}

// Files of TLS of the connections that the service makes are checked as those of its own.
func TestOutgoing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	a := newAuthority(t)
	cert, key := a.files(folder)
	for _, tt := range []struct {
		outgoing server.Outgoing
		want     string
	}{
		{server.Outgoing{Name: "other.example"}, ""},
		{server.Outgoing{Cert: cert, Key: key, CA: cert}, ""},
		{server.Outgoing{Cert: key, Key: key}, key + " and " + key},
		{server.Outgoing{CA: key}, key + " has no certificate of an authority"},
		{server.Outgoing{CA: filepath.Join(folder, "none")}, "no such file"},
	} {
		v, err := hot.Open(tt.outgoing.Source(), time.Now)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
		if err == nil && (v.Get().ServerName != tt.outgoing.Name || (v.Get().RootCAs == nil) != (tt.outgoing.CA == "") || len(v.Get().Certificates) != min(1, len(tt.outgoing.Cert))) {
			t.Errorf("%+v: %+v", tt.outgoing, v.Get())
		}
	}
}
