package cli_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// archived runs aggregate with an archive and an engine without a table, with which it ends once
// the archive is open.
func archived(t *testing.T, connect func(context.Context, app.Endpoint) (archive.API, error), args ...string) (code int, stderr string) {
	t.Helper()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	var errs bytes.Buffer
	code = cli.Run(t.Context(), cli.Options{
		Args:  append([]string{"aggregate", "--archive", "s3://trail/limits", "--output", "json"}, args...),
		Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &errs, Getenv: func(string) string { return "" },
		Connect:        func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
		ConnectArchive: connect,
	})
	return code, errs.String()
}

// An aggregator reads no records if it could not store their events.
func TestAnArchiveThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := s3test.New(t, "trail")
	for name, c := range map[string]struct {
		status     int
		kind, want string
	}{
		"no bucket": {http.StatusNotFound, "not_found", `bucket \"trail\" not found: create it, or correct the archive's URL and endpoint`},
		"denied":    {http.StatusForbidden, "access_denied", "archive s3://trail/limits: look for the bucket: access denied: check the credentials"},
	} {
		s.Fail(func(*http.Request) (int, string) { return c.status, "" })
		code, stderr := archived(t, func(context.Context, app.Endpoint) (archive.API, error) { return s.Client(), nil })
		if code != 1 || !strings.HasPrefix(stderr, `{"error":"`+c.kind+`",`) || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, errors %s", name, code, stderr)
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
	for events := 0; events != 5; {
		stderr.await(`"msg":"batch processed".*"archived":[1-5],"archived_bytes":[1-9]`)
		events = eventsOf(t, s)
	}
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

// eventsOf is the number of events of the namespace default in the archive.
func eventsOf(t *testing.T, s *s3test.Server) (n int) {
	t.Helper()
	for _, o := range s.Objects("trail") {
		z, err := gzip.NewReader(bytes.NewReader(o.Body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte(`"namespace":"default"`))
	}
	return n
}

// Not parallel: the SDK reads the environment of the process.
func TestTheRealClientOfAnotherS3(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "minio")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s := s3test.New(t, "trail")
	url := strings.Replace(s.URL, "127.0.0.1", "localhost", 1) // the name trail.localhost does not exist
	const opened = `{"error":"not_found","message":"find the stream of `
	if code, stderr := archived(t, nil, "--archive-endpoint", url); code != 1 || !strings.HasPrefix(stderr, opened) {
		t.Errorf("exit code %d, errors %s", code, stderr)
	}
	// The client uses the given region, or else the usual one of such services.
	t.Setenv("AWS_REGION", "eu-central-1")
	s.Elsewhere("eu-central-1")
	s.Asked()
	if _, stderr := archived(t, nil, "--archive-endpoint", url); !strings.HasPrefix(stderr, opened) || len(s.Asked()) != 1 {
		t.Errorf("errors %s", stderr)
	}
	// The endpoint may be in the SDK's own variable.
	t.Setenv("AWS_ENDPOINT_URL_S3", url)
	if _, stderr := archived(t, nil); !strings.HasPrefix(stderr, opened) {
		t.Errorf("errors %s", stderr)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	if code, stderr := archived(t, nil, "--archive-endpoint", url); code != 1 || !strings.HasPrefix(stderr, `{"error":"access_denied",`) {
		t.Errorf("exit code %d, errors %s", code, stderr)
	}
}
