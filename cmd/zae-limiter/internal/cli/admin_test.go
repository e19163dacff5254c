package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A besideStep is a command, and the call of the service that does the same.
type besideStep struct {
	command    []string
	path, body string // "" is the command in both worlds
	key        string // Idempotency-Key of the call
	code       int    // of the call; 0 is 200, and the command succeeds
}

func words(line string) []string { return strings.Fields(line) }

// operator is who makes the changes of both worlds.
const operator = "ann@example.com"

// besides are all verbs of administration, each beside its command, in the order in which one world
// carries them out.
func besides(t *testing.T) []besideStep {
	t.Helper()
	manifest := []byte(`{"namespace":"default","name":"team","resources":{"embeddings":{"limits":{"rpm":{"capacity":7}}}}}`)
	file := filepath.Join(t.TempDir(), "limits.json")
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	of := func(line, path, body string) besideStep {
		return besideStep{command: words(line), path: path, body: body}
	}
	keyed := func(line, path, body, key string) besideStep {
		return besideStep{command: append(words(line), "--idempotency-key", key), path: path, body: body, key: key}
	}
	refused := func(line, path, body string, code int) besideStep {
		return besideStep{command: words(line), path: path, body: body, code: code}
	}
	return []besideStep{
		{command: words("table create")},
		of("resource list", "resource/list", `{}`),
		of("entity list", "entity/list", `{}`),
		of("top gpt-4", "top", `{"resource":"gpt-4"}`),
		of("usage list --resource gpt-4", "usage/list", `{"resource":"gpt-4"}`),
		of("audit list --entity key-1", "audit/list", `{"entity_id":"key-1"}`),
		refused("system get-defaults", "system/get-defaults", `{}`, http.StatusNotFound),

		of("system set-defaults --limit rpm:100 --limit tpm:5000 --on-unavailable allow", "system/set-defaults",
			`{"limits":[{"limit":"rpm:100"},{"limit_name":"tpm","capacity":5000,"refill_amount":5000,"refill_period_seconds":60}],"on_unavailable":"allow"}`),
		of("system set-defaults --on-unavailable block", "system/set-defaults", `{"on_unavailable":"block"}`),
		of("system get-defaults", "system/get-defaults", `{}`),
		of("resource set-defaults gpt-4 --limit rpm:60:shadow=80% --dry-run", "resource/set-defaults", `{"resource":"gpt-4","limits":[{"limit":"rpm:60:shadow=80%"}],"dry_run":true}`),
		of("resource set-defaults gpt-4 --limit rpm:60 --keep-defaults", "resource/set-defaults", `{"resource":"gpt-4","limits":[{"limit":"rpm:60"}],"keep_defaults":true}`),
		of("resource get-defaults gpt-4", "resource/get-defaults", `{"resource":"gpt-4"}`),
		of("resource list", "resource/list", `{}`),
		of("entity create acme --display-name ACME --metadata tier=gold", "entity/create", `{"entity_id":"acme","name":"ACME","metadata":{"tier":"gold"}}`),
		of("entity create key-1 --parent acme --cascade", "entity/create", `{"entity_id":"key-1","parent_id":"acme","cascade":true}`),
		refused("entity create key-1", "entity/create", `{"entity_id":"key-1"}`, http.StatusConflict),
		of("entity get key-1", "entity/get", `{"entity_id":"key-1"}`),
		refused("entity get nobody", "entity/get", `{"entity_id":"nobody"}`, http.StatusNotFound),
		of("entity list --max 1", "entity/list", `{"max":1}`),
		of("entity list --prefix key", "entity/list", `{"prefix":"key"}`),
		of("entity children acme", "entity/children", `{"entity_id":"acme"}`),
		of("entity children key-1", "entity/children", `{"entity_id":"key-1"}`),
		{command: words("acquire key-1 gpt-4 --consume rpm=7,tpm=100")},

		of("entity set-limits key-1 --resource gpt-4 --limit rpm:30 --limit rpd:1000@day@Europe/Berlin", "entity/set-limits",
			`{"entity_id":"key-1","resource":"gpt-4","limits":[{"limit":"rpm:30"},{"limit_name":"rpd","capacity":1000,"renews":"day","zone":"Europe/Berlin"}]}`),
		of("entity set-limits key-1 --limit rpm:20", "entity/set-limits", `{"entity_id":"key-1","limits":[{"limit":"rpm:20"}]}`),
		of("entity get-limits key-1 --resource gpt-4", "entity/get-limits", `{"entity_id":"key-1","resource":"gpt-4"}`),
		of("entity list-resources key-1", "entity/list-resources", `{"entity_id":"key-1"}`),
		of("entity delete-limits key-1 --dry-run", "entity/delete-limits", `{"entity_id":"key-1","dry_run":true}`),
		of("entity delete-limits key-1 --yes", "entity/delete-limits", `{"entity_id":"key-1"}`),
		of("standing key-1 gpt-4", "standing", `{"entity_id":"key-1","resource":"gpt-4"}`),
		of("slots key-1 gpt-4", "slots", `{"entity_id":"key-1","resource":"gpt-4"}`),

		of("entity disable key-1 --until 2h --dry-run", "entity/disable", `{"entity_id":"key-1","until":"2h","dry_run":true}`),
		keyed("entity disable key-1 --until 2h --reason abuse", "entity/disable", `{"entity_id":"key-1","until":"2h","reason":"abuse"}`, "ticket-1"),
		of("standing key-1 gpt-4", "standing", `{"entity_id":"key-1","resource":"gpt-4"}`),
		of("entity clear key-1 --reason over", "entity/clear", `{"entity_id":"key-1","reason":"over"}`),
		keyed("entity disable key-1 --until 2h --reason abuse", "entity/disable", `{"entity_id":"key-1","until":"2h","reason":"abuse"}`, "ticket-1"),
		{command: words("entity enable key-1 --idempotency-key ticket-1"), path: "entity/enable", body: `{"entity_id":"key-1"}`, key: "ticket-1", code: http.StatusConflict},
		of("entity enable key-1 --resource gpt-4", "entity/enable", `{"entity_id":"key-1","resource":"gpt-4"}`),
		of("entity bypass key-1", "entity/bypass", `{"entity_id":"key-1"}`),
		of("entity clear key-1 --resource gpt-4", "entity/clear", `{"entity_id":"key-1","resource":"gpt-4"}`),
		of("entity clear key-1", "entity/clear", `{"entity_id":"key-1"}`),
		of("resource disable gpt-4 --until 2030-01-01", "resource/disable", `{"resource":"gpt-4","until":"2030-01-01"}`),
		of("resource enable gpt-4", "resource/enable", `{"resource":"gpt-4"}`),
		of("resource bypass gpt-4 --until friday", "resource/bypass", `{"resource":"gpt-4","until":"friday"}`),
		of("resource get-defaults gpt-4", "resource/get-defaults", `{"resource":"gpt-4"}`),
		of("resource clear gpt-4", "resource/clear", `{"resource":"gpt-4"}`),
		keyed("entity raise key-1 --resource gpt-4 --limit rpm:x2 --until 3d --reason launch", "entity/raise",
			`{"entity_id":"key-1","resource":"gpt-4","factors":{"rpm":2},"until":"3d","reason":"launch"}`, "ticket-2"),
		keyed("entity raise key-1 --resource gpt-4 --limit rpm:x2 --until 3d --reason launch", "entity/raise",
			`{"entity_id":"key-1","resource":"gpt-4","factors":{"rpm":2},"until":"3d","reason":"launch"}`, "ticket-2"),
		of("resource raise gpt-4 --limit rpm:x1.5,tpm:x0.5 --until 1h", "resource/raise", `{"resource":"gpt-4","factors":{"rpm":1.5,"tpm":0.5},"until":"1h"}`),
		of("entity set-cascade key-1 off", "entity/set-cascade", `{"entity_id":"key-1","policy":"off"}`),
		of("entity set-cascade key-1 clear --dry-run", "entity/set-cascade", `{"entity_id":"key-1","policy":"clear","dry_run":true}`),
		of("entity set-cascade key-1 clear", "entity/set-cascade", `{"entity_id":"key-1","policy":"clear"}`),
		of("resource set-cascade gpt-4 on", "resource/set-cascade", `{"resource":"gpt-4","policy":"on"}`),
		of("entity set-slots key-1 --slots inflight:4 --reason load", "entity/set-slots", `{"entity_id":"key-1","slots":{"inflight":4},"reason":"load"}`),
		of("resource set-slots gpt-4 --slots inflight:20", "resource/set-slots", `{"resource":"gpt-4","slots":{"inflight":20}}`),
		of("system set-slots --slots inflight:2", "system/set-slots", `{"slots":{"inflight":2}}`),
		of("slots key-1 gpt-4", "slots", `{"entity_id":"key-1","resource":"gpt-4"}`),
		of("entity set-slots key-1 --none", "entity/set-slots", `{"entity_id":"key-1","slots":{}}`),
		of("entity reset key-1 --resource gpt-4 --limit rpm --dry-run", "entity/reset", `{"entity_id":"key-1","resource":"gpt-4","limit_names":["rpm"],"dry_run":true}`),
		keyed("entity reset key-1 --resource gpt-4", "entity/reset", `{"entity_id":"key-1","resource":"gpt-4"}`, "ticket-3"),
		keyed("entity reset key-1 --resource gpt-4", "entity/reset", `{"entity_id":"key-1","resource":"gpt-4"}`, "ticket-3"),
		keyed("entity top-up key-1 --resource gpt-4 --limit rpd=500 --reason order", "entity/top-up", `{"entity_id":"key-1","resource":"gpt-4","amounts":{"rpd":500},"reason":"order"}`, "order-7"),
		{command: words("acquire key-1 gpt-4 --consume rpm=3,rpd=900")},
		of("top gpt-4", "top", `{"resource":"gpt-4"}`),
		of("top --all-resources --above 50 --without-parent", "top", `{"all_resources":true,"above":50,"without_parent":true}`),
		of("top gpt-4 --slots", "top", `{"resource":"gpt-4","slots":true}`),
		of("top gpt-4 --shadow", "top", `{"resource":"gpt-4","shadow":true}`),
		of("usage list --entity key-1", "usage/list", `{"entity_id":"key-1"}`),
		of("usage list --entity key-1 --window daily --now --max 1", "usage/list", `{"entity_id":"key-1","window":"daily","now":true,"max":1}`),
		of("usage list --entity key-1 --end 1999-01-01", "usage/list", `{"entity_id":"key-1","end":"1999-01-01"}`),
		of("usage summary --entity key-1 --resource gpt-4", "usage/summary", `{"entity_id":"key-1","resource":"gpt-4"}`),
		of("entity set-parent key-1 --none --dry-run", "entity/set-parent", `{"entity_id":"key-1","none":true,"dry_run":true}`),
		of("entity set-parent key-1 --none --reason merger", "entity/set-parent", `{"entity_id":"key-1","none":true,"reason":"merger"}`),
		of("entity set-parent key-1 --parent acme", "entity/set-parent", `{"entity_id":"key-1","parent_id":"acme"}`),
		of("limits plan -f "+file, "limits/plan", `{"manifest":`+string(manifest)+`}`),
		of("limits apply --yes -f "+file, "limits/apply", `{"manifest":`+string(manifest)+`}`),
		of("limits plan --prune -f "+file, "limits/plan", `{"manifest":`+string(manifest)+`,"prune":true}`),
		of("limits export --manifest team", "limits/export", `{"manifest":"team"}`),
		of("resource delete-defaults gpt-4 --dry-run", "resource/delete-defaults", `{"resource":"gpt-4","dry_run":true}`),
		of("resource delete-defaults gpt-4 --yes", "resource/delete-defaults", `{"resource":"gpt-4"}`),
		of("system delete-defaults --yes", "system/delete-defaults", `{}`),
		of("entity delete key-1 --yes", "entity/delete", `{"entity_id":"key-1"}`),
		of("audit list --entity key-1 --max 1000", "audit/list", `{"entity_id":"key-1","max":1000}`),
		of("audit list --resource gpt-4 --action limits_set", "audit/list", `{"resource":"gpt-4","action":"limits_set"}`),
		of("audit list --system", "audit/list", `{"system":true}`),

		of("table show", "table/show", `{}`),
		of("table enable-stream", "table/enable-stream", `{}`),
		of("table enable-stream", "table/enable-stream", `{}`),
		of("backup list", "backup/list", `{}`),
		of("backup create before-upgrade", "backup/create", `{"backup_name":"before-upgrade"}`),
		of("backup list", "backup/list", `{}`),
		of("backup delete "+anARN+" --yes", "backup/delete", `{"backup_arn":"`+anARN+`"}`),
		refused("backup delete "+anARN+" --yes", "backup/delete", `{"backup_arn":"`+anARN+`"}`, http.StatusNotFound),
		refused("backup delete nothing --yes", "backup/delete", `{"backup_arn":"nothing"}`, http.StatusBadRequest),
		of("namespace register team-a team-b", "namespace/register", `{"namespaces":["team-a","team-b"]}`),
		of("namespace list", "namespace/list", `{}`),
		of("namespace orphans", "namespace/orphans", `{}`),
		of("namespace show team-a", "namespace/show", `{"namespace":"team-a"}`),
		refused("namespace show nobody", "namespace/show", `{"namespace":"nobody"}`, http.StatusNotFound),
		of("namespace delete team-a --yes", "namespace/delete", `{"namespace":"team-a"}`),
		of("namespace orphans", "namespace/orphans", `{}`),
		of("namespace recover "+theID+" --as team-c", "namespace/recover", `{"namespace_id":"`+theID+`","as":"team-c"}`),
		refused("namespace purge "+theID+" --yes", "namespace/purge", `{"namespace_id":"`+theID+`"}`, http.StatusConflict),
		of("namespace delete team-c --yes", "namespace/delete", `{"namespace":"team-c"}`),
		of("namespace purge "+theID+" --yes --force", "namespace/purge", `{"namespace_id":"`+theID+`","force":true}`),
		of("namespace list", "namespace/list", `{}`),
		{command: words("audit list --namespace-name team-a")},
		{command: words("audit list --namespace-name team-c")},
		of("audit list --entity key-1 --action unheard_of", "audit/list", `{"entity_id":"key-1","action":"unheard_of"}`),
	}
}

