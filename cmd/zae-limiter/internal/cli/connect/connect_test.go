package connect_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/connect"
	"github.com/zeroae/zae-limiter-go/dynamo"
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

// The commands write to a table without the SDK's middleware: its requests have a header that
// the client of package fastclient leaves out. That holds for stacks as well.
func TestItemsAreWrittenWithoutTheSDK(t *testing.T) {
	credentials(t)
	var bySDK []bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bySDK = append(bySDK, r.Header.Get("Amz-Sdk-Invocation-Id") != "")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	e := app.Endpoint{Region: "us-east-1", URL: server.URL}
	table, err := connect.DynamoDB(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := connect.Stack(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range []dynamo.ItemAPI{table, clients.Database} {
		_, err := api.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String("limits"), Key: map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "a"}},
		})
		if err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(bySDK, []bool{false, false}) {
		t.Errorf("the SDK made the requests: %v", bySDK)
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
