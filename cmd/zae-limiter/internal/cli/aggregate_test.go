package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// lines is a log that a test can read while the program writes it.
type lines struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written sync.Cond
}

func newLines() *lines {
	l := &lines{}
	l.written.L = &l.mu
	return l
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written.Broadcast()
	return l.text.Write(p)
}

// await waits until the log matches, and returns what the pattern captures.
func (l *lines) await(pattern string) string {
	re := regexp.MustCompile(pattern)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if m := re.FindSubmatch(l.text.Bytes()); m != nil {
			return string(m[len(m)-1])
		}
		l.written.Wait()
	}
}

// fetch returns the body at a URL.
func fetch(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// deleteBuckets deletes all buckets, as the table does when they expire.
func deleteBuckets(t *testing.T, engine *dynamolite.DB) {
	t.Helper()
	name := aws.String("zae-limiter")
	out, err := engine.Scan(t.Context(), &dynamodb.ScanInput{TableName: name})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range out.Items {
		if key := schema.KeyOf(it); key.SK == schema.StateSK {
			if _, err := engine.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: name, Key: key.Item()}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// streaming is a limiter on a new table with a stream.
func streaming(t *testing.T, engine *dynamolite.DB) *limiter.Limiter {
	t.Helper()
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: "zae-limiter", Stream: true}); err != nil {
		t.Fatal(err)
	}
	store, err := dynamo.Open(t.Context(), dynamo.Options{API: engine, Table: "zae-limiter"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := limiter.New(store, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// awaitPage fetches a page until it has a text.
func awaitPage(t *testing.T, url, want string) {
	t.Helper()
	const patience, pause = time.Minute, 5 * time.Millisecond
	for began := time.Now(); ; time.Sleep(pause) {
		got := fetch(t, url)
		if strings.Contains(got, want) {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("%s has no %q:\n%s", url, want, got)
		}
	}
}

// The command follows the stream of a table, counts its work for Prometheus, and prints the
// totals when it is interrupted.
func TestAggregate(t *testing.T) {
	t.Parallel()
	engine := dynamolite.New(dynamolite.Options{})
	l := streaming(t, engine)
	for range 10 {
		lease, err := l.Acquire(t.Context(), limiter.Request{
			Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpm": 1}, Fallback: []limiter.Limit{limiter.PerMinute("rpm", 100)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	deleteBuckets(t, engine)
	ctx, stop := context.WithCancel(t.Context())
	var stdout bytes.Buffer
	stderr, code := newLines(), make(chan int, 1)
	var ahead atomic.Int64
	go func() {
		code <- cli.Run(ctx, cli.Options{
			Args:  []string{"aggregate", "--poll", "5ms", "--metrics-addr", "127.0.0.1:0", "--output", "json"},
			Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: stderr, Getenv: func(string) string { return "" },
			Now:     func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
		})
	}()
	url := stderr.await(`"url":"([^"]*)"`)
	stderr.await(`"msg":"batch processed".*"pages":1`)
	// The page is logged before it is counted, and a shard makes progress with its next poll.
	awaitPage(t, url, `zae_limiter_aggregator_writes_total{kind="page"} 1`)
	ahead.Store(int64(time.Minute))
	awaitPage(t, url, `zae_limiter_aggregator_shard_writes_left{entity="_other",`)
	awaitPage(t, strings.Replace(url, "/metrics", "/healthz", 1), `{"status":"ok"}`+"\n")
	awaitPage(t, strings.Replace(url, "/metrics", "/livez", 1), "ok\n")
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d: %s", got, &stderr.text)
	}
	if err := validate("aggregate", stdout.Bytes()); err != nil {
		t.Error(err)
	}
	var sum map[string]int
	if err := json.Unmarshal(stdout.Bytes(), &sum); err != nil || sum["usage_pages"] != 1 || sum["failed_records"] != 0 {
		t.Errorf("printed %s: %v", &stdout, err)
	}
}

// If the stream drops records before the command has read them, the command says so in its
// log, in its metrics, and when it ends.
func TestAggregateTellsOfGaps(t *testing.T) {
	t.Parallel()
	engine, err := dynamolite.Open(dynamolite.Options{StreamBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	l := streaming(t, engine)
	use := func(times int) {
		for range times {
			if _, err := l.Acquire(t.Context(), limiter.Request{
				Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpm": 1}, Fallback: []limiter.Limit{limiter.PerMinute("rpm", 100_000)},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// follow starts the command. end interrupts it, and returns what it has printed.
	follow := func(args ...string) (stderr *lines, end func() string) {
		ctx, stop := context.WithCancel(t.Context())
		var stdout bytes.Buffer
		stderr, code := newLines(), make(chan int, 1)
		go func() {
			code <- cli.Run(ctx, cli.Options{
				Args:  append([]string{"aggregate", "--poll", "5ms"}, args...),
				Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: stderr, Getenv: func(string) string { return "" },
				Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
			})
		}()
		return stderr, func() string {
			stop()
			if got := <-code; got != 0 {
				t.Errorf("exit code %d: %s", got, &stderr.text)
			}
			return stdout.String()
		}
	}
	const processed, lost = `"msg":"batch processed".*"buckets":1`, `"level":"ERROR","msg":"stream records were dropped before they were read, and are lost"`

	use(3)
	stderr, end := follow()
	stderr.await(processed)
	if printed := end(); strings.Contains(printed, "lost") {
		t.Errorf("nothing was lost, and it printed %s", printed)
	}

	use(200) // more than the stream keeps, while nobody reads
	stderr, end = follow()
	stderr.await(lost)
	stderr.await(processed)
	if printed := end(); !regexp.MustCompile(`\nRecords were lost (once|\d+ times), because the stream dropped them before they were read: what buckets consumed that expired meanwhile is missing from usage. Run the command without long breaks\n$`).MatchString(printed) {
		t.Errorf("printed %q", printed)
	}

	use(200)
	stderr, end = follow("--output", "json", "--metrics-addr", "127.0.0.1:0")
	url := stderr.await(`"url":"([^"]*)"`)
	stderr.await(lost)
	stderr.await(processed)
	gaps := regexp.MustCompile(`\nzae_limiter_aggregator_stream_gaps_total (\d+)\n`).FindStringSubmatch(fetch(t, url))
	var sum struct {
		Gaps int `json:"stream_gaps"`
	}
	if printed := end(); json.Unmarshal([]byte(printed), &sum) != nil || sum.Gaps == 0 || len(gaps) == 0 || gaps[1] != strconv.Itoa(sum.Gaps) {
		t.Errorf("the metric is %v, printed is %s", gaps, printed)
	}
}

// Without a stream to follow, the command says so, says what to do, and does nothing else.
func TestAggregateNeedsAStream(t *testing.T) {
	t.Parallel()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	for _, name := range []string{"still", "keys-only"} {
		if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	name := "keys-only"
	if _, err := engine.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: &name, StreamSpecification: &types.StreamSpecification{
		StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeKeysOnly,
	}}); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]string{
		"nowhere":   `^Error: find the stream of nowhere: table "nowhere" not found: create it, or check its name, region and endpoint\nTry: zae-limiter table create --stream -n nowhere\n$`,
		"still":     `^Error: find the stream of still: stream "still" not found: enable one with the view NEW_AND_OLD_IMAGES .*table create --stream.*\n$`,
		"keys-only": `^Error: find the stream of keys-only: stream "keys-only" not found: enable one with the view NEW_AND_OLD_IMAGES .*\n$`,
	} {
		var stdout, stderr bytes.Buffer
		code := cli.Run(t.Context(), cli.Options{
			Args: []string{"aggregate", "-n", table, "--metrics-addr", "127.0.0.1:0"}, Stdin: strings.NewReader(""),
			Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" },
			Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
		})
		if code != 1 || stdout.Len() > 0 || !regexp.MustCompile(want).Match(stderr.Bytes()) {
			t.Errorf("%s: exit code %d, output %q, errors %q", table, code, &stdout, &stderr)
		}
	}
}
