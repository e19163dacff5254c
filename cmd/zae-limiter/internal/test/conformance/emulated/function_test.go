//go:build conformance

package emulated_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

const functionTable = "limits"

// function is a function of a stack under the runtime interface emulator, on a table of
// zae-limiter local. It reaches the table through a proxy that a test may stop.
type function struct {
	*peers.Emulator
	t      *testing.T
	db     *dynamodb.Client
	config aws.Config
	store  *dynamo.Store

	// afterWrite is called when the table has applied a write of the function, before the
	// function has the answer. If it returns false, the function never gets the answer.
	afterWrite atomic.Pointer[func() bool]
}

func newFunction(t *testing.T, handler string) *function {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	f := &function{t: t, config: aws.Config{Region: peers.Region, Credentials: credentials.NewStaticCredentialsProvider(peers.AccessKey, peers.SecretKey, "")}}
	served := peers.Serve(t, path)
	f.config.BaseEndpoint, f.db = aws.String(served.Endpoint), served.Client
	f.store = created(t, f.db, functionTable)
	f.Emulator = peers.RuntimeEmulator(t, bootstrap(t), []string{
		"AWS_LAMBDA_FUNCTION_TIMEOUT=60", "TABLE_NAME=" + functionTable, "_HANDLER=" + handler,
		"AWS_ENDPOINT_URL=" + f.proxy(served.Endpoint), "AWS_REGION=" + peers.Region,
		"AWS_ACCESS_KEY_ID=" + peers.AccessKey, "AWS_SECRET_ACCESS_KEY=" + peers.SecretKey, "AWS_EC2_METADATA_DISABLED=true",
	})
	return f
}

