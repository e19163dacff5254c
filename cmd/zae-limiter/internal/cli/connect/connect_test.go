package connect_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/connect"
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
