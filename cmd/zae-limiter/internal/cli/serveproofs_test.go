package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// tokenOf starts a provider, and returns its URL and a token for a group.
func tokenOf(t *testing.T, group string) (issuer, token string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	say := func(path string, body any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(body) })
	}
	say("/.well-known/openid-configuration", map[string]any{"issuer": server.URL, "jwks_uri": server.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}})
	say("/keys", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "a"}}})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(map[string]any{"iss": server.URL, "aud": "limits", "roles": map[string]any{"of": group}, "exp": time.Now().Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	if token, err = signed.CompactSerialize(); err != nil {
		t.Fatal(err)
	}
	return server.URL, token
}

// codeWith asks for a path with a token.
func codeWith(t *testing.T, url, token string) int {
	t.Helper()
	method, body := http.MethodGet, ""
	if strings.HasSuffix(url, "/v1/acquire") {
		method, body = http.MethodPost, `{"entity_id":"client-1","resource":"gpt-4","consume":{"rpd":1}}`
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	_, _ = io.Copy(io.Discard, a.Body)
	return a.StatusCode
}

// Tokens of an OpenID provider and of a file have the roles that the flags and the file say, and a changed
// file counts without a restart.
func TestServeKnowsRoles(t *testing.T) {
	t.Parallel()
	issuer, token := tokenOf(t, "a=b")
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("reader-0123456789 reader\n")
	b := startService(t, "0.0.0.0:0", "--token-file", file, "--oidc-issuer", issuer, "--oidc-audience", "limits", "--oidc-claim", "roles.of",
		"--oidc-role", "a=b=caller@default", "--fallback", "rpd:5/day", "--admin", "0.0.0.0:0", "--drain-wait", "0s")
	defer b.end()
	var shown struct{ Endpoint, Admin string }
	if err := json.Unmarshal([]byte(b.printed), &shown); err != nil {
		t.Fatal(err)
	}
	acquire, metrics := shown.Endpoint+"/v1/acquire", shown.Admin+"/metrics"
	for _, c := range []struct {
		url, token string
		want       int
	}{
		{acquire, token, http.StatusOK},
		{acquire, token[:len(token)-3] + "AAA", http.StatusUnauthorized},
		{acquire, "reader-0123456789", http.StatusForbidden},
		{metrics, token, http.StatusForbidden},
		{metrics, "reader-0123456789", http.StatusOK},
		{metrics, "", http.StatusUnauthorized},
	} {
		if got := codeWith(t, c.url, c.token); got != c.want {
			t.Errorf("%s: %d, want %d", c.url, got, c.want)
		}
	}
	write("reader-0123456789 operator\n")
	for codeWith(t, acquire, "reader-0123456789") != http.StatusOK {
		time.Sleep(100 * time.Millisecond)
	}
}

// Without a proof, other machines reach no address, unless it is asked for.
func TestServeIsClosedToOthers(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "limits")
	for _, flag := range []string{"--http", "--admin"} {
		code, _, stderr := run(t.Context(), strings.NewReader(""), "serve", "--local", data, flag, "0.0.0.0:0")
		if want := fmt.Sprintf("invalid %s: 0.0.0.0:0 can be reached from other machines", flag); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
	b := startService(t, "0.0.0.0:0", "--allow-unauthenticated", "--admin", "0.0.0.0:0", "--fallback", "rpd:5/day", "--drain-wait", "0s")
	defer b.end()
	if got := codeWith(t, b.url+"/v1/acquire", ""); got != http.StatusOK {
		t.Errorf("a call: %d", got)
	}
}
