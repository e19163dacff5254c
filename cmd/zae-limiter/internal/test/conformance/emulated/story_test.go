//go:build conformance

package emulated_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// livesAndDies takes a stack from its first deployment to its deletion. LocalStack checks no
// permissions and does not roll back. It ignores point-in-time recovery, lifecycle rules,
// custom resources, and changes of tables: the test proves nothing about these.
func livesAndDies(t *testing.T, cloud *peers.LocalStack) {
	t.Helper()
	const name = "story"
	op := newOperator(t, cloud)
	db := dynamodb.NewFromConfig(cloud.Config())

	var made outcome
	op.must(&made, "deploy", "--name", name, "--yes")
	if made.Status != "CREATE_COMPLETE" && made.Status != "UPDATE_COMPLETE" || len(made.Remaining) > 0 {
		t.Fatalf("deployed: %+v", made)
	}
	for _, resource := range []string{"RateLimitsTable", "AggregatorFunction"} { // of the first change set, and of the second
		if c, ok := made.change(resource); !ok || c.Action != "Add" {
			t.Errorf("the change of %s is %+v, %v", resource, c, ok)
		}
	}
	for key, value := range made.Outputs {
		if value == "" {
			t.Errorf("output %s is empty", key)
		}
	}
	store := opened(t, db, name)
	take(t, store, "user", 5)
	awaitLastPage(t, db, name, store, "gone", 5)
	if _, code := op.run("status", "--name", name); code != 0 {
		t.Errorf("status of a stack in order: exit code %d", code)
	}

	before := op.function(name + "-aggregator")
	var changed outcome
	op.must(&changed, "deploy", "--name", name, "--yes", "--lambda-memory", "512", "--lambda-timeout", "45")
	if after := op.function(name + "-aggregator"); after.memory != 512 || after.timeout != 45 || after.code != before.code {
		t.Errorf("the function is %+v after the change, and was %+v", after, before)
	}
	if c, ok := changed.change("RateLimitsTable"); ok && c.Replacement != "False" {
		t.Errorf("a change of the function replaces the table: %+v", c)
	}

	var upgraded, repaired outcome
	upgrade := []string{"upgrade", "--name", name, "--yes", "--lambda-zip", op.otherZip()}
	op.must(&upgraded, upgrade...)
	if len(upgraded.Changes) == 0 || len(upgraded.Repaired) > 0 {
		t.Errorf("the upgrade: %+v", upgraded)
	}
	op.breakFunction(name + "-aggregator")
	op.must(&repaired, upgrade...)
	if after := op.function(name + "-aggregator"); after.code == before.code || after.memory != 512 || len(repaired.Changes) > 0 || len(repaired.Repaired) != 1 {
		t.Errorf("the function is %+v after a repair, and was %+v; the upgrade says %+v", after, before, repaired)
	}
	awaitLastPage(t, db, name, store, "gone-later", 3)

	archive := made.Outputs["AuditArchiveBucketName"]
	op.must(new(struct{}), "delete", "--name", name, "--yes")
	if _, code := op.run("deploy", "--name", name, "--dry-run"); code != 1 {
		t.Errorf("a deployment over the table that stays: exit code %d", code)
	}
	if _, code := op.run("rollback", "--name", name, "--yes"); code != 1 {
		t.Errorf("the stack exists after it was deleted: exit code %d", code)
	}
	take(t, opened(t, db, name), "user", 1) // the table stays, with all that it has
	for entity, n := range map[string]int64{"user": 6, "gone": 5, "gone-later": 3} {
		awaitCount(t, store, entity, counted{Events: n, Tokens: 3 * n})
	}
	if _, err := s3.NewFromConfig(cloud.Config(), pathStyle).HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String(archive)}); err != nil {
		t.Errorf("the archive %q is gone: %v", archive, err)
	}
}

// takesItsData deletes a stack with its table.
func takesItsData(t *testing.T, cloud *peers.LocalStack) {
	t.Helper()
	const name = "doomed"
	op := newOperator(t, cloud)
	db := dynamodb.NewFromConfig(cloud.Config())
	var made outcome
	op.must(&made, "deploy", "--name", name, "--yes")
	take(t, opened(t, db, name), "user", 1)
	if _, code := op.run("delete", "--name", name, "--yes", "--delete-data", "other"); code != 2 {
		t.Errorf("delete with the wrong name: exit code %d", code)
	}
	opened(t, db, name)
	op.must(new(struct{}), "delete", "--name", name, "--yes", "--delete-data", name)
	if _, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(name)}); err == nil {
		t.Error("the table is still there")
	}
	archive := made.Outputs["AuditArchiveBucketName"]
	if _, err := s3.NewFromConfig(cloud.Config(), pathStyle).HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String(archive)}); archive == "" || err == nil {
		t.Errorf("the archive %q is still there", archive)
	}
	op.must(new(struct{}), "delete", "--name", name, "--yes", "--delete-data", name) // again, as after a crash
}

func pathStyle(o *s3.Options) { o.UsePathStyle = true }

// deployed is what Lambda says of a function.
type deployed struct {
	memory, timeout int32
	code            string
}

func (o *operator) function(name string) deployed {
	o.t.Helper()
	f, err := lambda.NewFromConfig(o.cloud.Config()).GetFunctionConfiguration(o.t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: aws.String(name)})
	if err != nil {
		o.t.Fatal(err)
	}
	return deployed{aws.ToInt32(f.MemorySize), aws.ToInt32(f.Timeout), aws.ToString(f.CodeSha256)}
}

// breakFunction changes the settings of a function by hand, so that it cannot work.
func (o *operator) breakFunction(name string) {
	o.t.Helper()
	if _, err := lambda.NewFromConfig(o.cloud.Config()).UpdateFunctionConfiguration(o.t.Context(), &lambda.UpdateFunctionConfigurationInput{
		FunctionName: &name, MemorySize: aws.Int32(128), Handler: aws.String("index.handler"),
		Environment: &types.Environment{Variables: map[string]string{}},
	}); err != nil {
		o.t.Fatal(err)
	}
}

// otherZip is the code of the functions with other bytes: the program with its symbols.
func (o *operator) otherZip() string {
	o.t.Helper()
	folder := o.t.TempDir()
	binary, zip := filepath.Join(folder, "zae-limiter"), filepath.Join(folder, "lambda.zip")
	build := exec.CommandContext(o.t.Context(), "go", "build", "-trimpath", "-ldflags=-w", "-o", binary, "../../../..")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		o.t.Fatalf("build: %v\n%s", err, out)
	}
	if out, err := exec.CommandContext(o.t.Context(), binary, "lambda-export", "--out", zip).CombinedOutput(); err != nil {
		o.t.Fatalf("lambda-export: %v\n%s", err, out)
	}
	return zip
}
