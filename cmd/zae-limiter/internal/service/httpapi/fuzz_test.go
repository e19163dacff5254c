package httpapi_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/net/http/httpguts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// samples are values of the fields of bodies, by their names.
var samples = map[string]string{
	"entity_id": `"key-1"`, "resource": `"gpt-4"`, "consume": `{"rpm":1}`, "also": `[{"resource":"tools","consume":{"rpm":1}}]`, "wait_ms": `0`, "dry_run": `false`,
	"lease_ms": `60000`, "calls": `[{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1}},7]`, "lease": `"$"`, "limits": `[{"limit":"rpm:7/min"},{"limit":"tpm:9@day"}]`,
	"keep_defaults": `true`, "on_unavailable": `"allow"`, "until": `"2h"`, "reason": `"a reason"`, "factors": `{"rpm":2.5}`, "policy": `"on"`, "slots": `{"inflight":2}`,
	"name": `"Key 1"`, "parent_id": `"team-1"`, "cascade": `true`, "metadata": `{"a":"b"}`, "none": `true`, "max": `5`, "prefix": `"k"`, "cursor": `"AA"`,
	"limit_names": `["rpm"]`, "amounts": `{"rpm":3}`, "all_resources": `true`, "above": `50.5`, "without_parent": `true`, "shadow": `true`, "window": `"daily"`,
	"start": `"2026-01-01"`, "end": `"2026-01-02T03:04:05Z"`, "now": `true`, "system": `true`, "action": `"limits_set"`, "manifest": `{"system":{"limits":{"rpm":{"capacity":7}}}}`,
	"prune": `true`, "namespace": `"team-a"`, "namespaces": `["team-a","team-b"]`, "namespace_id": `"AAAAAAAAAAA"`, "as": `"team-c"`, "force": `true`,
	"backup_name": `"before-upgrade"`, "backup_arn": `"arn:aws:dynamodb:eu-west-1:123456789012:table/limits/backup/0"`,
}

// posts are the paths that take a body.
func posts() (paths []string) {
	for _, r := range httpapi.Routes() {
		if r.Method == http.MethodPost {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// fieldsOf are the fields of the body of a path, by the document.
func fieldsOf(tb testing.TB, path string) []string {
	tb.Helper()
	type schema struct {
		Ref        string                     `json:"$ref"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Body struct {
				Content map[string]struct {
					Schema schema `json:"schema"`
				} `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(httpapi.Document, &doc); err != nil {
		tb.Fatal(err)
	}
	of := doc.Paths[path]["post"].Body.Content["application/json"].Schema
	if of.Ref != "" {
		of = doc.Components.Schemas[strings.TrimPrefix(of.Ref, "#/components/schemas/")]
	}
	return slices.Sorted(maps.Keys(of.Properties))
}

// fuzzed is a service with administration and keys of leases for a fuzz target, and a lease.
func fuzzed(t *testing.T) (s *service, lease string) {
	t.Helper()
	s = &service{T: t, limits: limitertest.New(t, limiter.PerMinute("rpm", 7))}
	keyed := s.limits.NewLimiter(limiter.Options{TokenKeys: [][]byte{[]byte(strings.Repeat("key", 12))}})
	s.handler = httpapi.New(httpapi.Options{
		Limiter: keyed, Logger: slog.New(slog.DiscardHandler), Policy: decide.Policy{MaxWait: time.Millisecond},
		Admin: &httpapi.Admin{Store: s.limits.Store, Limiter: keyed, Now: time.Now},
	})
	return s, s.acquire(1, `,"lease_ms":60000`).Lease
}

// sent sends a request, and checks what any answer is: no error of the service, and a problem unless the code is
// 200. A call that is not valid gets no lease back that it has sent.
func (s *service) sent(path, body, lease string, header http.Header) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequestWithContext(httpapi.WithPrincipal(s.Context(), "ann"), http.MethodPost, path, strings.NewReader(body))
	r.Header = header
	got := httptest.NewRecorder()
	s.handler.ServeHTTP(got, r)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(got.Body.Bytes()))
	if err != nil || got.Code >= http.StatusInternalServerError {
		s.Fatalf("%s: %d, %v: %s", path, got.Code, err, got.Body)
	}
	for name, fields := range got.Header() {
		for _, field := range fields {
			if !httpguts.ValidHeaderFieldValue(field) {
				s.Errorf("%s: %s: %q", path, name, field)
			}
		}
	}
	if got.Code == http.StatusOK {
		return got
	}
	all, err := schemas()
	if err != nil {
		s.Fatal(err)
	}
	const longest = 64 << 10
	if err := all["Problem"].Validate(value); err != nil || got.Body.Len() > longest {
		s.Errorf("%s: %d bytes, %v: %.2000s", path, got.Body.Len(), err, got.Body)
	}
	if got.Code == http.StatusBadRequest && strings.Contains(got.Body.String(), lease) {
		s.Errorf("%s: the answer has the lease: %s", path, got.Body)
	}
	return got
}

// FuzzCall sends any body to any path, with a true lease in place of "$".
func FuzzCall(f *testing.F) {
	for i, path := range posts() {
		var all []string
		for _, name := range fieldsOf(f, path) {
			sample, ok := samples[name]
			if !ok {
				f.Fatalf("%s: no sample of %s", path, name)
			}
			all = append(all, `"`+name+`":`+sample)
		}
		whole := "{" + strings.Join(all, ",") + "}"
		f.Add(uint8(i), whole) //nolint:gosec // there are fewer
		f.Add(uint8(i), "{}")  //nolint:gosec // there are fewer
	}
	f.Add(uint8(slices.Index(posts(), "/v1/admin/resource/set-defaults")), `{"limits":[{"limit":"rpm:$0000"}],"resource":"A"}`) //nolint:gosec // there are fewer
	call := `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1}}`
	for _, seed := range []string{`{"$":1}`, "null", "[", "\xff", strings.Repeat("[", 9000), strings.Replace(call, "1}", "1e999}", 1), strings.Replace(call, `"k`, `"\ud800k`, 1)} {
		f.Add(uint8(0), seed)
	}
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		s, lease := fuzzed(t)
		paths := posts()
		path := paths[int(which)%len(paths)]
		got := s.sent(path, strings.ReplaceAll(body, "$", lease), lease, http.Header{"Content-Type": {"application/json"}})
		if strings.HasPrefix(path, "/v1/admin/") {
			return
		}
		if err := fits(path, got); err != nil {
			t.Errorf("%s: %v: %s", path, err, got.Body)
		}
	})
}

