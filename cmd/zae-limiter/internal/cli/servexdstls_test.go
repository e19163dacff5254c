package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	managing "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// An authority certifies a management server and its clients.
type authority struct {
	*testing.T

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{T: t}
	own, text, _ := a.certify("an authority", time.Now().Add(time.Hour))
	a.cert, a.key, a.pem = own.Leaf, own.PrivateKey.(*ecdsa.PrivateKey), text
	return a
}

// certify makes a certificate that ends at an instant, and its key, also in PEM. The authority itself is the first.
func (a *authority) certify(name string, end time.Time) (pair tls.Certificate, cert, key []byte) {
	a.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end, IsCA: a.cert == nil, BasicConstraintsValid: true,
	}
	signer, signedBy := private, form
	if a.cert != nil {
		signer, signedBy = a.key, a.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, form, signedBy, private.Public(), signer)
	if err != nil {
		a.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.Fatal(err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	if pair, err = tls.X509KeyPair(cert, key); err != nil {
		a.Fatal(err)
	}
	return pair, cert, key
}

// manage serves rules for nodes as Envoy Gateway does, to clients that the authority has certified.
func (a *authority) manage(l net.Listener) (snapshots cache.SnapshotCache, stop func()) {
	a.Helper()
	own, _, _ := a.certify("manager.example", time.Now().Add(time.Hour))
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS13,
	})))
	snapshots = cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	discovery.RegisterAggregatedDiscoveryServiceServer(s, managing.NewServer(a.Context(), snapshots, managing.CallbackFuncs{}))
	go s.Serve(l)
	a.Cleanup(s.Stop)
	return snapshots, s.Stop
}

// manageFrom serves rules of a version at an address, to the default node.
func (a *authority) manageFrom(addr, version string) (at string, stop func()) {
	a.Helper()
	l, err := new(net.ListenConfig).Listen(a.Context(), "tcp", addr)
	if err != nil {
		a.Fatal(err)
	}
	snapshots, stop := a.manage(l)
	if err := snapshots.SetSnapshot(a.Context(), "default", twoADay(a.T, version)); err != nil {
		a.Fatal(err)
	}
	return l.Addr().String(), stop
}

// files writes the certificates of the authority, and one with its key that ends at an instant.
func (a *authority) files(folder string, end time.Time) {
	a.Helper()
	_, cert, key := a.certify("a service", end)
	for name, text := range map[string][]byte{"ca.pem": a.pem, "cert.pem": cert, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			a.Fatal(err)
		}
	}
}

// flagsOf name the files of a folder.
func flagsOf(server, folder string) []string {
	return []string{
		"--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-wait", "0s", "--ratelimit-xds", server, "--xds-tls-name", "manager.example",
		"--xds-tls-ca", filepath.Join(folder, "ca.pem"), "--xds-tls-cert", filepath.Join(folder, "cert.pem"), "--xds-tls-key", filepath.Join(folder, "key.pem"),
	}
}

// A governed service has its files of TLS in a folder.
type governed struct {
	*testing.T

	folder, admin string
}

// shows waits until the page about the configuration has texts.
func (m *governed) shows(what string, texts ...string) {
	m.Helper()
	const patience = 90 * time.Second // far more than two readings of the files, and a wait between connections
	var text []byte
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(20 * time.Millisecond) {
		a, err := http.Get(m.admin + "/config") //nolint:noctx // it ends with the test
		if err != nil {
			m.Fatal(err)
		}
		if text, err = io.ReadAll(a.Body); err != nil {
			m.Fatal(err)
		}
		_ = a.Body.Close()
		missing := false
		for _, want := range texts {
			missing = missing || !strings.Contains(string(text), want)
		}
		if !missing {
			return
		}
	}
	m.Errorf("%s: want %q: %s", what, texts, text)
}

// A service gets its rules by TLS, in which both sides show certificates. It takes no rules from a server that another
// authority has certified, and none come with a certificate that has expired. Once files of TLS are replaced while
// it runs, the next connection has them. Until then, the last rules stay in use.
func TestServeByTLSOfAManagementServer(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	for name, run := range map[string]func(m *governed, start func(server string), ours, others *authority){
		"another authority": func(m *governed, start func(string), ours, others *authority) {
			at, _ := ours.manageFrom("127.0.0.1:0", "1")
			others.files(m.folder, later)
			start(at)
			m.shows("another authority", `"loads":0`, "certificate signed by unknown authority")
			ours.files(m.folder, later)
			m.shows("the right one", `"version":"1"`, `"loads":1`)
		},
		"expired": func(m *governed, start func(string), ours, _ *authority) {
			at, _ := ours.manageFrom("127.0.0.1:0", "1")
			ours.files(m.folder, time.Now().Add(-time.Minute))
			start(at)
			m.shows("an expired certificate", `"loads":0`, "expired certificate")
			ours.files(m.folder, later)
			m.shows("a new one", `"version":"1"`, `"loads":1`)
		},
		"rotation": func(m *governed, start func(string), ours, others *authority) {
			at, stop := ours.manageFrom("127.0.0.1:0", "1")
			ours.files(m.folder, later)
			start(at)
			m.shows("the first authority", `"version":"1"`, `"loads":1`)
			stop()
			others.manageFrom(at, "2")
			m.shows("the next authority, of whom the files know nothing", `"version":"1"`, `"loads":1`, "certificate signed by unknown authority")
			others.files(m.folder, later)
			m.shows("the next authority", `"version":"2"`, `"loads":2`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &governed{T: t, folder: t.TempDir()}
			run(m, func(server string) {
				b := startService(t, "127.0.0.1:0", flagsOf(server, m.folder)...)
				t.Cleanup(func() {
					if code, stderr := b.end(); code != 0 {
						t.Errorf("exit code %d: %s", code, stderr)
					}
				})
				var shown struct{ Admin string }
				if err := json.Unmarshal([]byte(b.printed), &shown); err != nil {
					t.Fatal(err)
				}
				if m.admin = shown.Admin; isReady(b.url) && name != "rotation" {
					t.Error("it is ready without rules")
				}
			}, newAuthority(t), newAuthority(t))
		})
	}
}
