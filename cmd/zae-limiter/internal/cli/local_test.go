package cli_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// serveLocal runs zae-limiter local until the test ends.
func serveLocal(t *testing.T, args ...string) *background {
	t.Helper()
	b := startLocal(cli.Options{Getenv: func(string) string { return "" }}, args...)
	t.Cleanup(func() {
		if code, stderr := b.end(); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	})
	if b.url == "" {
		t.Fatal("it did not start")
	}
	return b
}

// A server without keys answers requests for its own names, and for those that it allows.
func TestLocalAllowsHosts(t *testing.T) {
	t.Parallel()
	b := serveLocal(t, "--allow-host", "db.example.com", "--allow-host", "limits")
	for host, status := range map[string]int{
		"db.example.com": http.StatusOK, "limits:8000": http.StatusOK, "localhost": http.StatusOK, "other.example.com": http.StatusForbidden,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != status {
			t.Errorf("%s is answered %d, want %d", host, answer.StatusCode, status)
		}
	}
}

// table makes a table with a stream, whose items expire by their attribute ttl.
func (b *background) table(t *testing.T, name string) *dynamodb.Client {
	t.Helper()
	c := newClient(b.url)
	_, err := c.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(name), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String(name), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// The server sweeps as often as it is told. One that sweeps once an hour keeps the item that
// another one deletes.
func TestLocalSweepsExpiredItems(t *testing.T) {
	t.Parallel()
	has := func(ctx context.Context, c *dynamodb.Client) bool {
		out, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("items"), Key: map[string]types.AttributeValue{"id": text("old")}, ConsistentRead: aws.Bool(true)})
		if err != nil {
			t.Fatal(err)
		}
		return out.Item != nil
	}
	var clients []*dynamodb.Client
	for _, every := range []string{"1h", "5ms"} {
		c := serveLocal(t, "--sweep-interval", every).table(t, "items")
		_, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("items"), Item: map[string]types.AttributeValue{
			"id": text("old"), "ttl": &types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for has(ctx, clients[1]) { // GetItem fails once the time is over
	}
	if !has(t.Context(), clients[0]) {
		t.Error("the server that sweeps once an hour has swept")
	}
}

// The stream keeps as much as it is told: of a hundred records of a kilobyte, a server with
// the default keeps all, and one with a few kilobytes the last ones.
func TestLocalKeepsBytesOfTheStream(t *testing.T) {
	t.Parallel()
	const written = 100
	for size, most := range map[string]int{"256MiB": written, "16KiB": 16} {
		b := serveLocal(t, "--stream-bytes", size)
		c := b.table(t, "items")
		for i := range written {
			_, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("items"), Item: map[string]types.AttributeValue{
				"id": text(strconv.Itoa(i)), "text": text(strings.Repeat("x", 1024)),
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		kept := records(t, b, c)
		if kept > most || kept == 0 || most == written && kept != written {
			t.Errorf("--stream-bytes %s: %d records are there, want at most %d", size, kept, most)
		}
	}
}

// records is how many records the stream of the table items has.
func records(t *testing.T, b *background, c *dynamodb.Client) (n int) {
	t.Helper()
	streams := dynamodbstreams.New(dynamodbstreams.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(b.url), Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	described, err := c.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("items")})
	must(err)
	arn := described.Table.LatestStreamArn
	d, err := streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	must(err)
	for _, sh := range d.StreamDescription.Shards {
		it, err := streams.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
			StreamArn: arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		must(err)
		page, err := streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
		must(err)
		n += len(page.Records)
	}
	return n
}
