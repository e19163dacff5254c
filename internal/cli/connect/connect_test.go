package connect_test

import (
	"net"
	"syscall"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/internal/cli/connect"
)

// A connection that never came about is final; one that broke is not.
func TestOnlyAnUnreachedAddressIsFinal(t *testing.T) {
	t.Parallel()
	for op, want := range map[string]bool{"dial": false, "read": true} {
		err := &smithyhttp.RequestSendError{Err: &net.OpError{Op: op, Net: "tcp", Err: syscall.ECONNRESET}}
		if got := connect.IsRetried(err); got != want {
			t.Errorf("%s: retried %v, want %v", op, got, want)
		}
	}
}

// A server that takes requests and never answers does not hold up a command for ever, and a
// long poll of SQS, of 20 seconds at most, is not cut off.
func TestAnAnswerThatNeverComesEndsTheWait(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	cfg, err := connect.Load(t.Context(), app.Endpoint{Region: "eu-west-1", URL: "http://localhost:1"})
	if err != nil {
		t.Fatal(err)
	}
	client, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		t.Fatalf("the client is a %T", cfg.HTTPClient)
	}
	const longPoll = 20 * time.Second
	if limit := client.GetTransport().ResponseHeaderTimeout; limit <= longPoll || limit > time.Minute {
		t.Errorf("an answer may take %v to begin", limit)
	}
	if !connect.IsRetried(&smithyhttp.RequestSendError{Err: timeout{}}) {
		t.Error("a request without an answer is not sent again")
	}
}

// A timeout is the error of an HTTP client that waited for an answer.
type timeout struct{}

func (timeout) Error() string   { return "net/http: timeout awaiting response headers" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// An emulator has no host name for each bucket, however it is named.
func TestABucketOfAnEmulatorIsAPath(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	for _, c := range []struct {
		flag, environment string
		path              bool
	}{{"", "", false}, {"http://localhost:4566", "", true}, {"", "http://localhost:4566", true}} {
		t.Setenv("AWS_ENDPOINT_URL", c.environment)
		clients, err := connect.Stack(t.Context(), app.Endpoint{Region: "eu-west-1", URL: c.flag})
		if err != nil {
			t.Fatal(err)
		}
		buckets, ok := clients.Buckets.(*s3.Client)
		if !ok || buckets.Options().UsePathStyle != c.path {
			t.Errorf("flag %q, environment %q: %T has buckets as paths: %v", c.flag, c.environment, clients.Buckets, !c.path)
		}
	}
}
