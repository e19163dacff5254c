//go:build conformance

package admin_test

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/store"
)

// Moto has backups, and forgets the same settings in a restoration as AWS does.
func TestBackupsOfMoto(t *testing.T) {
	t.Parallel()
	client := dynamodb.New(dynamodb.Options{
		Region: peers.Region, BaseEndpoint: aws.String(peers.Moto(t)),
		Credentials: credentials.NewStaticCredentialsProvider(peers.AccessKey, peers.SecretKey, ""),
	})
	if err := dynamo.CreateTable(t.Context(), client, dynamo.TableOptions{Name: table, Stream: true, Principal: "tester"}); err != nil {
		t.Fatal(err)
	}
	_, err := client.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{
		TableName: aws.String(table), PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := admin.New(admin.Options{API: client, Table: table, Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	b, err := a.CreateBackup(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if all, err := a.Backups(t.Context()); err != nil || len(all) != 1 || all[0].ARN != b.ARN {
		t.Errorf("listed %+v, %v", all, err)
	}
	d, err := a.Describe(t.Context())
	if err != nil || d.Recovery.Status != "ENABLED" {
		t.Fatalf("described %+v, %v", d, err)
	}
	for into, r := range map[string]admin.Restore{
		"from-backup": {Into: "from-backup", Backup: b.ARN}, "from-time": {Into: "from-time", To: d.Recovery.Latest},
	} {
		done, err := a.Restore(t.Context(), r)
		if err != nil || !slices.Contains(done.Enabled, "PITR") || !slices.Contains(done.Enabled, "TTL") {
			t.Errorf("%s: %+v, %v", into, done, err)
			continue
		}
		if _, err := dynamo.Open(t.Context(), dynamo.Options{API: client, Table: into}); err != nil {
			t.Errorf("%s: %v", into, err)
		}
	}
	_, err = a.Restore(t.Context(), admin.Restore{Into: "from-backup", Backup: b.ARN})
	fixture.WantErr(t, err, store.ErrExists)
	if err := a.DeleteBackup(t.Context(), b.ARN); err != nil {
		t.Error(err)
	}
	fixture.WantErr(t, a.DeleteBackup(t.Context(), b.ARN), store.ErrNotFound)
}

// DynamoDB Local has no backups, and says so in its own way.
func TestDynamoDBLocalHasNoBackups(t *testing.T) {
	t.Parallel()
	client := peers.DynamoDBLocal(t).Client
	if err := dynamo.CreateTable(t.Context(), client, dynamo.TableOptions{Name: table, Principal: "tester"}); err != nil {
		t.Fatal(err)
	}
	a, err := admin.New(admin.Options{API: client, Table: table, Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.CreateBackup(t.Context(), "nightly")
	fixture.WantErr(t, err, admin.ErrNoBackups)
	r, err := a.Check(t.Context(), dynamo.DefaultNamespace)
	if err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if arn, enabled, err := a.EnableStream(t.Context()); err != nil || !enabled || arn == "" {
		t.Errorf("%q, %v, %v", arn, enabled, err)
	}
	if err := a.Delete(t.Context()); err != nil {
		t.Error(err)
	}
}