// The ID of the namespace that was deleted last, in each world its own, and the ARN of the only backup.
const (
	theID = "THE-ID"
	anARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/zae-limiter/backup/0"
)

// A besideWorld is a table that commands or calls change.
type besideWorld struct {
	*testing.T

	engine  *dynamolite.DB
	vault   *vault
	handler http.Handler // nil: commands do everything
	id      string       // of the namespace that was deleted last
}

// api is the database of the world, with backups.
func (w *besideWorld) api() dynamo.API {
	return &managed{dynamo.NewMeter(w.engine), tables{w.engine}, w.vault, w.engine}
}

func (w *besideWorld) command(s *besideStep) any {
	w.Helper()
	args := words(strings.ReplaceAll(strings.Join(s.command, " "), theID, w.id))
	args = append(args, "--output", "json")
	if isChange(s.path) && !strings.HasPrefix(s.path, "table/") && !strings.HasPrefix(s.path, "backup/") { // those have no audit events
		args = append(args, "--principal", operator)
	}
	var stdout, stderr bytes.Buffer
	code := cli.Run(w.Context(), cli.Options{
		Args: args, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return w.api(), nil },
	})
	if (code == 0) != (s.code == 0) {
		w.Fatalf("%v: exit code %d: %s", args, code, &stderr)
	}
	if code != 0 {
		return nil
	}
	return w.document(args, stdout.Bytes())
}

