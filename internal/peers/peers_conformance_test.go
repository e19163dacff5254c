//go:build conformance

package peers_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/peers"
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
	var moto *peers.S3
	started := t.Run("suite", func(t *testing.T) { //nolint:paralleltest // the parent checks what is left behind
		moto = peers.Moto(t, "one")
		buckets, err := moto.Client.ListBuckets(t.Context(), &s3.ListBucketsInput{})
		if err != nil || len(buckets.Buckets) != 1 {
			t.Fatalf("buckets of a fresh server: %v, %v", buckets, err)
		}
	})
	if !started {
		return
	}
	if _, err := moto.Client.ListBuckets(t.Context(), &s3.ListBucketsInput{}, func(o *s3.Options) { o.RetryMaxAttempts = 1 }); err == nil {
		t.Error("the server still answers after its suite ended")
	}
}
