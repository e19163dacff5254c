package httpapi_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// A service is the handler on a limiter of its own, whose limits are those of every resource.
type service struct {
	*testing.T
	limits  *limitertest.Limits
	handler http.Handler
}

// inBubble runs f with a service in a bubble.
func inBubble(t *testing.T, p decide.Policy, f func(*service), limits ...limiter.Limit) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{T: t, limits: limitertest.New(t, limits...)}
		s.handler = handlerOf(s.limits, p)
		f(s)
	})
}

func handlerOf(l decide.Limiter, p decide.Policy) http.Handler {
	return httpapi.New(httpapi.Options{Limiter: l, Policy: p, Logger: slog.New(slog.DiscardHandler)})
}

// A reply is what a client gets.
type reply struct {
	*httptest.ResponseRecorder
	decide.Decision
	Problem struct {
		Title, Detail, Field string
		Status               int
		Violated             []string `json:"violated-policies"`
	}
	Results []struct {
		Status   int              `json:"http_status"`
		Decision *decide.Decision `json:"decision"`
		Failure  *struct {
			Status int
			Field  string
		} `json:"failure"`
	}
}

// post sends a call. The answer must fit the OpenAPI document.
func (s *service) post(path, body string, header ...string) *reply {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.send(r)
}

func (s *service) send(r *http.Request) *reply {
	s.Helper()
	got := &reply{ResponseRecorder: httptest.NewRecorder()}
	s.handler.ServeHTTP(got, r)
	if got.Code == 499 {
		return got
	}
	if err := fits(r.URL.Path, got.ResponseRecorder); err != nil {
		s.Errorf("%s: %v: %s", r.URL.Path, err, got.Body)
	}
	for _, into := range []any{&got.Decision, &got.Problem, &struct{ Results any }{&got.Results}} {
		if err := json.Unmarshal(got.Body.Bytes(), into); err != nil {
			s.Fatalf("%s: %v", got.Body, err)
		}
	}
	return got
}

// acquire asks for tokens of rpm of gpt-4 for key-1.
func (s *service) acquire(tokens int, also ...string) *reply {
	s.Helper()
	return s.post("/v1/acquire", `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":`+strconv.Itoa(tokens)+`}`+strings.Join(also, "")+`}`)
}

// left is the balance of rpm of gpt-4 for key-1.
func (s *service) left() int64 {
	s.Helper()
	got := s.post("/v1/check", `{"entity_id":"key-1","resource":"gpt-4"}`)
	if got.Code != http.StatusOK || len(got.Statuses) == 0 {
		s.Fatalf("check: %d %s", got.Code, got.Body)
	}
	return got.Statuses[0].Available
}

// document is the compiled document.
var document = sync.OnceValues(func() (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(httpapi.Document)) })

// schemaOf is the schema of a name of the document.
func schemaOf(name string) (*jsonschema.Schema, error) {
	d, err := document()
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("file:///openapi.json", d); err != nil {
		return nil, err
	}
	return c.Compile("file:///openapi.json#/components/schemas/" + name)
}

// schemas has the schemas of answers, compiled once.
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	all := map[string]*jsonschema.Schema{}
	for _, name := range []string{"Problem", "Decision", "BatchAnswer", "Settled", "Extended"} {
		schema, err := schemaOf(name)
		if err != nil {
			return nil, err
		}
		all[name] = schema
	}
	return all, nil
})

// fits checks an answer against the document.
func fits(path string, w *httptest.ResponseRecorder) error {
	all, err := schemas()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		return err
	}
	switch {
	case w.Header().Get("Content-Type") == "application/problem+json":
		return all["Problem"].Validate(value)
	case path == "/v1/leases/extend":
		return all["Extended"].Validate(value)
	case strings.HasPrefix(path, "/v1/leases/"):
		return all["Settled"].Validate(value)
	case path == "/v1/batch":
		return all["BatchAnswer"].Validate(value)
	default:
		return all["Decision"].Validate(value)
	}
}
