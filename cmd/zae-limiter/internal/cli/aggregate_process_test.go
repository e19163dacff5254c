package cli_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A taken has a table of a served engine, after ten acquires, whose bucket was then deleted.
type taken struct {
	*process
	client *dynamodb.Client
	store  *dynamo.Store
	poison string // the sequence number of a record that cannot be read
}

const streamed = "streamed"

func newTaken(t *testing.T, bin string) *taken {
	t.Helper()
	p := start(t, bin, bare(t))
	w := &taken{process: p, client: newClient(p.url)}
	p.must(dynamo.CreateTable(t.Context(), w.client, dynamo.TableOptions{Name: streamed, Stream: true, Principal: "tester"}))
	var err error
	w.store, err = dynamo.Open(t.Context(), dynamo.Options{API: w.client, Table: streamed})
	p.must(err)
	l, err := limiter.New(w.store, limiter.Options{InFlight: -1})
	p.must(err)
	defer l.Close()
	for range 10 {
		lease, err := l.Acquire(t.Context(), limiter.Request{
			Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 3}, Fallback: []limiter.Limit{limiter.PerDay("rpd", 100)},
		})
		p.must(err)
		p.must(lease.Commit(t.Context()))
	}
	_, ns := w.store.Namespace()
	_, err = w.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String(streamed), Key: schema.BucketKey(ns, limiter.Bucket{Entity: "user", Resource: "gpt-4"}).Item(),
	})
	p.must(err)
	return w
}

// spoil writes an item whose records cannot be read.
func (w *taken) spoil() {
	w.Helper()
	_, ns := w.store.Namespace()
	it := schema.BucketKey(ns, limiter.Bucket{Entity: "mallory", Resource: "gpt-4"}).Item()
	it[schema.RF] = schema.S("yesterday")
	_, err := w.client.PutItem(w.Context(), &dynamodb.PutItemInput{TableName: aws.String(streamed), Item: it})
	w.must(err)
}

// used returns what was saved of the user's usage.
func (w *taken) used() (events, milli int64) {
	w.Helper()
	sum, err := w.store.Usage().Sum(w.Context(), usage.Query{Entity: "user", Window: usage.Daily})
	w.must(err)
	for _, l := range sum.Limits {
		milli += l.Total.Int64()
	}
	return sum.Events, milli
}

// A keeper keeps the body of the last answer.
type keeper struct{ last []byte }

func (k *keeper) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	k.last, err = io.ReadAll(out.Body)
	_ = out.Body.Close()
	out.Body = io.NopCloser(bytes.NewReader(k.last))
	return out, err
}

