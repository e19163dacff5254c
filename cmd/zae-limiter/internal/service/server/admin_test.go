package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// Each route is open to its roles, in their namespaces, and to nobody else: readers may read,
// callers may decide, and only operators may change anything. Calls about the whole table are closed to roles for
// some namespaces.
func TestEveryRouteHasItsRoles(t *testing.T) {
	const tokens = "read-0123456789ab reader\ncall-0123456789ab caller\nmain-0123456789ab operator\nelse-0123456789ab operator@bank reader@bank\nboth-0123456789ab reader@shop caller@bank\nshop-0123456789ab operator@shop\n"
	serve(t, server.Options{Guard: guard(t, tokens), Exposed: true}, func(r *running) {
		for i := range httpapi.Routes() {
			route := &httpapi.Routes()[i]
			may := []string{"call", "main", "shop"} // decides
			noun, _, _ := strings.Cut(strings.TrimPrefix(route.Path, "/v1/admin/"), "/")
			isWhole := slices.Contains([]string{"namespace", "table", "backup"}, noun)
			switch {
			case isWhole && route.IsRead:
				may = []string{"read", "main"}
			case isWhole:
				may = []string{"main"}
			case route.IsAdmin && route.IsRead:
				may = []string{"read", "main", "both", "shop"}
			case route.IsAdmin:
				may = []string{"main", "shop"}
			case route.IsRead:
				may = []string{"read", "call", "main", "both", "shop"}
			}
			for _, token := range []string{"read", "call", "main", "else", "both", "shop", "none", ""} {
				got := r.ask(r.client, route.Method, "http://limits.example"+route.Path, token, "{}")
				want := "admitted"
				switch {
				case token == "none" || token == "":
					want = "401"
				case !slices.Contains(may, token):
					want = "403"
				case got != http.StatusUnauthorized && got != http.StatusForbidden:
					continue
				}
				if strconv.Itoa(got) != want {
					r.Errorf("%s with %q: %d, want %s", route.Path, token, got, want)
				}
			}
		}
	})
}

// A change is by the name of the token, or by the beginning of its sum: never by the token, and never by
// what the caller says.
func TestChangesAreByTheBearer(t *testing.T) {
	const tokens = "main-0123456789ab operator name=ann@example.com\nbare-0123456789ab operator\nlook-0123456789ab reader name=bob\n"
	serve(t, server.Options{Guard: guard(t, tokens), Exposed: true}, func(r *running) {
		for i, token := range []string{"main", "bare"} {
			body := fmt.Sprintf(`{"resource":"gpt-4","limits":[{"limit":"rpm:%d"}]}`, i+1)
			if got := r.ask(r.client, http.MethodPost, "http://limits.example/v1/admin/resource/set-defaults", token, body); got != http.StatusOK {
				r.Fatalf("%s: %d", token, got)
			}
		}
		page, err := r.limits.Store.AuditEvents(r.Context(), audit.Query{Entity: audit.Resource("gpt-4"), Limit: 2})
		if err != nil {
			r.Fatal(err)
		}
		bare, named := page.Events[0].Principal, page.Events[1].Principal
		if named != "ann@example.com" || !strings.HasPrefix(bare, "token-") || len(bare) != len("token-")+8 || strings.Contains(bare, "bare") {
			r.Errorf("the events are by %q and %q", named, bare)
		}
	})
}

// Everybody on its machine administers a service without tokens. Others do not, even if they may call.
func TestAdministrationWithoutTokens(t *testing.T) {
	for name, c := range map[string]struct {
		server.Options

		host string
		want int
	}{
		"this machine":             {server.Options{}, "localhost", http.StatusOK},
		"a page of another site":   {server.Options{}, "evil.example", http.StatusForbidden},
		"a network policy":         {server.Options{Open: true, Exposed: true}, "limits.example", http.StatusForbidden},
		"a name that is made up":   {server.Options{Open: true, Exposed: true}, "localhost", http.StatusForbidden},
		"open, but only inside":    {server.Options{Open: true}, "localhost", http.StatusOK},
		"open, and a page":         {server.Options{Open: true}, "evil.example", http.StatusForbidden},
		"certificates of callers":  {server.Options{Exposed: true}, "localhost", http.StatusForbidden},
		"certificates, at no name": {server.Options{Exposed: true}, "limits.example", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, c.Options, func(r *running) {
				for _, path := range []string{"system/get-defaults", "system/delete-defaults"} {
					if got := r.ask(r.client, http.MethodPost, "http://"+c.host+"/v1/admin/"+path, "", "{}"); got != c.want {
						r.Errorf("%s: %d, want %d", path, got, c.want)
					}
				}
			})
		})
	}
}

// A certificate proves a caller, who may take tokens, and not an operator.
func TestACertificateIsNoOperator(t *testing.T) {
	var config *tls.Config
	latest := func(*tls.ClientHelloInfo) (*tls.Config, error) { return config, nil }
	serve(t, server.Options{Exposed: true, TLS: &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: latest}}, func(r *running) {
		ours := newAuthority(r.T)
		leaf := func(name string) tls.Certificate {
			_, cert, key := ours.certify(name, ours)
			return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
		}
		roots := x509.NewCertPool()
		roots.AddCert(ours.cert)
		config = &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{leaf("localhost")}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
		}
		transport := &http.Transport{DialContext: r.calls.Dial, TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{leaf("client")},
		}}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		for path, want := range map[string]int{"/v1/acquire": http.StatusOK, "/v1/admin/system/get-defaults": http.StatusForbidden, "/v1/admin/entity/delete": http.StatusForbidden} {
			body := "{}"
			if path == "/v1/acquire" {
				body = aCall
			}
			if got := r.ask(client, http.MethodPost, "https://localhost"+path, "", body); got != want {
				r.Errorf("%s: %d, want %d", path, got, want)
			}
		}
	})
}
