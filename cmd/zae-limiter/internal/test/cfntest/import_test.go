package cfntest_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
)

const bucketAlone = `
Resources:
  Bucket: {Type: AWS::S3::Bucket, DeletionPolicy: Retain}
`

// imports asks for a change set of the type IMPORT. It returns the error, or the reason for
// which CloudFormation made none.
func imports(t *testing.T, c *cfntest.Cloud, stack, body string, of ...types.ResourceToImport) string {
	t.Helper()
	name := "import"
	if _, err := c.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{
		StackName: &stack, ChangeSetName: &name, ChangeSetType: types.ChangeSetTypeImport, TemplateBody: &body, ResourcesToImport: of,
	}); err != nil {
		return err.Error()
	}
	out, err := c.DescribeChangeSet(t.Context(), &cloudformation.DescribeChangeSetInput{StackName: &stack, ChangeSetName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.StatusReason)
}

func bucket(name string) types.ResourceToImport {
	return types.ResourceToImport{LogicalResourceId: aws.String("Bucket"), ResourceType: aws.String("AWS::S3::Bucket"), ResourceIdentifier: map[string]string{"BucketName": name}}
}

func TestWhatAWSDoesNotImportIsRefused(t *testing.T) {
	t.Parallel()
	wrongKey := bucket("mine")
	wrongKey.ResourceIdentifier = map[string]string{"Name": "mine"}
	queue := types.ResourceToImport{LogicalResourceId: aws.String("Queue"), ResourceType: aws.String("AWS::SQS::Queue"), ResourceIdentifier: map[string]string{"QueueName": "q"}}
	for name, c := range map[string]struct {
		body string
		of   []types.ResourceToImport
		says string
	}{
		"a bucket":           {bucketAlone, []types.ResourceToImport{bucket("mine")}, ""},
		"nothing":            {bucketAlone, nil, "ResourcesToImport must be specified"},
		"no policy":          {strings.Replace(bucketAlone, ", DeletionPolicy: Retain", "", 1), []types.ResourceToImport{bucket("mine")}, "[Bucket] must have DeletionPolicy attribute"},
		"another identifier": {bucketAlone, []types.ResourceToImport{wrongKey}, "Invalid identifiers"},
		"what is not there":  {bucketAlone, []types.ResourceToImport{bucket("yours")}, "was not found"},
		"another resource":   {bucketAlone + "  Topic: {Type: AWS::SNS::Topic}\n", []types.ResourceToImport{bucket("mine")}, "You have modified resources [Topic]"},
		"an output":          {bucketAlone + "Outputs: {A: {Value: b}}\n", []types.ResourceToImport{bucket("mine")}, "cannot modify or add [Outputs]"},
		"a type":             {bucketAlone + "  Queue: {Type: AWS::SQS::Queue, DeletionPolicy: Retain}\n", []types.ResourceToImport{queue}, "not supported for resource import"},
		"another name":       {strings.Replace(bucketAlone, "Retain", "Retain, Properties: {BucketName: other}", 1), []types.ResourceToImport{bucket("mine")}, "differs from its value in the template"},
		"a missing resource": {bucketAlone, []types.ResourceToImport{queue}, "not in the template"},
	} {
		cloud := cfntest.New(cfntest.Options{})
		cloud.AddBucket("mine")
		if got := imports(t, cloud, "s", c.body, c.of...); got != c.says && (c.says == "" || !strings.Contains(got, c.says)) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAResourceBelongsToOneStack(t *testing.T) {
	t.Parallel()
	c := cfntest.New(cfntest.Options{})
	c.AddBucket("mine")
	if reason := imports(t, c, "s", bucketAlone, bucket("mine")); reason != "" {
		t.Fatal(reason)
	}
	if got := run(t, c, "s", "import"); got != "IMPORT_COMPLETE" {
		t.Fatalf("status %s", got)
	}
	if got := imports(t, c, "t", bucketAlone, bucket("mine")); !strings.Contains(got, "already exists in stack") {
		t.Errorf("reason %q", got)
	}
	if got := imports(t, c, "s", bucketAlone+"  Topic: {Type: AWS::SNS::Topic}\n"); !strings.Contains(got, "ResourcesToImport must be specified") && !strings.Contains(got, "already exists") {
		t.Errorf("reason %q", got)
	}
}

// A failed import leaves its resources as they are, outside any stack.
func TestAnImportThatFailsLeavesTheResource(t *testing.T) {
	t.Parallel()
	c := cfntest.New(cfntest.Options{})
	c.AddBucket("mine")
	c.Fail("IMPORT", "Bucket", "no")
	if reason := imports(t, c, "s", bucketAlone, bucket("mine")); reason != "" {
		t.Fatal(reason)
	}
	if got := run(t, c, "s", "import"); got != "IMPORT_ROLLBACK_COMPLETE" || !c.Exists("AWS::S3::Bucket", "mine") {
		t.Errorf("status %s, the bucket exists: %v", got, c.Exists("AWS::S3::Bucket", "mine"))
	}
	if got := c.Properties("s", "Bucket"); got != nil {
		t.Errorf("the stack has the bucket: %v", got)
	}
}
