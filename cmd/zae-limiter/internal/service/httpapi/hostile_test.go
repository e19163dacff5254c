package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
)

// A body that is no call is refused, and takes nothing. The answer names the field.
func TestWhatIsNoCall(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		const own = `"entity_id":"key-1","resource":"gpt-4"`
		for body, field := range map[string]string{
			`{` + own + `,"consume":{"rpm":1},"Consume":{"rpm":1}}`:                             "Consume",
			`{` + own + `,"consume":{"rpm":1},"hold":"10s"}`:                                    "hold",
			`{` + own + `,"consume":{"rpm":1,"rpm":2}}`:                                         "consume.rpm",
			`{` + own + `,"consume":{"rpm":1},"consume":{"rpm":1}}`:                             "consume",
			`{` + own + `,"consume":{"rpm":"1"}}`:                                               "consume.rpm",
			`{` + own + `,"consume":{"rpm":1.5}}`:                                               "consume.rpm",
			`{` + own + `,"consume":{"rpm":9223372036854775808}}`:                               "consume.rpm",
			`{` + own + `,"consume":{"rpm":9223372036854775807}}`:                               "consume.rpm",
			`{` + own + `,"consume":{"rpm":-1}}`:                                                "consume.rpm",
			`{` + own + `,"consume":{}}`:                                                        "consume",
			`{` + own + `,"consume":{"r p m":1}}`:                                               "consume",
			`{` + own + `,"consume":null}`:                                                      "consume",
			`{` + own + `}`:                                                                     "consume",
			`{"resource":"gpt-4","consume":{"rpm":1}}`:                                          "entity_id",
			`{"entity_id":"a b","resource":"gpt-4","consume":{"rpm":1}}`:                        "entity_id",
			`{"entity_id":"key-1","resource":"","consume":{"rpm":1}}`:                           "resource",
			`{` + own + `,"consume":{"rpm":1},"also":[{"resource":"gpt-4","consume":{"x":1}}]}`: "also",
			`[]`:                      "",
			`{}`:                      "entity_id",
			`null`:                    "entity_id",
			``:                        "",
			`{`:                       "",
			`{} {}`:                   "",
			"{\"entity_id\":\"\xff\"": "",
			strings.Repeat("[", 9000): "",
			`{"` + strings.Repeat("x", 9000) + `":1}`:             strings.Repeat("x", 64) + "…",
			`{"consume":{"` + strings.Repeat("x", 64) + `":"1"}}`: "consume." + strings.Repeat("x", 64),
		} {
			got := s.post("/v1/acquire", body)
			if got.Code != http.StatusBadRequest || got.Problem.Field != field || got.Problem.Detail == "" || got.Body.Len() > 2000 {
				s.Errorf("%.100s: %d, field %q, want %q: %.300s", body, got.Code, got.Problem.Field, field, got.Body)
			}
		}
		if left := s.left(); left != 7 {
			s.Errorf("%d left, want 7", left)
		}
	}, limiter.PerMinute("rpm", 7))
}

// Bodies are bounded. The largest call that is valid is not too large.
func TestBodiesAreBounded(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		for path, most := range map[string]int{"/v1/acquire": httpapi.MaxBody, "/v1/check": httpapi.MaxBody, "/v1/batch": httpapi.MaxBatchBody} {
			for size, want := range map[int]int{most: http.StatusBadRequest, most + 1: http.StatusRequestEntityTooLarge} {
				if got := s.post(path, strings.Repeat(" ", size)); got.Code != want {
					s.Errorf("%s, %d bytes: %d, want %d", path, size, got.Code, want)
				}
			}
		}
		consume := map[string]int64{}
		for i := range 2 * limiter.MaxLimits {
			consume[strings.Repeat("l", 60)+string(rune('a'+i/26))+string(rune('a'+i%26))] = limiter.MaxTokens
		}
		type part struct {
			Resource string           `json:"resource"`
			Consume  map[string]int64 `json:"consume"`
		}
		call := struct {
			Entity string `json:"entity_id"`
			part
			Also []part `json:"also"`
		}{strings.Repeat("e", 100), part{"r", consume}, nil}
		for i := range limiter.MaxResources - 1 {
			call.Also = append(call.Also, part{strings.Repeat("r", 60) + string(rune('a'+i)), consume})
		}
		body, err := json.Marshal(call)
		if err != nil {
			s.Fatal(err)
		}
		if got := s.post("/v1/acquire", string(body)); got.Code != http.StatusUnprocessableEntity {
			s.Errorf("the largest call, of %d bytes: %d %.300s", len(body), got.Code, got.Body)
		}
	}, limiter.PerMinute("rpm", 7))
}

