//go:build conformance

package emulated_test

import (
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// getsAStackAgain deletes a stack, and deploys it again around its table and its archive.
// The import is our own addition to LocalStack: the test proves that the program's change
// sets fit together, and that the items and the function's work go on. What AWS imports, the
// strict CloudFormation in cmd/zae-limiter/internal/test/cfntest judges.
func getsAStackAgain(t *testing.T, cloud *peers.LocalStack) {
	t.Helper()
	op := newCaller(t, cloud, "kept")
	var made, again outcome
	op.must(&made, "deploy", "--name", op.table, "--yes")
	op.setLimit()
	op.acquire(4)
	op.awaitUsage(counted{Events: 1, Tokens: 4})
	op.must(new(struct{}), "delete", "--name", op.table, "--yes")
	op.acquire(1) // no aggregator runs
	op.leaves(5)

	archive := made.Outputs["AuditArchiveBucketName"]
	adopt := []string{"deploy", "--name", op.table, "--adopt-table", "--adopt-archive", archive}
	op.must(&outcome{}, append(adopt, "--dry-run")...)
	if _, code := op.run("rollback", "--name", op.table, "--yes"); code != 1 {
		t.Errorf("a dry run leaves a stack: exit code %d", code)
	}
	op.must(&again, append(adopt, "--yes")...)
	for _, resource := range []string{"RateLimitsTable", "AuditArchiveBucket", "AuditArchiveBucketPolicy"} {
		if c, ok := again.change(resource); !ok || c.Action != "Import" {
			t.Errorf("the first change of %s is %+v, %v", resource, c, ok)
		}
	}
	if again.Outputs["AuditArchiveBucketName"] != archive {
		t.Errorf("the outputs are %v, and the archive was %s", again.Outputs, archive)
	}
	op.leaves(5)
	op.awaitUsage(counted{Events: 2, Tokens: 5}) // also what was acquired without an aggregator, once
	op.serves(5, counted{Events: 3, Tokens: 10})

	op.must(new(struct{}), "delete", "--name", op.table, "--yes") // a stack keeps what it has adopted
	op.leaves(0)
	if _, err := s3.NewFromConfig(cloud.Config(), pathStyle).HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String(archive)}); err != nil {
		t.Errorf("the archive %q is gone: %v", archive, err)
	}
}

// getsAStackAfterARestoration restores a backup beside its table, and gives the restored
// table a stack. The backups are our own addition to LocalStack.
func getsAStackAfterARestoration(t *testing.T, cloud *peers.LocalStack) {
	t.Helper()
	former, op := newCaller(t, cloud, "saved"), newCaller(t, cloud, "saved-restored")
	former.must(new(outcome), "deploy", "--name", former.table, "--yes")
	former.setLimit()
	former.acquire(4)
	former.awaitUsage(counted{Events: 1, Tokens: 4})
	var backup struct {
		ARN string `json:"backup_arn"`
	}
	former.must(&backup, "backup", "create", "before", "--name", former.table)
	former.acquire(2)

	var restored struct {
		Enabled []string `json:"enabled_again"`
	}
	former.must(&restored, "backup", "restore", op.table, "--backup", backup.ARN, "--name", former.table)
	if len(restored.Enabled) == 0 {
		t.Errorf("the restoration: %+v", restored)
	}
	op.leaves(6)
	var deployed outcome
	op.must(&deployed, "deploy", "--name", op.table, "--adopt-table", "--yes")
	if c, ok := deployed.change("RateLimitsTable"); !ok || c.Action != "Import" {
		t.Errorf("the first change of the table is %+v, %v", c, ok)
	}
	op.leaves(6)
	op.serves(6, counted{Events: 2, Tokens: 10})
	former.leaves(4) // it has its own bucket and its own usage
	former.awaitUsage(counted{Events: 2, Tokens: 6})
}

// A caller is an operator who also acquires, for one entity of one table.
type caller struct {
	*operator
	table string
}

func newCaller(t *testing.T, cloud *peers.LocalStack, table string) *caller {
	t.Helper()
	return &caller{newOperator(t, cloud), table}
}

// setLimit sets a limit that earns no token while a test runs.
func (c *caller) setLimit() {
	c.t.Helper()
	c.must(new(struct{}), "resource", "set-defaults", "gpt-4", "--limit", "rpd:10/day", "--name", c.table)
}

// acquire takes n tokens.
func (c *caller) acquire(n int) {
	c.t.Helper()
	c.must(new(struct{}), c.acquisition(n)...)
}

func (c *caller) acquisition(n int) []string {
	return []string{"acquire", "user", "gpt-4", "--consume", "rpd=" + strconv.Itoa(n), "--name", c.table}
}

// leaves fails the test unless the bucket has n tokens.
func (c *caller) leaves(n int64) {
	c.t.Helper()
	var standing struct {
		Limits []struct{ Available int64 }
	}
	c.must(&standing, "standing", "user", "gpt-4", "--name", c.table)
	if len(standing.Limits) != 1 || standing.Limits[0].Available != n {
		c.t.Errorf("the bucket of table %s is %+v, and %d tokens are left", c.table, standing, n)
	}
}

// awaitUsage waits until the usage of the user is this.
func (c *caller) awaitUsage(want counted) {
	c.t.Helper()
	awaitCount(c.t, opened(c.t, dynamodb.NewFromConfig(c.cloud.Config()), c.table), "user", want)
}

// serves fails the test unless the stack is in order, the last n tokens are granted and then
// no more, and the aggregator saves usage.
func (c *caller) serves(n int, want counted) {
	c.t.Helper()
	if _, code := c.run("status", "--name", c.table); code != 0 {
		c.t.Errorf("status of a stack in order: exit code %d", code)
	}
	c.acquire(n)
	if _, code := c.run(c.acquisition(1)...); code != 3 {
		c.t.Errorf("more than the limit: exit code %d", code)
	}
	c.awaitUsage(want)
	db := dynamodb.NewFromConfig(c.cloud.Config())
	awaitLastPage(c.t, db, c.table, opened(c.t, db, c.table), "gone", 2)
	var repeated outcome
	c.must(&repeated, "deploy", "--name", c.table, "--adopt-table", "--yes")
	if len(repeated.Changes) > 0 {
		c.t.Errorf("the adoption once more changes %+v", repeated.Changes)
	}
}