// isChange reports whether the call of a path makes a change.
func isChange(path string) bool {
	i := slices.IndexFunc(httpapi.Routes(), func(r httpapi.Route) bool { return r.Path == "/v1/admin/"+path })
	return i >= 0 && !httpapi.Routes()[i].IsRead
}

// document is the value of a JSON text, without what is random.
func (w *besideWorld) document(of any, text []byte) any {
	w.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		w.Fatalf("%v: %v: %s", of, err, text)
	}
	if page, ok := v.(map[string]any); ok {
		if id, ok := page["namespace_id"].(string); ok && len(page) == len([]string{"namespace", "namespace_id"}) { // deleted
			w.id = id
		}
		withoutChance(page)
		events, _ := page["events"].([]any)
		for _, e := range events {
			delete(e.(map[string]any), "event_id")
		}
	}
	return v
}

// withoutChance deletes the IDs of namespaces, which are random, and sizes, which depend on such IDs.
func withoutChance(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "namespace_id")
		delete(v, "bytes")
		for _, inner := range v {
			withoutChance(inner)
		}
	case []any:
		for _, inner := range v {
			withoutChance(inner)
		}
	}
}

func (w *besideWorld) call(s *besideStep) any {
	w.Helper()
	r := httptest.NewRequestWithContext(httpapi.WithPrincipal(w.Context(), operator), http.MethodPost, "/v1/admin/"+s.path, strings.NewReader(strings.ReplaceAll(s.body, theID, w.id)))
	r.Header.Set("Content-Type", "application/json")
	if s.key != "" {
		r.Header.Set("Idempotency-Key", s.key)
	}
	a := httptest.NewRecorder()
	w.handler.ServeHTTP(a, r)
	want := http.StatusOK
	if s.code != 0 {
		want = s.code
	}
	if a.Code != want {
		w.Fatalf("%s %s: %d, want %d: %s", s.path, s.body, a.Code, want, a.Body)
	}
	if s.code != 0 {
		return nil
	}
	for part, text := range map[string][]byte{"requestBody": []byte(s.body), "responses/200": a.Body.Bytes()} {
		if err := fitsOperation(r.URL.Path, part, text); err != nil {
			w.Errorf("%s: %s: %v: %s", s.path, part, err, text)
		}
	}
	return w.document(s.path, a.Body.Bytes())
}

