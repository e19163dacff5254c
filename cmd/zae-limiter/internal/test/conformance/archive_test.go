//go:build conformance

package conformance_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

const (
	trailTable  = "limits"
	trailBucket = "trail"
)

// A trail is a table that deletes expired items, on a clock that tests can move, and an S3
// server beside it.
type trail struct {
	*testing.T
	engine   *dynamolite.DB
	endpoint string
	moto     *s3.Client // of its buckets
	motoURL  string
	store    *dynamo.Store
	ahead    atomic.Int64 // offset of the clock, in nanoseconds
}

func newTrail(t *testing.T) *trail {
	t.Helper()
	w := &trail{T: t, motoURL: peers.Moto(t)}
	w.moto = s3test.OnMoto(t, w.motoURL)
	w.engine = dynamolite.New(dynamolite.Options{Now: w.now, SweepInterval: 10 * time.Millisecond})
	t.Cleanup(func() { w.must(w.engine.Close()) })
	server := httptest.NewServer(dynamolite.NewHandler(w.engine, dynamolite.HandlerOptions{}))
	t.Cleanup(server.Close)
	w.endpoint = server.URL
	w.must(dynamo.CreateTable(t.Context(), w.engine, dynamo.TableOptions{Name: trailTable, Stream: true, Now: w.now}))
	var err error
	w.store, err = dynamo.Open(t.Context(), dynamo.Options{API: w.engine, Table: trailTable, Now: w.now, Principal: "jo"})
	w.must(err)
	w.must(w.store.SetAuditRetention(t.Context(), 1))
	return w
}

func (w *trail) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func (w *trail) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// bucket creates the bucket, or deletes it with all its objects.
func (w *trail) bucket(there bool) {
	w.Helper()
	if there {
		_, err := w.moto.CreateBucket(w.Context(), &s3.CreateBucketInput{Bucket: aws.String(trailBucket)})
		w.must(err)
		return
	}
	for key := range w.objects() {
		_, err := w.moto.DeleteObject(w.Context(), &s3.DeleteObjectInput{Bucket: aws.String(trailBucket), Key: &key})
		w.must(err)
	}
	_, err := w.moto.DeleteBucket(w.Context(), &s3.DeleteBucketInput{Bucket: aws.String(trailBucket)})
	w.must(err)
}

// objects returns the keys of the bucket's objects, with what identifies their content.
func (w *trail) objects() map[string]string {
	w.Helper()
	out, err := w.moto.ListObjectsV2(w.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(trailBucket)})
	w.must(err)
	all := map[string]string{}
	for _, o := range out.Contents {
		all[*o.Key] = *o.ETag
	}
	return all
}

// events makes changes, and returns their events, as audit list prints them.
func (w *trail) events(prefix string, n int) []string {
	w.Helper()
	for i := range n {
		id := fmt.Sprintf("%s-%d", prefix, i)
		_, err := w.store.CreateEntity(w.Context(), limiter.Entity{ID: id, Metadata: map[string]string{"ü": `"<`}})
		w.must(err)
		w.must(w.store.SetLimits(w.Context(), limiter.ConfigKey{Entity: id, Resource: "gpt-4"}, []limiter.Limit{limiter.PerMinute("rpm", int64(i+1))}))
	}
	var all []string
	for i := range n {
		stdout, stderr, code := w.run("audit", "list", "--entity", fmt.Sprintf("%s-%d", prefix, i), "--output", "json", "-n", trailTable, "--endpoint-url", w.endpoint)
		if code != 0 {
			w.Fatal(stderr)
		}
		all = append(all, w.parse(stdout)...)
	}
	slices.Sort(all)
	return all
}

// parse returns each printed event as text, without its namespace.
func (w *trail) parse(stdout string) (events []string) {
	w.Helper()
	var page struct{ Events []map[string]any }
	w.must(json.Unmarshal([]byte(stdout), &page))
	for _, e := range page.Events {
		events = append(events, w.text(e))
	}
	slices.Sort(events)
	return events
}

// archived returns the events of the archive, each once.
func (w *trail) archived() (events []string) {
	w.Helper()
	for key := range w.objects() {
		object, err := w.moto.GetObject(w.Context(), &s3.GetObjectInput{Bucket: aws.String(trailBucket), Key: &key})
		w.must(err)
		z, err := gzip.NewReader(object.Body)
		w.must(err)
		for lines := json.NewDecoder(z); lines.More(); {
			var e map[string]any
			w.must(lines.Decode(&e))
			events = append(events, w.text(e))
		}
		w.must(object.Body.Close())
	}
	slices.Sort(events)
	return slices.Compact(events)
}

// text is an event without its namespace.
func (w *trail) text(e map[string]any) string {
	w.Helper()
	delete(e, "namespace")
	delete(e, "namespace_id")
	text, err := json.Marshal(e)
	w.must(err)
	return string(text)
}

