package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// storage is an S3 server with an archive of a few events.
func storage(t *testing.T) *s3test.Server {
	t.Helper()
	s := s3test.New(t, "trail")
	names := map[string]string{"ns1": "default", "ns2": "team/b"}
	a, err := archive.Open(t.Context(), archive.Options{
		API: s.Client(), Location: archive.Location{Bucket: "trail", Prefix: "limits"},
		NameOf: func(_ context.Context, id string) (string, error) { return names[id], nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for day := range 3 {
		at := time.Date(2026, 1, 1+day, 3, 4, 5, 0, time.UTC)
		var events []audit.TrailEvent
		for i, ns := range []string{"ns1", "ns2", "ns1", "_"} {
			e := audit.TrailEvent{NamespaceID: ns, Event: audit.Event{
				ID: fmt.Sprintf("01KDX8W8P80000000000000%d%d0", day, i), Time: at, Action: "limits_set", Entity: "key-1", Principal: "jo",
				Resource: "gpt-4", Details: map[string]any{"limits": []any{int64(i)}}, Expires: at.AddDate(0, 0, 90),
			}}
			switch i {
			case 2:
				e.Action, e.Entity, e.Principal, e.Resource = "entity_created", "key-2", "ann\x1b[1m", ""
			case 3:
				e.Action, e.Entity, e.Principal, e.Resource = "namespace_registered", "$NAMESPACE:team/b", "", ""
			}
			events = append(events, e)
		}
		if _, err := a.Put(t.Context(), at, events); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// search runs audit search on an S3 server.
func search(t *testing.T, s *s3test.Server, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), cli.Options{
		Args:  append([]string{"audit", "search", "--from-archive", "s3://trail/limits"}, args...),
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" },
		ConnectArchive: func(context.Context, app.Endpoint) (archive.API, error) { return s.Client(), nil },
	})
	return code, out.String(), errs.String()
}

func TestAuditSearch(t *testing.T) {
	t.Parallel()
	s := storage(t)
	for name, c := range map[string]struct{ args, want string }{
		"a day of the namespace": {"--start 2026-01-02 --end 2026-01-02", `
TIME                  ENTITY  ACTION          PRINCIPAL     RESOURCE  DETAILS
2026-01-02T03:04:05Z  key-2   entity_created  ann\u001b[1m  -         limits=2
2026-01-02T03:04:05Z  key-1   limits_set      jo            gpt-4     limits=0
`},
		"another namespace, from an instant": {"-N team/b --start 2026-01-02T03:04:05Z", `
TIME                  ENTITY  ACTION      PRINCIPAL  RESOURCE  DETAILS
2026-01-03T03:04:05Z  key-1   limits_set  jo         gpt-4     limits=1
2026-01-02T03:04:05Z  key-1   limits_set  jo         gpt-4     limits=1
`},
		"all namespaces, to an instant": {"--all-namespaces --end 2026-01-01T03:04:05Z", `
NAMESPACE  TIME                  ENTITY             ACTION                PRINCIPAL     RESOURCE  DETAILS
_          2026-01-01T03:04:05Z  $NAMESPACE:team/b  namespace_registered  -             -         limits=3
default    2026-01-01T03:04:05Z  key-2              entity_created        ann\u001b[1m  -         limits=2
team/b     2026-01-01T03:04:05Z  key-1              limits_set            jo            gpt-4     limits=1
default    2026-01-01T03:04:05Z  key-1              limits_set            jo            gpt-4     limits=0
`},
		"a namespace's own": {"--namespace-name team/b --max 1 --end 2026-01-01", `
TIME                  ENTITY             ACTION                PRINCIPAL  RESOURCE  DETAILS
2026-01-01T03:04:05Z  $NAMESPACE:team/b  namespace_registered  -          -         limits=3
`},
		"an entity, an action and a principal": {"--entity key-1 --action limits_set --principal jo --max 3", `
TIME                  ENTITY  ACTION      PRINCIPAL  RESOURCE  DETAILS
2026-01-03T03:04:05Z  key-1   limits_set  jo         gpt-4     limits=0
2026-01-02T03:04:05Z  key-1   limits_set  jo         gpt-4     limits=0
2026-01-01T03:04:05Z  key-1   limits_set  jo         gpt-4     limits=0
`},
		"nothing": {"--system", `
TIME  ENTITY  ACTION  PRINCIPAL  RESOURCE  DETAILS
`},
	} {
		code, stdout, stderr := search(t, s, strings.Fields(c.args)...)
		if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), stdout); code != 0 || (stderr != "") != (name == "nothing") || diff != "" {
			t.Errorf("%s: exit code %d, errors %q (-want +got):\n%s", name, code, stderr, diff)
		}
	}
	// The JSON form is that of audit list, plus the namespace.
	_, stdout, _ := search(t, s, "--entity", "key-1", "--max", "1", "--output", "json")
	pattern := `^{"events":\[{"namespace_id":"ns1","namespace":"default","event_id":"01KDX8W8P80000000000000200","timestamp":"2026-01-03T03:04:05Z","action":"limits_set",` +
		`"entity_id":"key-1","principal":"jo","resource":"gpt-4","details":{"limits":\[0\]},"expires_at":"2026-04-03T03:04:05Z"}\],"cursor":"([\w-]+)"}\n$`
	cursor := regexp.MustCompile(pattern).FindStringSubmatch(stdout)
	if cursor == nil {
		t.Fatalf("printed %s", stdout)
	}
	_, stdout, _ = search(t, s, "--entity", "key-1", "--max", "1", "--cursor", cursor[1])
	if !strings.Contains(stdout, "2026-01-02T03:04:05Z") || !strings.Contains(stdout, "There is more: --cursor ") {
		t.Errorf("printed %s", stdout)
	}
}

// The command reports damaged objects at the end, after the events it found.
func TestAuditSearchOfDamagedObjects(t *testing.T) {
	t.Parallel()
	s := storage(t)
	s.Store("trail", "limits/year=2026/month=01/day=02/x.jsonl.gz", s3test.Object{Body: []byte("x")})
	code, stdout, stderr := search(t, s, "--all-namespaces")
	if code != 1 || strings.Count(stdout, "\n") != 13 || !strings.Contains(stderr, "\ns3://trail/limits/year=2026/month=01/day=02/x.jsonl.gz: damaged object: ") {
		t.Errorf("exit code %d, printed %s, errors %s", code, stdout, stderr)
	}
	code, stdout, stderr = search(t, s, "--output", "json")
	var got struct {
		Events []any
		Unread []struct{ Object, Message string }
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got.Events) != 6 || len(got.Unread) != 1 || got.Unread[0].Object == "" || got.Unread[0].Message == "" {
		t.Errorf("printed %s: %v", stdout, err)
	}
	if err := validate("audit search", []byte(stdout)); err != nil {
		t.Error(err)
	}
	if code != 1 || !strings.HasPrefix(stderr, `{"error":"damaged",`) {
		t.Errorf("exit code %d, errors %s", code, stderr)
	}
	if code, _, stderr = search(t, s, "--start", "2026-01-03"); code != 0 || stderr != "" {
		t.Errorf("exit code %d, errors %s", code, stderr) // the object is not of these days
	}
}

func TestAnArchiveThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := storage(t)
	for name, c := range map[string]struct {
		status     int
		kind, want string
	}{
		"no bucket": {http.StatusNotFound, "not_found", `bucket \"trail\" not found: create it, or correct the archive's URL and endpoint`},
		"denied":    {http.StatusForbidden, "access_denied", "archive s3://trail/limits: look for the bucket: access denied: check the credentials"},
	} {
		s.Fail(func(*http.Request) (int, string) { return c.status, "" })
		code, _, stderr := search(t, s, "--output", "json")
		if code != 1 || !strings.HasPrefix(stderr, `{"error":"`+c.kind+`",`) || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, errors %s", name, code, stderr)
		}
		// An aggregator reads no records if it could not store their events.
		engine := dynamolite.New(dynamolite.Options{})
		var errs bytes.Buffer
		code = cli.Run(t.Context(), cli.Options{
			Args:  []string{"aggregate", "--archive", "s3://trail/limits", "--output", "json"},
			Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &errs, Getenv: func(string) string { return "" },
			Connect:        func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
			ConnectArchive: func(context.Context, app.Endpoint) (archive.API, error) { return s.Client(), nil },
		})
		if code != 1 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: aggregate: exit code %d, errors %s", name, code, &errs)
		}
	}
}