// bootstrap links the program under the name that Lambda starts.
func bootstrap(t *testing.T) string {
	t.Helper()
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bootstrap")
	if err := os.Symlink(program, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// proxy forwards requests to the table, and tells afterWrite of its writes.
func (f *function) proxy(endpoint string) string {
	f.t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		f.t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }}
	forward.ModifyResponse = func(answer *http.Response) error {
		operation := answer.Request.Header.Get("X-Amz-Target")
		after := f.afterWrite.Load()
		if after == nil || !strings.HasSuffix(operation, "UpdateItem") && !strings.HasSuffix(operation, "PutItem") && !strings.HasSuffix(operation, "BatchWriteItem") {
			return nil
		}
		body, err := io.ReadAll(answer.Body) // the write is applied
		if err != nil {
			return err
		}
		answer.Body = io.NopCloser(bytes.NewReader(body))
		if !(*after)() {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	server := httptest.NewServer(forward)
	f.t.Cleanup(server.Close)
	return server.URL
}

// invoke delivers an event, and returns the sequence numbers of the records that the
// function reports as failed.
func (f *function) invoke(ctx context.Context, event []byte) ([]string, error) {
	text, err := f.Invoke(ctx, event)
	if err != nil {
		return nil, err
	}
	var answer struct {
		ErrorMessage      string
		BatchItemFailures []struct{ ItemIdentifier string }
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.ErrorMessage != "" || answer.BatchItemFailures == nil {
		return nil, fmt.Errorf("the function answers %s", text)
	}
	failed := []string{}
	for _, one := range answer.BatchItemFailures {
		failed = append(failed, one.ItemIdentifier)
	}
	return failed, nil
}

// counts fails the test unless an entity's usage is that of n calls of take.
func (f *function) counts(entity string, n int64) {
	f.t.Helper()
	got, err := usageOf(f.t.Context(), f.store, entity)
	if want := (counted{n, 3 * n}); err != nil || got != want {
		f.t.Errorf("usage of %s is %+v, %v, want %+v; the function wrote:\n%s", entity, got, err, want, f.Log(f.t))
	}
}

// use calls take, and deletes the bucket as the table does when it expires. So its usage is
// there once the function has saved it.
func (f *function) use(entity string, n int) {
	f.t.Helper()
	take(f.t, f.store, entity, n)
	drop(f.t, f.db, functionTable, f.store, entity)
	if got, err := usageOf(f.t.Context(), f.store, entity); err != nil || got != (counted{}) {
		f.t.Fatalf("usage of %s before the function runs: %+v, %v", entity, got, err)
	}
}

// Lambda delivers only the named record again, or sends it to the queue of failures.
func TestAFunctionNamesTheRecordThatItCannotRead(t *testing.T) {
	t.Parallel()
	f := newFunction(t, "aggregator")
	f.use("before", 4)
	_, ns := f.store.Namespace()
	broken := schema.BucketKey(ns, limiter.Bucket{Entity: "mallory", Resource: "gpt-4"}).Item()
	broken[schema.RF] = schema.S("yesterday")
	if _, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(functionTable), Item: broken}); err != nil {
		t.Fatal(err)
	}
	f.use("after", 5)

	records := f.event()
	want := sequenceOf(t, records, "mallory")
	for range 2 { // the second delivery finds everything counted
		failed, err := f.invoke(t.Context(), records)
		if err != nil || !slices.Equal(failed, []string{want}) {
			t.Errorf("failed %v, %v, want %s", failed, err, want)
		}
		f.counts("before", 4)
		f.counts("after", 5)
	}
}

// sequenceOf returns the sequence number of the first record about an entity.
func sequenceOf(t *testing.T, event []byte, entity string) string {
	t.Helper()
	var all struct {
		Records []struct {
			DynamoDB struct {
				Keys           map[string]map[string]string
				SequenceNumber string
			} `json:"dynamodb"`
		}
	}
	if err := json.Unmarshal(event, &all); err != nil {
		t.Fatal(err)
	}
	for _, r := range all.Records {
		if strings.Contains(r.DynamoDB.Keys[schema.PK]["S"], entity) {
			return r.DynamoDB.SequenceNumber
		}
	}
	t.Fatalf("no record of %s in %s", entity, event)
	return ""
}

// The function is killed after its first write, then after its second, and so on, each time
// before it has the answer. Lambda starts it again and delivers the batch again.
func TestAFunctionThatCrashesAfterAnyWriteCountsNothingTwice(t *testing.T) {
	t.Parallel()
	f := newFunction(t, "aggregator")
	const users, takes, mostWrites = 30, 4, 100 // a request has pages of 25
	for i := range users {
		f.use(fmt.Sprint("user-", i), takes)
	}
	records := f.event()
	crashes := 0
	for ; crashes < mostWrites; crashes++ {
		f.crashAfter(crashes)
		if _, err := f.invoke(t.Context(), records); err == nil {
			break // the batch has no further write
		}
	}
	if crashes < 2 || crashes == mostWrites {
		t.Fatalf("the function was killed %d times; it wrote:\n%s", crashes, f.Log(t))
	}
	for i := range users {
		f.counts(fmt.Sprint("user-", i), takes)
	}
}

// crashAfter kills the function as soon as the table has applied one write more than
// allowed, and answers neither this write nor any after it.
func (f *function) crashAfter(allowed int) {
	var once sync.Once
	var writes atomic.Int64
	crash := func() bool {
		if writes.Add(1) <= int64(allowed) {
			return true
		}
		once.Do(func() {
			if err := f.Signal(f.t.Context(), syscall.SIGKILL); err != nil {
				f.t.Errorf("kill the function: %v", err)
			}
		})
		return false
	}
	f.afterWrite.Store(&crash)
}

// Lambda ends a function that it no longer needs with SIGTERM, and some hundred
// milliseconds later with SIGKILL.
func TestAFunctionThatIsToldToEndEnds(t *testing.T) {
	t.Parallel()
	f := newFunction(t, "aggregator")
	f.use("user", 4)
	records := f.event()
	if failed, err := f.invoke(t.Context(), records); err != nil || len(failed) > 0 {
		t.Fatalf("failed %v, %v", failed, err)
	}
	f.terminated(func() {
		if err := f.Signal(t.Context(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	})
	f.handledByTheNext(records)
	f.counts("user", 4)
}

// A function that is told to end during a batch names the records that it has not processed.
func TestAFunctionThatIsToldToEndDuringABatchLosesNothing(t *testing.T) {
	t.Parallel()
	f := newFunction(t, "aggregator")
	const users, takes = 5, 4
	for i := range users {
		f.use(fmt.Sprint("user-", i), takes)
	}
	records := f.event()
	var once sync.Once
	interrupt := func() bool {
		once.Do(func() {
			if err := f.Signal(t.Context(), syscall.SIGTERM); err != nil {
				t.Errorf("interrupt the function: %v", err)
			}
		})
		return true
	}
	var failed []string
	f.terminated(func() {
		f.afterWrite.Store(&interrupt)
		var err error
		if failed, err = f.invoke(t.Context(), records); err != nil {
			failed = nil // Lambda delivers the whole batch again
		} else if len(failed) > 0 {
			records = only(t, records, failed)
		}
	})
	t.Logf("interrupted, the function names %d records", len(failed))
	f.afterWrite.Store(nil)
	f.handledByTheNext(records)
	for i := range users {
		f.counts(fmt.Sprint("user-", i), takes)
	}
}

// handledByTheNext delivers an event until a process handles all of it. After the end of a
// function, the emulator may answer one invocation with that end, and then start it again.
func (f *function) handledByTheNext(records []byte) {
	f.t.Helper()
	until(f.t, "the next process handles the event", func(ctx context.Context) (bool, error) {
		failed, err := f.invoke(ctx, records)
		return len(failed) == 0, err
	})
}

// terminated calls end, which must end the process of the function.
func (f *function) terminated(end func()) {
	f.t.Helper()
	if _, err := f.invoke(f.t.Context(), []byte(`{"Records":[]}`)); err != nil { // it runs now
		f.t.Fatal(err)
	}
	before, err := f.Function(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	end()
	until(f.t, "the function has ended", func(ctx context.Context) (bool, error) {
		now, err := f.Function(ctx)
		return err != nil || now != before, ctx.Err()
	})
}

// only returns the event with the records that have one of the sequence numbers.
func only(t *testing.T, event []byte, sequences []string) []byte {
	t.Helper()
	type sequence struct {
		DynamoDB struct{ SequenceNumber string } `json:"dynamodb"`
	}
	var all, chosen struct{ Records []json.RawMessage }
	if err := json.Unmarshal(event, &all); err != nil {
		t.Fatal(err)
	}
	for _, record := range all.Records {
		var s sequence
		if err := json.Unmarshal(record, &s); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(sequences, s.DynamoDB.SequenceNumber) {
			chosen.Records = append(chosen.Records, record)
		}
	}
	text, err := json.Marshal(chosen)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
