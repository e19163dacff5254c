package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
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

// ParseTokens reads tokens, one on each line. Empty lines and those that begin with # count for
// nothing. An error names the line, and never its text.
func ParseTokens(text string) (*Tokens, error) {
	t, n := &Tokens{}, 0
	for line := range strings.Lines(text) {
		n++
		token := strings.TrimSpace(line)
		if token == "" || strings.HasPrefix(token, "#") {
			continue
		}
		if len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("line %d is no token: give at least %d characters of ASCII without spaces", n, minToken)
		}
		t.sums = append(t.sums, sha256.Sum256([]byte(token)))
	}
	if len(t.sums) == 0 {
		return nil, errors.New("there is no token: give one on each line")
	}
	return t, nil
}

// has reports whether a token is one of these, in a time that does not depend on the token.
func (t *Tokens) has(token string) bool {
	sum, found := sha256.Sum256([]byte(token)), 0
	for i := range t.sums {
		found |= subtle.ConstantTimeCompare(sum[:], t.sums[i][:])
	}
	return found == 1
}

// guard serves only those who may call.
func (t *Tokens) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case t != nil:
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			if !strings.EqualFold(scheme, "Bearer") || !t.has(strings.TrimSpace(token)) {
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuse(w, http.StatusUnauthorized, "give a token of the service: Authorization: Bearer TOKEN")
				return
			}
		case !isLoopback(r.Host):
			// A page of another site may have a name that leads to this machine.
			refuse(w, http.StatusForbidden, "the host is not a name of this machine: without tokens, only 127.0.0.1, [::1] and localhost are served")
			return
		}
		next.ServeHTTP(w, r)
	})
}

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

// CheckAddr checks an address to listen at. One that other machines can reach needs tokens.
func CheckAddr(addr string, hasTokens bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is no address: give host:port, 127.0.0.1:8080 for instance, with port 0 for any free one", addr)
	}
	if !hasTokens && (host == "" || !isLoopback(host)) {
		return fmt.Errorf("%s can be reached from other machines, and anyone may call without tokens: give --token-file, or listen at 127.0.0.1", addr)
	}
	return nil
}