// The command archives expired events, and counts them for Prometheus.
func TestAggregateArchives(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64 // offset of the clock, in nanoseconds
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	engine := dynamolite.New(dynamolite.Options{Now: now, SweepInterval: 5 * time.Millisecond})
	defer engine.Close()
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: "zae-limiter", Stream: true, Now: now}); err != nil {
		t.Fatal(err)
	}
	store, err := dynamo.Open(t.Context(), dynamo.Options{API: engine, Table: "zae-limiter", Now: now, Principal: "jo"})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SetAuditRetention(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if _, err := store.CreateEntity(t.Context(), limiter.Entity{ID: fmt.Sprintf("key-%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	ahead.Store(int64(25 * time.Hour))

	s := s3test.New(t, "trail")
	ctx, stop := context.WithCancel(t.Context())
	var stdout bytes.Buffer
	stderr, code := newLines(), make(chan int, 1)
	environment := map[string]string{"ZAEL_ARCHIVE": "s3://trail/limits"}
	go func() {
		code <- cli.Run(ctx, cli.Options{
			Args:  []string{"aggregate", "--poll", "5ms", "--metrics-addr", "127.0.0.1:0", "--output", "json"},
			Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: stderr, Now: now,
			Getenv:         func(name string) string { return environment[name] },
			Connect:        func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
			ConnectArchive: func(context.Context, app.Endpoint) (archive.API, error) { return s.Client(), nil },
		})
	}()
	url := stderr.await(`"url":"([^"]*)"`)
	for found := ""; strings.Count(found, `"namespace":"default"`) != 5; {
		_, found, _ = search(t, s, "--output", "json")
	}
	stderr.await(`"msg":"batch processed".*"archived":[1-5],"archived_bytes":[1-9]`)
	metrics := fetch(t, url)
	if !regexp.MustCompile(`(?m)^zae_limiter_aggregator_archived_events_total [1-5]$`).MatchString(metrics) ||
		!regexp.MustCompile(`(?m)^zae_limiter_aggregator_archived_bytes_total [1-9]`).MatchString(metrics) {
		t.Errorf("metrics:\n%s", metrics)
	}
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d: %s", got, &stderr.text)
	}
	var sum map[string]int
	if err := json.Unmarshal(stdout.Bytes(), &sum); err != nil || sum["archived_events"] != 5 || sum["archived_bytes"] == 0 {
		t.Errorf("printed %s: %v", &stdout, err)
	}
}

// Not parallel: the SDK reads the environment of the process.
func TestTheRealClientOfAnotherS3(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "minio")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s := storage(t)
	url := strings.Replace(s.URL, "127.0.0.1", "localhost", 1) // the name trail.localhost does not exist
	args := []string{"audit", "search", "--from-archive", "s3://trail/limits", "--archive-endpoint", url, "--output", "json"}
	if code, stdout, stderr := run(t.Context(), strings.NewReader(""), args...); code != 0 || strings.Count(stdout, "event_id") != 6 {
		t.Errorf("exit code %d, printed %s, errors %s", code, stdout, stderr)
	}
	// The client uses the given region, or else the usual one of such services.
	t.Setenv("AWS_REGION", "eu-central-1")
	s.Elsewhere("eu-central-1")
	s.Asked()
	if code, _, stderr := run(t.Context(), strings.NewReader(""), args...); code != 0 || s.Asked()[1] == "HEAD /trail" {
		t.Errorf("exit code %d, errors %s", code, stderr)
	}
	// The endpoint may be in the SDK's own variable.
	t.Setenv("AWS_ENDPOINT_URL_S3", url)
	if code, _, stderr := run(t.Context(), strings.NewReader(""), "audit", "search", "--from-archive", "s3://trail/limits"); code != 0 {
		t.Errorf("exit code %d, errors %s", code, stderr)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	if code, _, stderr := run(t.Context(), strings.NewReader(""), args...); code != 1 || !strings.HasPrefix(stderr, `{"error":"access_denied",`) {
		t.Errorf("exit code %d, errors %s", code, stderr)
	}
}
