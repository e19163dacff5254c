package connect_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/connect"
)

// asks has a request to each of the services whose clients the command line makes.
var asks = map[string]func(context.Context, app.Endpoint) error{
	"DynamoDB": func(ctx context.Context, e app.Endpoint) error {
		c, err := connect.DynamoDB(ctx, e)
		if err != nil {
			return err
		}
		_, err = c.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("limits")})
		return err
	},
	"DynamoDB, an item": func(ctx context.Context, e app.Endpoint) error {
		c, err := connect.DynamoDB(ctx, e)
		if err != nil {
			return err
		}
		_, err = c.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("limits"), Key: map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "a"}}})
		return err
	},
	"CloudFormation": func(ctx context.Context, e app.Endpoint) error {
		c, err := connect.Stack(ctx, e)
		if err != nil {
			return err
		}
		_, err = c.CloudFormation.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{})
		return err
	},
	"S3": func(ctx context.Context, e app.Endpoint) error {
		c, err := connect.S3(ctx, e)
		if err != nil {
			return err
		}
		_, err = c.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String("limits")})
		return err
	},
	"SQS": func(ctx context.Context, e app.Endpoint) error {
		e.URL += "/123456789012/limits-dlq"
		c, err := connect.SQS(ctx, e)
		if err != nil {
			return err
		}
		_, err = c.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &e.URL})
		return err
	},
}

// credentials puts credentials into the environment, so a test that has them cannot be parallel.
func credentials(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_ACCESS_KEY_ID", "AKID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
}

// askAll sends one request of each service to an address, and compares the errors with a
// pattern.
func askAll(t *testing.T, url, want string) {
	t.Helper()
	credentials(t)
	for service, ask := range asks {
		err := ask(t.Context(), app.Endpoint{Region: "us-east-1", URL: url})
		if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) || strings.Contains(err.Error(), "RequestID: ,") {
			t.Errorf("%s: got error %v, want %s", service, err, want)
		}
	}
}

// An address that nobody serves is told as it is, and not as an answer of status 0.
func TestAnErrorOfNoAnswerHasNoStatus(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // on loopback
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	askAll(t, "http://"+address, `^operation error [\w ]+: \w+, \w+ "http://`+address+`/.*": dial tcp `+address+`: connect: connection refused$`)
}

// A server that is none of AWS is named with what it answered. A final answer is asked for once.
func TestAnAnswerOfAnotherServer(t *testing.T) {
	for _, tt := range []struct {
		status  int
		content string
		want    string
	}{
		{http.StatusOK, "text/html; charset=utf-8", "HTTP status 200 OK, content of type text/html; charset=utf-8"},
		{http.StatusNotFound, "text/html", "HTTP status 404 Not Found, content of type text/html"},
		{http.StatusNotFound, "text/plain", "HTTP status 404 Not Found, content of type text/plain"},
		{http.StatusFound, "", "HTTP status 302 Found, no content"},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header()["Content-Type"] = nil
			if tt.content != "" {
				w.Header().Set("Content-Type", tt.content)
			}
			w.WriteHeader(tt.status)
			if r.Method != http.MethodHead {
				_, _ = io.WriteString(w, "<html>")
			}
		}))
		t.Cleanup(server.Close)
		askAll(t, server.URL, regexp.QuoteMeta(server.URL+" does not answer as a service of AWS does, check the address: "+tt.want)+"$")
		if asked != len(asks) {
			t.Errorf("%d %s: asked %d times", tt.status, tt.content, asked)
		}
	}
}

// The answers of AWS stay as they are, whatever their status.
func TestAnAnswerOfAWSIsNotForeign(t *testing.T) {
	for _, header := range []struct{ name, value string }{
		{"X-Amzn-Requestid", "ABC"}, {"Content-Type", "application/x-amz-json-1.0"}, {"Content-Type", "text/xml"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(header.name, header.value)
			w.WriteHeader(http.StatusBadRequest)
		}))
		t.Cleanup(server.Close)
		askAllOwn(t, server.URL)
	}
}