// serve opens the table for a service.
func (w *besideWorld) serve() {
	w.Helper()
	of := dynamo.Options{API: w.api(), Table: "zae-limiter"}
	s, err := dynamo.Open(w.Context(), of)
	if err != nil {
		w.Fatal(err)
	}
	l, err := limiter.New(s, limiter.Options{})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = l.Close() })
	log := slog.New(slog.DiscardHandler)
	w.handler = httpapi.New(httpapi.Options{Limiter: l, Policy: decide.Policy{}, Logger: log, Admin: &httpapi.Admin{Store: s, Limiter: l, Now: time.Now, Table: of}})
}

// Each call of administration is answered with the document that its command prints, and does the same
// to the table: its audit events are the same, by the same principal.
func TestAdministrationIsThatOfTheCommands(t *testing.T) {
	t.Parallel()
	steps := besides(t)
	documents := [2][]any{}
	for world := range documents {
		synctest.Test(t, func(t *testing.T) {
			w := &besideWorld{T: t, engine: dynamolite.New(dynamolite.Options{})}
			w.vault = newVault(w.engine, time.Now)
			defer w.engine.Close()
			for i := range steps {
				s := &steps[i]
				if s.path == "" || world == 0 {
					documents[world] = append(documents[world], w.command(s))
				} else {
					documents[world] = append(documents[world], w.call(s))
				}
				if i == 0 && world == 1 {
					w.serve()
				}
			}
		})
	}
	for i := range steps {
		if d := cmp.Diff(documents[0][i], documents[1][i]); d != "" {
			t.Errorf("%v (-command +call):\n%s", steps[i].command, d)
		}
	}
	for i := range httpapi.Routes() {
		r := &httpapi.Routes()[i]
		if r.IsAdmin && !slices.ContainsFunc(steps, func(s besideStep) bool { return "/v1/admin/"+s.path == r.Path && s.code == 0 }) {
			t.Errorf("%s has no step", r.Path)
		}
	}
}

// openapiValue is the description of the service's interface.
var openapiValue = sync.OnceValues(func() (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(httpapi.Document)) })

// fitsOperation checks the body or the answer of a path against the description.
func fitsOperation(path, part string, text []byte) error {
	document, err := openapiValue()
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("file:///openapi.json", document); err != nil {
		return err
	}
	schema, err := c.Compile("file:///openapi.json#/paths/" + strings.ReplaceAll(path, "/", "~1") + "/post/" + part + "/content/application~1json/schema")
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}
