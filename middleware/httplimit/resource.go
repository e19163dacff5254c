package httplimit

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Unmatched is the resource of all requests that no route matches. So clients cannot make
// up resources.
const Unmatched = "unmatched"

// Pattern is the pattern of [http.ServeMux] that a request matches, as the name of a
// resource: "GET /items/{id}" is "GET:/items/:id". There are as many resources as
// patterns, whatever methods and paths clients send. A request that matches none is
// [Unmatched].
//
// A ServeMux sets [http.Request.Pattern] when it calls a handler. Pass the mux if the
// middleware wraps the mux itself, and nil if the mux calls the middleware. Other routers
// have a pattern of their own: write a function that returns it, and wrap it in [Resource].
func Pattern(mux *http.ServeMux) Key {
	return Resource(func(r *http.Request) (string, error) {
		if mux == nil {
			return r.Pattern, nil
		}
		handler, pattern := mux.Handler(r)
		if r.Method == http.MethodConnect && isRedirect(handler) {
			return "", nil // the pattern is the client's path
		}
		return pattern, nil
	})
}

var redirect = reflect.TypeOf(http.RedirectHandler("/", http.StatusTemporaryRedirect))

func isRedirect(h http.Handler) bool { return reflect.TypeOf(h) == redirect }

// Resource is [ResourceName] of a route: of the pattern that a router has matched, never of
// the path that a client has sent.
func Resource(route Key) Key {
	names := new(names)
	return func(r *http.Request) (string, error) {
		s, err := route(r)
		if err != nil {
			return "", err
		}
		return names.of(s), nil
	}
}

// mostRoutes is how many names are remembered. Others are made anew each time.
const mostRoutes = 1000

// A names remembers the names of routes.
type names struct {
	known sync.Map // from routes to names
	size  atomic.Int64
}

func (n *names) of(route string) string {
	if name, ok := n.known.Load(route); ok {
		return name.(string) //nolint:errcheck // only strings are stored
	}
	name := ResourceName(route)
	if n.size.Load() < mostRoutes {
		if _, isKnown := n.known.LoadOrStore(route, name); !isKnown {
			n.size.Add(1)
		}
	}
	return name
}

// ResourceName is the name of a route's resource: "GET /items/{id}" becomes
// "GET:/items/:id", "/items/{id}" becomes "ANY:/items/:id", and "/files/*" becomes
// "ANY:/files/..". If characters are lost, or the name is longer than 64 characters, it
// ends with a hash of the route. Use ResourceName to configure limits of one route.
//
// A route may begin with a method. A method that net/http has no constant for becomes
// "OTHER", because it may be the client's. A route without a path, "" or "GET " for
// instance, is [Unmatched]. Other routes of one router stay distinct.
func ResourceName(route string) string {
	pattern := route
	if method, path, ok := strings.Cut(route, " "); ok && (path == "" || strings.Contains(path, "/")) {
		if pattern = path; path != "" && slices.Contains(methods, method) {
			pattern = route
		} else if path != "" {
			pattern = "OTHER " + path
		}
	}
	switch {
	case pattern == "":
		return Unmatched
	case len(pattern) <= maxResource && isLetter(pattern[0]) && strings.IndexFunc(pattern, isForeign) < 0:
		return pattern
	}
	name := spelling.Replace(pattern)
	if name == "" || !isLetter(name[0]) {
		name = "ANY:" + name
	}
	clean := strings.Map(func(c rune) rune {
		if isForeign(c) {
			return '_'
		}
		return c
	}, name)
	if clean == name && len(name) <= maxResource {
		return name
	}
	sum := sha256.Sum256([]byte(pattern))
	hash := fmt.Sprintf("-%x", sum[:4])
	return clean[:min(len(clean), maxResource-len(hash))] + hash
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// spelling replaces what the patterns of routers write with characters that resources have.
// A "." cannot be part of a parameter's name.
var spelling = strings.NewReplacer("{$}", ":.", "...}", "..", "{", ":", "}", "", "*", "..", " ", ":")

// maxResource is the most characters of a resource's name.
const maxResource = 64

// isForeign reports whether a resource's name must not have a character.
func isForeign(c rune) bool {
	return c >= 0x80 || !isLetter(byte(c)) && (c < '0' || c > '9') && !strings.ContainsRune("_.-/:", c)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