// A call must say that it is JSON, and must not ask for what the service does not keep.
func TestHeadersOfACall(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		const call = `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1}}`
		for header, want := range map[[2]string]int{
			{"Content-Type", "application/json; charset=utf-8"}: http.StatusOK,
			{"Content-Type", "text/plain"}:                      http.StatusUnsupportedMediaType,
			{"Content-Type", ""}:                                http.StatusUnsupportedMediaType,
			{"Content-Encoding", "gzip"}:                        http.StatusUnsupportedMediaType,
			{"Idempotency-Key", "order-1"}:                      http.StatusBadRequest,
		} {
			got := s.post("/v1/acquire", call, header[0], header[1])
			if got.Code != want || want == http.StatusBadRequest && got.Problem.Field != header[0] {
				s.Errorf("%v: %d, want %d: %s", header, got.Code, want, got.Body)
			}
		}
		if left := s.left(); left != 6 {
			s.Errorf("%d left, want 6", left)
		}
	}, limiter.PerMinute("rpm", 7))
}

// Other paths and methods are problems, too.
func TestPathsAndMethods(t *testing.T) {
	inBubble(t, anHour, func(s *service) {
		for _, c := range []struct {
			method, path string
			want         int
			allow        string
		}{
			{http.MethodGet, "/v1/acquire", http.StatusMethodNotAllowed, http.MethodPost},
			{http.MethodPost, "/v1/openapi.json", http.StatusMethodNotAllowed, http.MethodGet},
			{http.MethodPost, "/v1/leases/x/settle", http.StatusNotFound, ""},
			{http.MethodGet, "/", http.StatusNotFound, ""},
		} {
			got := s.send(httptest.NewRequestWithContext(s.Context(), c.method, c.path, http.NoBody))
			if got.Code != c.want || got.Header().Get("Allow") != c.allow {
				s.Errorf("%s %s: %d %v", c.method, c.path, got.Code, got.Header())
			}
		}
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequestWithContext(s.Context(), http.MethodGet, "/v1/openapi.json", http.NoBody))
		if w.Code != http.StatusOK || w.Body.String() != string(httpapi.Document) {
			s.Errorf("the document: %d", w.Code)
		}
	})
}

// The schemas of calls refuse what the service refuses, and take what it takes.
func TestTheSchemaOfACall(t *testing.T) {
	t.Parallel()
	schema, err := schemaOf("Call")
	if err != nil {
		t.Fatal(err)
	}
	for body, valid := range map[string]bool{
		`{"entity_id":"a","resource":"b","consume":{"rpm":1},"also":[{"resource":"c","consume":{"rpm":1}}],"wait_ms":1,"dry_run":false}`: true,
		`{"entity_id":"a","resource":"b","consume":{"rpm":1.5}}`:                                                                         false,
		`{"entity_id":"a","resource":"b","hold":1}`:                                                                                      false,
		`{"resource":"b","consume":{}}`:                                                                                                  false,
	} {
		var value any
		if err := json.Unmarshal([]byte(body), &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != valid {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// A problem quotes at most 64 characters of what a client has sent, whatever stands in them.
func TestQuotationsAreCut(t *testing.T) {
	inOffice(t, func(s *service) {
		for tokens, want := range map[string]string{
			strings.Repeat("x", 64):       `"` + strings.Repeat("x", 64) + `"`,
			strings.Repeat("x", 65):       `"` + strings.Repeat("x", 50) + `…"`,
			strings.Repeat("\\u00e9", 65): `"` + strings.Repeat("é", 50) + `…"`,
			strings.Repeat(`\"`, 65):      `"` + strings.Repeat(`\"`, 50) + `…"`,
		} {
			got := s.admin("resource/set-defaults", `{"resource":"gpt-4","limits":[{"limit":"rpm:`+tokens+`"}]}`)
			if got.Code != http.StatusBadRequest || !strings.Contains(got.Detail, "rate "+want+": give a whole number") {
				s.Errorf("%s: %d %s", tokens, got.Code, got.Detail)
			}
		}
	})
}