func askAllOwn(t *testing.T, url string) {
	t.Helper()
	credentials(t)
	for service, ask := range asks {
		if err := ask(t.Context(), app.Endpoint{Region: "us-east-1", URL: url}); err == nil || strings.Contains(err.Error(), "does not answer as") {
			t.Errorf("%s: got error %v", service, err)
		}
	}
}

// A server that answers another question with JSON has no table, and the program does not take
// it for one.
func TestAnAnswerWithoutATable(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	}))
	t.Cleanup(server.Close)
	credentials(t)
	err := asks["DynamoDB"](t.Context(), app.Endpoint{Region: "us-east-1", URL: server.URL})
	if err == nil || !strings.Contains(err.Error(), "the answer does not describe a table") {
		t.Errorf("got error %v", err)
	}
}

// An overdue context is one whose deadline passes when done is closed.
type overdue struct {
	context.Context //nolint:containedctx // it is one

	done chan struct{}
}

func (c overdue) Done() <-chan struct{} { return c.done }

func (c overdue) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A request whose time is over says so.
func TestNoAnswerInTime(t *testing.T) {
	credentials(t)
	for service, ask := range asks {
		ctx := overdue{t.Context(), make(chan struct{})}
		never := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(ctx.done)
			<-never
		}))
		t.Cleanup(func() { close(never); server.Close() })
		err := ask(ctx, app.Endpoint{Region: "us-east-1", URL: server.URL})
		want := `no answer in time`
		if service == "DynamoDB, an item" { // a write may have an outcome
			want = `the request was sent, and its outcome is not known: context deadline exceeded`
		}
		if err == nil || !regexp.MustCompile(`^operation error [\w ]+: \w+, `+want+`$`).MatchString(err.Error()) {
			t.Errorf("%s: got error %v", service, err)
		}
	}
}

// A client waits a bounded time for the beginning of an answer, and then gives up.
func TestAServerThatDoesNotBeginToAnswerIsFinal(t *testing.T) {
	t.Parallel()
	if limit := connect.AnswerTimeout(); limit <= 0 || limit > 10*time.Second {
		t.Errorf("a client waits %v for an answer", limit)
	}
	never := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-never }))
	t.Cleanup(func() { close(never); server.Close() })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&http.Client{Transport: &http.Transport{ResponseHeaderTimeout: time.Millisecond}}).Do(r) //nolint:bodyclose // there is none
	if !app.IsUnanswered(err) || connect.IsRetried(fmt.Errorf("send: %w", err)) {
		t.Errorf("it is sent again after %v", err)
	}
}

// A wrong region or profile is told before anything is sent.
func TestAWrongEnvironmentIsWrongUsage(t *testing.T) {
	for _, tt := range []struct{ name, value, want string }{
		{"AWS_REGION", "us east", `invalid AWS region "us east": set AWS_REGION to the name of a region, us-east-1 for instance, or give --region`},
		{"AWS_PROFILE", "missing", `there is no AWS profile "missing": set AWS_PROFILE to one of ~/.aws/config, or add it with aws configure --profile`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			t.Setenv("AWS_CONFIG_FILE", "")
			t.Setenv("AWS_REGION", "us-east-1")
			t.Setenv(tt.name, tt.value)
			_, err := connect.DynamoDB(t.Context(), app.Endpoint{})
			if err == nil || err.Error() != tt.want {
				t.Errorf("got error %v, want %s", err, tt.want)
			}
		})
	}
}

// The endpoint says how long a server may take to begin an answer. A request to CloudFormation is
// then sent again, and one to DynamoDB is not.
func TestCloudFormationIsAskedAgain(t *testing.T) {
	credentials(t)
	const timeout = 50 * time.Millisecond
	for service, want := range map[string]int64{"CloudFormation": 3, "DynamoDB": 1, "DynamoDB, an item": 1} {
		var asked atomic.Int64
		never := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			asked.Add(1)
			<-never
		}))
		t.Cleanup(func() { close(never); server.Close() })
		err := asks[service](t.Context(), app.Endpoint{Region: "us-east-1", URL: server.URL, Timeout: timeout})
		if got := asked.Load(); !app.IsUnanswered(err) || got != want {
			t.Errorf("%s: asked %d times, want %d: %v", service, got, want, err)
		}
	}
}
