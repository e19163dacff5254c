//go:build conformance

package emulated_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// TestOnLocalStack has every test that needs a LocalStack, because starting one takes long.
func TestOnLocalStack(t *testing.T) {
	t.Parallel()
	cloud := peers.StartLocalStack(t)
	for name, test := range map[string]func(*testing.T, *peers.LocalStack){
		"the program saves usage behind an event source mapping": savesBehindAMapping,
		"a stack is deployed, used, changed, upgraded, deleted":  livesAndDies,
		"a stack is deleted with its data":                       takesItsData,
		"a kept table and archive get a stack again":             getsAStackAgain,
		"a restored table gets a stack":                          getsAStackAfterARestoration,
		"the peer works on our stack":                            servesThePeer,
		"the adoption of the peer's stack keeps its table":       plansAnAdoption,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, cloud)
		})
	}
}

// savesBehindAMapping makes table, function and mapping by hand. LocalStack does not check
// permissions, and polls each second whatever batching window a mapping has.
func savesBehindAMapping(t *testing.T, cloud *peers.LocalStack) {
	t.Helper()
	const name = "mapped"
	db, functions := dynamodb.NewFromConfig(cloud.Config()), lambda.NewFromConfig(cloud.Config())
	store := created(t, db, name)
	_, err := functions.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: aws.String(name), Handler: aws.String("aggregator"), Runtime: types.RuntimeProvidedal2023,
		Role: aws.String("arn:aws:iam::" + peers.LocalStackAccount + ":role/aggregator"), Timeout: aws.Int32(30),
		Code:        &types.FunctionCode{ZipFile: zipped(t, bootstrap(t))},
		Environment: &types.Environment{Variables: map[string]string{"TABLE_NAME": name}},
	})
	if err != nil {
		t.Fatal(err)
	}
	table, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(name)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := functions.CreateEventSourceMapping(t.Context(), &lambda.CreateEventSourceMappingInput{
		EventSourceArn: table.Table.LatestStreamArn, FunctionName: aws.String(name), StartingPosition: types.EventSourcePositionTrimHorizon,
		FunctionResponseTypes: []types.FunctionResponseType{types.FunctionResponseTypeReportBatchItemFailures},
	}); err != nil {
		t.Fatal(err)
	}
	awaitLastPage(t, db, name, store, "user", 7)
	awaitLastPage(t, db, name, store, "other", 2) // by the process that runs already
}

// zipped returns a zip with one executable, under its own name.
func zipped(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	archive := zip.NewWriter(&all)
	header := &zip.FileHeader{Name: filepath.Base(path), Method: zip.Deflate}
	header.SetMode(0o755)
	file, err := archive.CreateHeader(header)
	if err == nil {
		_, err = io.Copy(file, bytes.NewReader(text))
	}
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return all.Bytes()
}
