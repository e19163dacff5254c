package httpapi

import (
	"net/http"
	"reflect"
	"sync"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// A Route is one operation of the interface.
type Route struct {
	Method, Path   string
	Name           string // of the operation, for generated clients
	Summary, About string
	// In is the type of the body, and Out of the answer 200; nil is none, or any JSON.
	In, Out reflect.Type
	// Problems has the codes of other answers, which are problems.
	Problems []int
	// IsRead says that the operation takes nothing: readers may call it.
	IsRead bool
	// IsAdmin says that the operation is one of administration: callers may not call it.
	IsAdmin bool
	// IsTable says that such an operation concerns the whole table: it needs a role for all namespaces.
	IsTable bool
	// IsKeyed says that the change happens once with the field Idempotency-Key, and IsConditional that it
	// takes If-Match and If-None-Match.
	IsKeyed, IsConditional bool
}

// Codes of problems of every operation that has a body.
var (
	codesOfBodies = []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusServiceUnavailable,
	}
	codesOfLeases    = append([]int{http.StatusConflict, http.StatusGone, http.StatusInternalServerError}, codesOfBodies...)
	codesOfQuestions = append([]int{http.StatusUnprocessableEntity, http.StatusInternalServerError}, codesOfBodies...)
)

// Routes are all operations.
var Routes = sync.OnceValue(func() []Route {
	routes := decisions()
	for i := range verbs() {
		routes = append(routes, verbs()[i].Route)
	}
	return routes
})

// decisions are all operations but those of administration.
func decisions() []Route {
	return []Route{
		{
			Method: http.MethodPost, Path: "/v1/acquire", Name: "acquire",
			Summary: "Take tokens, or learn the exact wait",
			About: "Takes all tokens that the call names, or none. With wait_ms, the call waits in the order of arrival, and is refused at once if the wait " +
				"would be longer. With dry_run, it takes nothing, and is answered as it would be now. With lease_ms, the answer has a lease, " +
				"to be settled or released once, which may hold slots until then. Without it, the call is final. A call that is sent again takes again.",
			In: reflect.TypeFor[decide.Call](), Out: reflect.TypeFor[decide.Decision](), Problems: append([]int{http.StatusTooManyRequests}, codesOfQuestions...),
		},
		{
			Method: http.MethodPost, Path: "/v1/check", Name: "check",
			Summary: "Show balances, and how long a call would wait",
			About:   "Takes nothing. Without consume, the answer has every limit of the resource. The status code is 200 whatever the balances.",
			In:      reflect.TypeFor[decide.Question](), Out: reflect.TypeFor[decide.Decision](), Problems: codesOfQuestions, IsRead: true,
		},
		{
			Method: http.MethodPost, Path: "/v1/batch", Name: "batch",
			Summary: "Decide up to 100 calls side by side",
			About: "Each call is decided for itself, in no order, and has its own status code in the answer. " +
				"Calls that take from one bucket share its writes. A call that fails, or is not valid, fails alone.",
			In: reflect.TypeFor[Batch](), Out: reflect.TypeFor[BatchAnswer](), Problems: codesOfBodies,
		},
		{
			Method: http.MethodPost, Path: leases + "settle", Name: "settle",
			Summary: "Say what a lease has used",
			About: "Returns what was not used, or takes what was used besides, into debt if necessary. A lease is settled once: the same settlement again is " +
				"answered as before, and another one with 409. Any replica settles it.",
			In: reflect.TypeFor[Settlement](), Out: reflect.TypeFor[Settled](), Problems: codesOfLeases,
		},
		{
			Method: http.MethodPost, Path: leases + "release", Name: "release",
			Summary: "End a lease that has used nothing", About: "Returns all that the lease took, and its slots. It is a settlement with 0.",
			In: reflect.TypeFor[Release](), Out: reflect.TypeFor[Settled](), Problems: codesOfLeases,
		},
		{
			Method: http.MethodPost, Path: leases + "extend", Name: "extend",
			Summary: "Give a lease more time", About: "Writes the lease down with a later deadline. Nothing is written to the table, unless it has slots.",
			In: reflect.TypeFor[Extension](), Out: reflect.TypeFor[Extended](), Problems: codesOfLeases,
		},
		{
			Method: http.MethodGet, Path: "/v1/openapi.json", Name: "openapi",
			Summary: "This document", About: "The description of the interface, in OpenAPI 3.1.", IsRead: true,
		},
	}
}
