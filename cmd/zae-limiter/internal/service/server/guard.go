package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
)

// The remedies, if other machines may call, or may reach the admin address.
const (
	Exposed      = "give --token-file, --oidc-issuer or --tls-client-ca, listen at 127.0.0.1, or give --allow-unauthenticated"
	AdminExposed = "give --token-file or --oidc-issuer, listen at 127.0.0.1, or give --allow-unauthenticated"
)

// actions has what the paths of callers do, unless they take tokens.
var actions = sync.OnceValue(func() map[string]access.Action {
	all := map[string]access.Action{}
	for _, route := range httpapi.Routes() {
		switch {
		case route.IsTable && route.IsRead:
			all[route.Path] = access.Survey
		case route.IsTable:
			all[route.Path] = access.Own
		case route.IsAdmin && route.IsRead:
			all[route.Path] = access.Observe
		case route.IsAdmin:
			all[route.Path] = access.Manage
		case route.IsRead:
			all[route.Path] = access.Look
		}
	}
	return all
})

// Unmanaged is why nobody administers a service without tokens that other machines reach.
const Unmanaged = "administration needs a token with a role: start the service with --token-file or --oidc-issuer, or listen at 127.0.0.1"

// guarded serves only those who may call.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.o.Guard == nil && !s.o.Open && !isLoopback(r.Host) && !hasCertificate(r) {
			refuseHost(w)
			return
		}
		do := actions()[r.URL.Path]
		if do != access.Decide && do != access.Look && s.isUnmanaged(r) {
			refuse(w, http.StatusForbidden, Unmanaged)
			return
		}
		if who, ok := s.admits(w, r, do); ok {
			next.ServeHTTP(w, r.WithContext(httpapi.WithPrincipal(r.Context(), who)))
		}
	})
}

// isUnmanaged reports whether a request is from another machine, or for a name that leads to this one, and
// nobody can prove to be an operator: a certificate, or a network policy, proves a caller only.
func (s *Server) isUnmanaged(r *http.Request) bool {
	return s.o.Guard == nil && (s.o.Exposed || !isLoopback(r.Host))
}

// onlyHere serves the pages. With tokens, they judge their visitors themselves. Without, every visitor is an
// operator, and must be on this machine.
func (s *Server) onlyHere(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.isUnmanaged(r) {
			refuse(w, http.StatusForbidden, Unmanaged)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// forOperators serves operators: at an address that other machines reach, those with a proof, and at
// loopback everybody who addresses this machine by a name of it.
func (s *Server) forOperators(do access.Action, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.o.Open && s.o.Guard == nil:
		case !s.o.AdminExposed:
			if !isLoopback(r.Host) {
				refuseHost(w)
				return
			}
		default:
			if _, ok := s.admits(w, r, do); !ok {
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// refuseHost refuses a request for another host. A page of another site may have a name that leads
// to this machine.
func refuseHost(w http.ResponseWriter) {
	refuse(w, http.StatusForbidden, "the host is not a name of this machine: without tokens, only 127.0.0.1, [::1] and localhost are served")
}

// admits reports whether a request may do something, and who makes it. If not, it answers.
func (s *Server) admits(w http.ResponseWriter, r *http.Request, do access.Action) (who string, ok bool) {
	who, err := s.o.Guard.Admit(r.Context(), r.Header.Get("Authorization"), do)
	switch {
	case err == nil:
		return who, true
	case errors.Is(err, access.ErrForbidden), errors.Is(err, access.ErrNameless):
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
		refuse(w, http.StatusForbidden, err.Error())
	case errors.Is(err, access.ErrUndecided):
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, err.Error())
	default:
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, err.Error())
	}
	return "", false
}

// admitsGRPC judges a call of gRPC. A browser cannot call: it has no access to the frames of HTTP/2.
func (s *Server) admitsGRPC(ctx context.Context) error {
	field := ""
	if all := metadata.ValueFromIncomingContext(ctx, "authorization"); len(all) == 1 {
		field = all[0]
	}
	_, err := s.o.Guard.Admit(ctx, field, access.Decide)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, access.ErrForbidden):
		return status.Error(codes.PermissionDenied, err.Error())
	case errors.Is(err, access.ErrUndecided):
		return status.Error(codes.Unavailable, err.Error())
	}
	return status.Error(codes.Unauthenticated, "give a token of the service: authorization: Bearer TOKEN, in the initial metadata of the proxy")
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

// CheckAddr checks an address to listen at, and reports whether other machines can reach it.
func CheckAddr(addr string) (isExposed bool, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return false, fmt.Errorf("%q is no address: give host:port, 127.0.0.1:8080 for instance, with port 0 for any free one", addr)
	}
	return host == "" || !isLoopback(host), nil
}
