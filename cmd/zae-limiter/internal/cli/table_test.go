package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// New tables let items expire, unless told not to.
func TestTableCreateSwitchesOnExpiry(t *testing.T) {
	t.Parallel()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	for _, c := range []struct {
		args []string
		want types.TimeToLiveStatus
	}{
		{[]string{"table", "create", "-n", "kept", "--keep-expired"}, types.TimeToLiveStatusDisabled},
		{[]string{"table", "create", "-n", "kept"}, types.TimeToLiveStatusEnabled},
		{[]string{"table", "create", "-n", "kept", "--keep-expired"}, types.TimeToLiveStatusEnabled},
	} {
		var stderr bytes.Buffer
		if code := cli.Run(t.Context(), cli.Options{
			Args: c.args, Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &stderr, Getenv: func(string) string { return "" },
			Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
		}); code != 0 {
			t.Fatalf("%v: exit code %d: %s", c.args, code, &stderr)
		}
		out, err := engine.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String("kept")})
		if err != nil {
			t.Fatal(err)
		}
		if got := out.TimeToLiveDescription.TimeToLiveStatus; got != c.want {
			t.Errorf("%v: expiry is %s, want %s", c.args, got, c.want)
		}
	}
}