// FuzzHeader sends valid bodies with any fields of the header.
func FuzzHeader(f *testing.F) {
	for _, path := range []uint8{0, 1, 2, 3, 4} {
		f.Add(path, "application/json", "", "", "")
		f.Add(path, "application/json; charset=utf-8", "order-1", "", "*")
		f.Add(path, "text/plain", `"a"`, `"x", W/"y", *`, "")
		f.Add(path, "application/json;=", `"`, `"`, `*, *`)
	}
	bodies := []struct{ path, body string }{
		{"/v1/acquire", `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1}}`},
		{"/v1/leases/settle", `{"lease":"$","consume":{"rpm":1}}`},
		{"/v1/admin/entity/set-limits", `{"entity_id":"key-1","resource":"gpt-4","limits":[{"limit":"rpm:9"}]}`},
		{"/v1/admin/entity/disable", `{"entity_id":"key-1","resource":"gpt-4"}`},
		{"/v1/admin/entity/get-limits", `{"entity_id":"key-1","resource":"gpt-4"}`},
	}
	f.Fuzz(func(t *testing.T, which uint8, form, key, match, none string) {
		header := http.Header{}
		for name, field := range map[string]string{"Content-Type": form, "Idempotency-Key": key, "If-Match": match, "If-None-Match": none} {
			if !httpguts.ValidHeaderFieldValue(field) {
				return // the server of HTTP refuses it
			}
			if field != "" {
				header[name] = []string{strings.TrimSpace(field)}
			}
		}
		s, lease := fuzzed(t)
		b := bodies[int(which)%len(bodies)]
		got := s.sent(b.path, strings.ReplaceAll(b.body, "$", lease), lease, header)
		media, _, _ := strings.Cut(form, ";")
		if isJSON := strings.EqualFold(strings.TrimSpace(media), "application/json"); got.Code == http.StatusOK && !isJSON {
			t.Errorf("%q is served: %s", form, got.Body)
		}
		if got.Code == http.StatusOK && key != "" && b.path == "/v1/acquire" {
			t.Errorf("the key %q is ignored", key)
		}
	})
}
