package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	managing "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// certify makes a certificate for a name, which is its own authority, and returns its files.
func certify(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	if err := errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// manage serves rules for a node as Envoy Gateway does, to clients that show a certificate.
func manage(t *testing.T, l net.Listener, cert, key string) cache.SnapshotCache {
	t.Helper()
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !authorities.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities, MinVersion: tls.VersionTLS13,
	})))
	snapshots := cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	discovery.RegisterAggregatedDiscoveryServiceServer(s, managing.NewServer(t.Context(), snapshots, managing.CallbackFuncs{}))
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return snapshots
}

// A management server says what Envoy's descriptors mean. The service is not ready before, and shows the
// version that is in use.
func TestServeByAManagementServer(t *testing.T) {
	t.Parallel()
	cert, key := certify(t, "envoy-gateway")
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := startService(t, "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-wait", "0s", "--ratelimit-xds", l.Addr().String(),
		"--xds-node", "envoy-ratelimit", "--xds-tls-ca", cert, "--xds-tls-cert", cert, "--xds-tls-key", key, "--xds-tls-name", "envoy-gateway")
	var shown struct{ GRPC, Admin string }
	if err := json.Unmarshal([]byte(b.printed), &shown); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(shown.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func() (*rls.RateLimitResponse, error) {
		return rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
			Domain: "default/eg/http", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "rule-0-match-0", Value: "client-1"}}}},
		})
	}
	if _, err := call(); isReady(b.url) || status.Code(err) != codes.Unavailable {
		t.Errorf("before the first rules: ready %v, %v", isReady(b.url), err)
	}
	snapshot, err := cache.NewSnapshot("7", map[resource.Type][]types.Resource{resource.RateLimitConfigType: {&ratelimit.RateLimitConfig{
		Name: "default/eg/http", Domain: "default/eg/http",
		Descriptors: []*ratelimit.RateLimitDescriptor{{Key: "rule-0-match-0", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY, RequestsPerUnit: 2}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := manage(t, l, cert, key).SetSnapshot(t.Context(), "envoy-ratelimit", snapshot); err != nil {
		t.Fatal(err)
	}
	for !isReady(b.url) {
		time.Sleep(10 * time.Millisecond)
	}
	for i, want := range []rls.RateLimitResponse_Code{rls.RateLimitResponse_OK, rls.RateLimitResponse_OK, rls.RateLimitResponse_OVER_LIMIT} {
		if out, err := call(); err != nil || out.GetOverallCode() != want {
			t.Errorf("call %d: %v %v", i, out, err)
		}
	}
	for path, want := range map[string]string{
		"/config": `"files":["default/eg/http"],"version":"7"`, "/metrics": "\nzae_limiter_service_config_valid 1\n",
	} {
		a, err := http.Get(shown.Admin + path) //nolint:noctx // it ends with the test
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(a.Body); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v: %s", path, err, text)
		}
		_ = a.Body.Close()
	}
	code, stderr := b.end()
	if code != 0 || !strings.Contains(stderr, `"msg":"in use","files":"rules","version":"7"`) || !strings.Contains(stderr, "envoyproxy/ratelimit differs") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for line := range strings.Lines(stderr) {
		if err := validate("log", []byte(line)); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
}
