package cli_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
)

// openapiFile is served by the service.
const openapiFile = "../service/httpapi/openapi.json"

// The description of the service's interface is made of the types that it decodes and encodes, as
// the schemas of the commands are.
func TestTheOpenAPIDocumentIsThatOfTheTypes(t *testing.T) {
	t.Parallel()
	document, problems, err := openapi()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
	want, err := encode(document)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(openapiFile, want, 0o644); err != nil { //nolint:gosec // a document of the repository
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(openapiFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s is stale: run go test ./cmd/zae-limiter/internal/cli -run TestTheOpenAPI -update\n%s", openapiFile, d)
	}
}

// openapi describes the routes.
func openapi() (document map[string]any, problems []string, err error) {
	m, err := newSchemaMaker()
	if err != nil {
		return nil, nil, err
	}
	failure := map[string]any{"schema": m.of(reflect.TypeFor[httpapi.Problem]())}
	paths := map[string]any{}
	for _, route := range httpapi.Routes() {
		operation := map[string]any{"operationId": route.Name, "summary": route.Summary, "description": route.About}
		answers := map[string]any{}
		if route.In != nil {
			body := m.of
			if route.IsAdmin {
				body = m.body
			}
			operation["requestBody"] = map[string]any{
				"required": true, "content": map[string]any{"application/json": map[string]any{"schema": body(route.In)}},
			}
		}
		if fields := headerFields(&route); len(fields) > 0 {
			operation["parameters"] = fields
		}
		ok := map[string]any{"description": "the answer"}
		answers["200"] = ok
		form := map[string]any{"schema": map[string]any{"type": "object"}}
		if route.Out != nil && route.Out != reflect.TypeFor[*manifest.Manifest]() {
			form["schema"] = m.of(route.Out)
		}
		ok["content"] = map[string]any{"application/json": form}
		for _, code := range route.Problems {
			answer := map[string]any{"description": http.StatusText(code), "content": map[string]any{"application/problem+json": failure}}
			if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
				answer["headers"] = map[string]any{"Retry-After": map[string]any{
					"description": "seconds until the call is admitted, rounded up; missing if no wait helps", "schema": map[string]any{"type": "integer"},
				}}
			}
			answers[strconv.Itoa(code)] = answer
		}
		operation["responses"] = answers
		paths[route.Path] = map[string]any{strings.ToLower(route.Method): operation}
	}
	m.checkShortNames()
	for _, in := range []string{"manage.LimitToSet", "decide.Call", "decide.Question", "decide.Part", "httpapi.Batch"} {
		closeObjects(m.defs[in]) // other fields are refused
	}
	document = map[string]any{
		"openapi":    "3.1.1",
		"info":       map[string]any{"title": "zae-limiter", "version": "1", "description": "Decisions of a distributed rate limiter. A field that an answer has and this document does not may come with any version."},
		"paths":      paths,
		"components": map[string]any{"schemas": m.defs, "securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}}},
		"security":   []any{map[string]any{}, map[string]any{"token": []any{}}},
	}
	return unpackaged(document).(map[string]any), m.bad, nil
}

// body is the schema of the body of a call of administration, which takes no other fields.
func (m *schemaMaker) body(t reflect.Type) map[string]any {
	schema := m.object(m.properties(t))
	schema["additionalProperties"] = false
	return schema
}

// headerFields are the fields of the header that an operation takes.
func headerFields(route *httpapi.Route) (fields []any) {
	field := func(name, about string) {
		fields = append(fields, map[string]any{"name": name, "in": "header", "description": about, "schema": map[string]any{"type": "string"}})
	}
	if route.IsKeyed {
		field("Idempotency-Key", "key with which the change happens once: up to 64 letters, digits, \".\", \"_\", \":\" and \"-\"")
	}
	if route.IsConditional {
		field("If-Match", "tag that ETag told when the level was read, which must still be its tag")
		field("If-None-Match", "*: the level must have nothing")
	}
	return fields
}

// checkShortNames reports types that have one name without their packages.
func (m *schemaMaker) checkShortNames() {
	seen := map[string]string{}
	for name := range m.defs {
		short := name[strings.LastIndex(name, ".")+1:]
		if other := seen[short]; other != "" {
			m.bad = append(m.bad, name+" and "+other+" have one name in the document")
		}
		seen[short] = name
	}
}

// unpackaged names the schemas without their packages, as generated clients are to name the types.
func unpackaged(v any) any {
	name := func(s string) string { return s[strings.LastIndex(s, ".")+1:] }
	switch v := v.(type) {
	case map[string]any:
		short := map[string]any{}
		for key, value := range v {
			if ref, ok := value.(string); ok && key == "$ref" {
				value = "#/components/schemas/" + name(ref)
			}
			if key == "schemas" {
				named := map[string]any{}
				for of, schema := range value.(map[string]any) {
					named[name(of)] = schema
				}
				value = named
			}
			short[key] = unpackaged(value)
		}
		return short
	case []any:
		all := slices.Clone(v)
		for i := range all {
			all[i] = unpackaged(all[i])
		}
		return all
	}
	return v
}

// apiPage is the page with all calls of the service.
const apiPage = repository + "/docs/service-api.md"

// The page of the calls is made of the description that the service serves.
func TestReferenceOfTheService(t *testing.T) {
	t.Parallel()
	var document map[string]any
	if err := json.Unmarshal(httpapi.Document, &document); err != nil {
		t.Fatal(err)
	}
	want := apiReference(document)
	if *update {
		if err := os.WriteFile(apiPage, []byte(want), 0o644); err != nil { //nolint:gosec // a document of the repository
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("%s is stale: run go test ./cmd/zae-limiter/internal/cli -run TestReference -update\n%s", apiPage, d)
	}
}

// apiReference writes the page of the calls.
func apiReference(document map[string]any) string {
	var w strings.Builder
	w.WriteString("# Calls of the service\n\n" +
		"This page is for authors of clients. It is made of the [description in OpenAPI](service.md#the-calls) that the service serves. Each call\n" +
		"has the fields of its body and of its answer. [Decisions](service.md) and [administration](administration.md) have pages\n" +
		"that say what the calls mean. A field that is *needed* cannot be left out.\n")
	schemas := document["components"].(map[string]any)["schemas"].(map[string]any)
	for i := range httpapi.Routes() {
		route := &httpapi.Routes()[i]
		operation := document["paths"].(map[string]any)[route.Path].(map[string]any)[strings.ToLower(route.Method)].(map[string]any)
		w.WriteString("\n## " + route.Method + " " + route.Path + "\n\n" + operation["summary"].(string) + ". " + operation["description"].(string) + "\n")
		roles := "caller, operator"
		switch {
		case route.IsAdmin && route.IsRead:
			roles = "reader, operator"
		case route.IsAdmin:
			roles = "operator"
		case route.IsRead:
			roles = "reader, caller, operator"
		}
		if route.IsTable {
			roles += ", for all namespaces"
		}
		w.WriteString("\n| | |\n|---|---|\n| roles | " + roles + " |\n")
		fields, _ := operation["parameters"].([]any)
		for _, f := range fields {
			of := f.(map[string]any)
			w.WriteString("| `" + of["name"].(string) + "` | " + of["description"].(string) + " |\n")
		}
		var codes []string
		for code := range operation["responses"].(map[string]any) {
			codes = append(codes, code)
		}
		slices.Sort(codes)
		w.WriteString("| answers | " + strings.Join(codes, ", ") + " |\n")
		if body, ok := operation["requestBody"].(map[string]any); ok {
			fieldTable(&w, "field of the body", body, schemas)
		}
		fieldTable(&w, "field of the answer", operation["responses"].(map[string]any)["200"].(map[string]any), schemas)
	}
	return w.String()
}

// fieldTable writes the fields of a JSON object, if it has any that are known.
func fieldTable(w *strings.Builder, title string, of, schemas map[string]any) {
	schema := resolved(of["content"].(map[string]any)["application/json"].(map[string]any)["schema"], schemas)
	properties, _ := schema["properties"].(map[string]any)
	if len(properties) == 0 {
		return
	}
	needed, _ := schema["required"].([]any)
	w.WriteString("\n| " + title + " | type | is |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property := properties[name].(map[string]any)
		text, _ := property["description"].(string)
		if strings.HasSuffix(title, "body") && slices.Contains(needed, any(name)) {
			text = "needed: " + text
		}
		w.WriteString("| `" + name + "` | " + typeText(property) + " | " + strings.ReplaceAll(text, "|", "\\|") + " |\n")
	}
}

// resolved is a schema, or the one that it refers to.
func resolved(schema any, schemas map[string]any) map[string]any {
	of := schema.(map[string]any)
	if ref, ok := of["$ref"].(string); ok {
		return schemas[ref[strings.LastIndex(ref, "/")+1:]].(map[string]any)
	}
	return of
}

// typeText names the type of a field.
func typeText(schema map[string]any) string {
	if ref, ok := schema["$ref"].(string); ok {
		return ref[strings.LastIndex(ref, "/")+1:]
	}
	if choices, ok := schema["anyOf"].([]any); ok {
		return typeText(choices[0].(map[string]any)) + " or null"
	}
	switch is, _ := schema["type"].(string); is {
	case "array":
		return "list of " + typeText(schema["items"].(map[string]any))
	case "object":
		if values, ok := schema["additionalProperties"].(map[string]any); ok {
			return typeText(values) + " by name"
		}
		return is
	case "":
		return "any"
	default:
		return is
	}
}