// events are all records of the stream in their wire form, as AWS Lambda delivers them: an
// event for each shard of the stream.
func (w *taken) events() (all []string) {
	w.Helper()
	k := &keeper{}
	streams := dynamodbstreams.New(dynamodbstreams.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(w.url), HTTPClient: &http.Client{Transport: k},
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	described, err := w.client.DescribeTable(w.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(streamed)})
	w.must(err)
	arn := described.Table.LatestStreamArn
	d, err := streams.DescribeStream(w.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	w.must(err)
	for _, sh := range d.StreamDescription.Shards {
		it, err := streams.GetShardIterator(w.Context(), &dynamodbstreams.GetShardIteratorInput{
			StreamArn: arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		w.must(err)
		page, err := streams.GetRecords(w.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
		w.must(err)
		if len(page.Records) == 0 {
			continue
		}
		for _, r := range page.Records {
			if pk, ok := r.Dynamodb.Keys[schema.PK].(*streamtypes.AttributeValueMemberS); ok && strings.Contains(pk.Value, "mallory") {
				w.poison = *r.Dynamodb.SequenceNumber
			}
		}
		all = append(all, string(k.last))
	}
	return all
}

// runtimeAPI is AWS Lambda as a function sees it: it delivers one event after another, and
// receives the answers.
type runtimeAPI struct {
	events  []string
	answers chan string
	lasts   time.Duration // of an event; 0 is a minute

	mu   sync.Mutex
	next int
}

func (a *runtimeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const invocations = "/2018-06-01/runtime/invocation/"
	switch path := strings.TrimPrefix(r.URL.Path, invocations); {
	case r.Method == http.MethodGet && path == "next":
		a.mu.Lock()
		n := a.next
		a.next++
		a.mu.Unlock()
		if n >= len(a.events) {
			<-r.Context().Done() // no more events follow
			return
		}
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", "request-"+strconv.Itoa(n))
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(cmp.Or(a.lasts, time.Minute)).UnixMilli(), 10))
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:aggregate")
		_, _ = io.WriteString(w, a.events[n])
	case r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		a.answers <- path + " " + string(body)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// aggregate runs zae-limiter aggregate in a process of its own.
func (w *taken) aggregate(bin string, out io.Writer, env []string, args ...string) (end func() error) {
	w.Helper()
	return w.run(out, env, append([]string{bin, "aggregate", "-n", streamed, "--endpoint-url", w.url}, args...)...)
}

// run runs a command line in a process of its own.
func (w *taken) run(out io.Writer, env []string, args ...string) (end func() error) {
	w.Helper()
	args = append([]string{"-c", watched, "sh"}, args...)
	cmd := exec.Command("sh", args...) //nolint:noctx // the test interrupts or kills it
	cmd.Env = bare(w.T, append(env, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local")...)
	cmd.Stdout, cmd.Stderr = out, out
	stdin, err := cmd.StdinPipe()
	w.must(err)
	w.must(cmd.Start())
	ended := make(chan struct{})
	go func() { err = cmd.Wait(); close(ended) }()
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = stdin.Close()
	})
	return func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		return err
	}
}

// On AWS Lambda, the program processes the delivered records, answers with the records that
// failed, and saves usage.
func servesLambda(t *testing.T, bin string) {
	t.Helper()
	w := newTaken(t, bin)
	w.spoil()
	events := w.events()
	api := &runtimeAPI{events: slices.Concat(events, events), answers: make(chan string, 2*len(events))}
	lambda := httptest.NewServer(api)
	t.Cleanup(lambda.Close)
	output := newLines()
	// Lambda starts the program without arguments, as a stack has it.
	w.run(output, []string{
		"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(lambda.URL, "http://"), "_HANDLER=aggregator", "TABLE_NAME=" + streamed,
		"SNAPSHOT_TTL_DAYS=7", "ENABLE_ARCHIVAL=false", "LOG_LEVEL=info", "AWS_ENDPOINT_URL_DYNAMODB=" + w.url,
	}, bin)
	var failed []string
	for range api.events {
		path, body, _ := strings.Cut(<-api.answers, " ")
		var answer struct {
			BatchItemFailures []struct {
				ItemIdentifier string `json:"itemIdentifier"`
			} `json:"batchItemFailures"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || !strings.HasSuffix(path, "/response") || answer.BatchItemFailures == nil {
			t.Errorf("%s: %s: %v", path, body, err)
		}
		for _, f := range answer.BatchItemFailures {
			failed = append(failed, f.ItemIdentifier)
		}
	}
	if want := []string{w.poison, w.poison}; !slices.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
	if events, milli := w.used(); events != 10 || milli != 30_000 {
		t.Errorf("%d events, %d millitokens", events, milli)
	}
	output.await(`"CloudWatchMetrics":.*"PoisonedRecords":1`)
}

// The program follows the stream with the SDK's own client, until it is interrupted.
func followsOverHTTP(t *testing.T, bin string) {
	t.Helper()
	w := newTaken(t, bin)
	output := newLines()
	end := w.aggregate(bin, output, nil, "--poll", "5ms")
	output.await(`"msg":"following"`)
	output.await(`"msg":"batch processed".*"pages":1`)
	if err := end(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
	output.await(`1 pages of usage, .* 0 failed`)
	if events, milli := w.used(); events != 10 || milli != 30_000 {
		t.Errorf("%d events, %d millitokens", events, milli)
	}
	// The program asks for the AWS configuration first, and invents nothing.
	cmd := exec.CommandContext(t.Context(), bin, "aggregate", "-n", streamed, "--endpoint-url", w.url)
	cmd.Env = bare(t, "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no AWS region") {
		t.Errorf("without a region: %v, %s", err, out)
	}
}
