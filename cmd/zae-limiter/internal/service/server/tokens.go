package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
)

// minToken is the length of the shortest token: 16 characters of a random text resist guesses.
const minToken = 16

// Tokens are the bearer tokens of callers. A server without any serves who addresses it by a name
// of loopback.
type Tokens struct{ sums [][sha256.Size]byte }

// ParseTokens reads tokens as [ParseSecrets] does.
func ParseTokens(text string) (*Tokens, error) {
	secrets, err := ParseSecrets(text, minToken, "token")
	if err != nil {
		return nil, err
	}
	t := &Tokens{}
	for _, secret := range secrets {
		t.sums = append(t.sums, sha256.Sum256(secret))
	}
	return t, nil
}

// ParseSecrets reads secrets of a kind, one on each line, with so many characters at least. Empty lines
// and those that begin with # count for nothing. An error names the line, and never its text.
func ParseSecrets(text string, least int, kind string) (secrets [][]byte, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		secret := strings.TrimSpace(line)
		if secret == "" || strings.HasPrefix(secret, "#") {
			continue
		}
		if len(secret) < least || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("line %d is no %s: give at least %d characters of ASCII without spaces", n, kind, least)
		}
		secrets = append(secrets, []byte(secret))
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("there is no %s: give one on each line", kind)
	}
	return secrets, nil
}

// has reports whether a token is one of these, in a time that does not depend on the token.
func (t *Tokens) has(token string) bool {
	sum, found := sha256.Sum256([]byte(token)), 0
	for i := range t.sums {
		found |= subtle.ConstantTimeCompare(sum[:], t.sums[i][:])
	}
	return found == 1
}

// isIn reports whether one of the tokens is in an Authorization field.
func (t *Tokens) isIn(field string) bool {
	scheme, token, _ := strings.Cut(field, " ")
	return strings.EqualFold(scheme, "Bearer") && t.has(strings.TrimSpace(token))
}

// guard serves only those who may call.
func (t *Tokens) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case t != nil:
			if !t.isIn(r.Header.Get("Authorization")) {
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuse(w, http.StatusUnauthorized, "give a token of the service: Authorization: Bearer TOKEN")
				return
			}
		case !isLoopback(r.Host) && !hasCertificate(r):
			// A page of another site may have a name that leads to this machine.
			refuse(w, http.StatusForbidden, "the host is not a name of this machine: without tokens, only 127.0.0.1, [::1] and localhost are served")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hasCertificate reports whether the authority of callers has certified one.
func hasCertificate(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

func refuse(w http.ResponseWriter, code int, detail string) {
	httpapi.WriteProblem(w, &httpapi.Problem{Type: "about:blank", Title: http.StatusText(code), Status: code, Detail: detail})
}

// isLoopback reports whether a host, with or without a port, is this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// CheckAddr checks an address to listen at. At one that other machines can reach, callers must
// prove who they are.
func CheckAddr(addr string, isGuarded bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is no address: give host:port, 127.0.0.1:8080 for instance, with port 0 for any free one", addr)
	}
	if !isGuarded && (host == "" || !isLoopback(host)) {
		return fmt.Errorf("%s can be reached from other machines, and anyone may call: give --token-file or --tls-client-ca, or listen at 127.0.0.1", addr)
	}
	return nil
}
