//go:build conformance

package peers

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// LocalStackAccount is the account of everything in a [LocalStack].
const LocalStackAccount = "000000000000"

// LocalStack is a running LocalStack: CloudFormation, Lambda, DynamoDB and what these
// need. It runs functions as processes, under the runtime interface emulator.
//
// Its CloudFormation reports success for changes that it does not make: changes of tables
// and log groups, point-in-time recovery, lifecycle rules, custom resources. It does not
// roll back. It says nothing about permissions. It has no imports of resources and no backups
// of tables: folder localstack adds them. A test must not conclude from it that AWS does
// any of these.
type LocalStack struct {
	// Endpoint is its URL for all services, on loopback.
	Endpoint string

	pid int
}

// StartLocalStack starts a fresh, empty LocalStack on a free loopback port and waits until
// it answers. When the test ends, LocalStack ends with its DynamoDB Local and its functions.
// Start one for a whole suite: each takes 10 to 20 seconds and 700 MB.
func StartLocalStack(tb testing.TB) *LocalStack {
	tb.Helper()
	installed := require(tb, "localstack", "zael", "lib")
	python := require(tb, "localstack", "bin", "python")
	environment := []string{
		"ZAEL_RUNTIME_EMULATOR=" + require(tb, "emulator", "aws-lambda-rie"),
		"ZAEL_DYNAMODB_LOCAL=" + filepath.Dir(require(tb, "dynamodb-local", "DynamoDBLocal-2.6.1.jar")),
		"OVERRIDE_IN_DOCKER=0", "LAMBDA_RUNTIME_EXECUTOR=process", "LAMBDA_SYNCHRONOUS_CREATE=1", "DYNAMODB_IN_MEMORY=1",
		"SKIP_SSL_CERT_DOWNLOAD=1", "DISABLE_EVENTS=1", "DNS_ADDRESS=0", "USE_SSL=0", "EAGER_SERVICE_LOADING=0",
		"PYTHONDONTWRITEBYTECODE=1", "LS_LOG=warning",
		// The streams of DynamoDB Local. The default copies records to a Kinesis whose sequence
		// numbers are longer than those that DynamoDB has.
		"PROVIDER_OVERRIDE_DYNAMODB=v2", "PROVIDER_OVERRIDE_DYNAMODBSTREAMS=v2",
		// A poll each second, even after polls that found nothing.
		"LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC=1",
	}
	var s *server
	var err error
	for range 3 { // another process may take the free port before LocalStack does
		l := &LocalStack{}
		root := localStackRoot(tb, installed)
		s, err = launch(tb, "localstack", func(port string) []string {
			own := append(environment, "FILESYSTEM_ROOT="+root, "GATEWAY_LISTEN=127.0.0.1:"+port) //nolint:gocritic // env starts from a list of full capacity
			return append(append([]string{"env"}, own...), python, "-m", "localstack.runtime.main")
		}, func(ctx context.Context, endpoint string) error {
			l.Endpoint = endpoint
			return l.ready(ctx)
		})
		if err == nil {
			l.pid = s.pid
			tb.Cleanup(func() { s.tell(tb) })
			return l
		}
	}
	tb.Fatalf("peers: start LocalStack: %v", err)
	return nil
}

// localStackRoot makes an empty file system of LocalStack, with what is installed for it.
func localStackRoot(tb testing.TB, installed string) string {
	tb.Helper()
	root := tb.TempDir()
	lib := filepath.Join(root, "usr", "lib")
	if err := os.MkdirAll(lib, 0o700); err != nil {
		tb.Fatalf("peers: %v", err)
	}
	if err := os.Symlink(installed, filepath.Join(lib, "localstack")); err != nil {
		tb.Fatalf("peers: %v", err)
	}
	return root
}

// ready asks for the health of LocalStack.
func (l *LocalStack) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.Endpoint+"/_localstack/health", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("health: %s", answer.Status)
	}
	return nil
}

// Config is the configuration of clients of LocalStack.
func (l *LocalStack) Config() aws.Config {
	return aws.Config{
		Region: Region, BaseEndpoint: aws.String(l.Endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
}

// Environment is the environment of programs that use LocalStack, as NAME=value.
func (l *LocalStack) Environment() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + l.Endpoint, "AWS_REGION=" + Region, "AWS_DEFAULT_REGION=" + Region,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true",
	}
}

// PID is the process id of LocalStack, above those of its DynamoDB Local and functions.
func (l *LocalStack) PID() int { return l.pid }
