//go:build conformance

package peers_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

func TestDynamoDBLocalIsFreshAndDiesWithTheTest(t *testing.T) {
	t.Parallel()
	var local *peers.Local
	started := t.Run("suite", func(t *testing.T) { //nolint:paralleltest // the parent checks what is left behind
		local = peers.DynamoDBLocal(t)
		tables, err := local.Client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
		if err != nil || len(tables.TableNames) != 0 {
			t.Fatalf("tables of a fresh server: %v, %v", tables, err)
		}
	})
	if !started {
		return
	}
	_, err := local.Client.ListTables(t.Context(), &dynamodb.ListTablesInput{}, func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
	if err == nil {
		t.Error("the server still answers after its suite ended")
	}
}

func TestPythonHasThePeer(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), peers.Python(t), "-c",
		"import importlib.metadata as m, zae_limiter; print(m.version('zae-limiter'))").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "0.17.0" {
		t.Errorf("the peer's version: %s, %v", out, err)
	}
}

func TestMotoIsFreshAndDiesWithTheTest(t *testing.T) {
	t.Parallel()
	var client *dynamodb.Client
	list := func() (*dynamodb.ListTablesOutput, error) {
		return client.ListTables(t.Context(), &dynamodb.ListTablesInput{}, func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
	}
	started := t.Run("suite", func(t *testing.T) { //nolint:paralleltest // the parent checks what is left behind
		client = dynamodb.New(dynamodb.Options{
			Region: peers.Region, BaseEndpoint: aws.String(peers.Moto(t)),
			Credentials: credentials.NewStaticCredentialsProvider(peers.AccessKey, peers.SecretKey, ""),
		})
		if tables, err := list(); err != nil || len(tables.TableNames) != 0 {
			t.Fatalf("tables of a fresh server: %v, %v", tables, err)
		}
	})
	if !started {
		return
	}
	if _, err := list(); err == nil {
		t.Error("the server still answers after its suite ended")
	}
}