// command is the program, with the environment that its clients need.
func (w *trail) command(arg ...string) *exec.Cmd {
	w.Helper()
	path, err := program()
	w.must(err)
	cmd := exec.CommandContext(w.Context(), path, arg...)
	cmd.Env = []string{
		"AWS_ACCESS_KEY_ID=" + peers.AccessKey, "AWS_SECRET_ACCESS_KEY=" + peers.SecretKey, "AWS_REGION=" + peers.Region,
		"AWS_EC2_METADATA_DISABLED=true", "HOME=" + w.TempDir(),
	}
	return cmd
}

func (w *trail) run(arg ...string) (stdout, stderr string, code int) {
	w.Helper()
	cmd := w.command(arg...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code shows a failure
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// A keeper is a running zae-limiter aggregate --archive.
type keeper struct {
	*exec.Cmd
	w   *trail
	mu  sync.Mutex
	log bytes.Buffer
}

func (k *keeper) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.log.Write(p)
}

func (k *keeper) logged(text string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Contains(k.log.String(), text)
}

// archived is the number of events that the program reports as stored.
func (k *keeper) archived() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range archivedEvents.FindAllStringSubmatch(k.log.String(), -1) {
		events, err := strconv.Atoi(m[1])
		k.w.must(err)
		n += events
	}
	return n
}

var archivedEvents = regexp.MustCompile(`"msg":"batch processed".*"archived":(\d+),`)

func (w *trail) keep(reader string) *keeper {
	w.Helper()
	k := &keeper{w: w}
	k.Cmd = w.command("aggregate", "-n", trailTable, "--endpoint-url", w.endpoint, "--poll", "20ms", "--reader", reader,
		"--archive", "s3://trail/limits", "--archive-endpoint", w.motoURL)
	k.Stderr = k
	w.must(k.Start())
	w.await("it follows", func() bool { return k.logged(`"msg":"following"`) })
	return k
}

// end ends the program with a signal, which it may or may not handle.
func (k *keeper) end(signal syscall.Signal) {
	k.w.Helper()
	k.w.must(k.Process.Signal(signal))
	if err := k.Wait(); err != nil && signal != syscall.SIGKILL {
		k.w.Errorf("%v\n%s", err, &k.log)
	}
}

// await waits until a condition holds.
func (w *trail) await(what string, is func() bool) {
	w.Helper()
	end := time.NewTimer(time.Minute)
	defer end.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-end.C:
			w.Fatalf("never: %s", what)
		case <-again.C:
		}
	}
}

// Expired events are swept, archived by the program, and found by it, exactly as the table
// had them. This holds even if storing fails in between, the program is killed, and
// everything is delivered again.
func TestArchive(t *testing.T) {
	t.Parallel()
	w := newTrail(t)
	arguments := []string{"aggregate", "-n", trailTable, "--endpoint-url", w.endpoint, "--archive", "s3://trail/limits", "--archive-endpoint", w.motoURL}
	if _, stderr, code := w.run(arguments...); code != 1 || !strings.Contains(stderr, `bucket "trail" not found`) {
		t.Errorf("without a bucket: exit code %d, %s", code, stderr)
	}
	w.bucket(true)
	k := w.keep("first")
	want := w.events("first", 5)
	deleted, _, code := w.run("audit", "list", "--system", "--output", "json", "-n", trailTable, "--endpoint-url", w.endpoint)
	if code != 0 {
		t.Fatal("no events of the system")
	}
	want = append(want, w.parse(deleted)...)
	slices.Sort(want)

	// An event that a person deletes is not archived.
	victim := w.events("victim", 1)
	_, ns := w.store.Namespace()
	for _, text := range victim {
		var e struct {
			ID     string `json:"event_id"`
			Entity string `json:"entity_id"`
		}
		w.must(json.Unmarshal([]byte(text), &e))
		_, err := w.engine.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(trailTable), Key: schema.AuditKey(ns, e.Entity, e.ID).Item()})
		w.must(err)
	}
	w.ahead.Add(int64(25 * time.Hour))
	w.await("all is archived", func() bool { return len(w.archived()) == len(want) })
	if diff := cmp.Diff(want, w.archived()); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}

	// An event that cannot be stored waits until it can.
	w.bucket(false)
	want = w.events("second", 5)
	w.ahead.Add(int64(25 * time.Hour))
	w.await("it fails", func() bool { return k.logged("record was not processed") && k.logged(`bucket \"trail\" not found`) })
	w.bucket(true)
	w.await("all is archived", func() bool { return len(w.archived()) == len(want) })
	if diff := cmp.Diff(want, w.archived()); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	k.end(syscall.SIGKILL)

	// Another reader delivers everything again, in its own batches.
	k = w.keep("second")
	w.await("all is archived again", func() bool { return k.archived() == len(want) })
	if diff := cmp.Diff(want, w.archived()); diff != "" {
		t.Errorf("found after it was delivered again (-want +got):\n%s", diff)
	}
	k.end(syscall.SIGTERM)
	if len(w.objects()) == 0 {
		t.Error("there are no objects")
	}
}
