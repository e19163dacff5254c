package iamtrace_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/iamtrace"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

var (
	table = aws.String("limits")
	arn   = aws.String("arn:aws:dynamodb:eu-west-1:123456789012:table/limits/stream/2026-01-02T03:04:05.678")

	stackARN = aws.String("arn:aws:cloudformation:eu-west-1:123456789012:stack/limits/1")
)

func key(pk string) schema.Item { return schema.Key{PK: pk, SK: "s"}.Item() }

// Each case is a request and what IAM judges about it, by the rules of AWS's documents.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		input any
		want  []string
	}{
		{"one item", &dynamodb.GetItemInput{TableName: table, Key: key("a/X#")}, []string{"dynamodb:GetItem table/limits a/X#"}},
		{"a whole item", &dynamodb.PutItemInput{TableName: table, Item: key("a/X#")}, []string{"dynamodb:PutItem table/limits a/X#"}},
		{"an update", &dynamodb.UpdateItemInput{TableName: table, Key: key("a/X#")}, []string{"dynamodb:UpdateItem table/limits a/X#"}},
		{"a deletion", &dynamodb.DeleteItemInput{TableName: table, Key: key("a/X#")}, []string{"dynamodb:DeleteItem table/limits a/X#"}},
		{"a query of the table", &dynamodb.QueryInput{
			TableName: table, KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
			ExpressionAttributeValues: schema.Item{":pk": schema.S("a/X#"), ":sk": schema.S("#Y")},
		}, []string{"dynamodb:Query table/limits a/X#"}},
		{"a query of an index has the keys of the index", &dynamodb.QueryInput{
			TableName: table, IndexName: aws.String("GSI4"), KeyConditionExpression: aws.String("#k=:ns"),
			ExpressionAttributeNames: map[string]string{"#k": "GSI4PK"}, ExpressionAttributeValues: schema.Item{":ns": schema.S("a")},
		}, []string{"dynamodb:Query table/limits/index/GSI4 a"}},
		{"a sort key is no leading key", &dynamodb.QueryInput{
			TableName: table, IndexName: aws.String("GSI1"), KeyConditionExpression: aws.String("GSI1PK = :p AND GSI1SK = :s"),
			ExpressionAttributeValues: schema.Item{":p": schema.S("a/P#"), ":s": schema.S("b/Q#")},
		}, []string{"dynamodb:Query table/limits/index/GSI1 a/P#"}},
		{"a scan has no keys", &dynamodb.ScanInput{TableName: table}, []string{"dynamodb:Scan table/limits"}},
		{"a scan of an index", &dynamodb.ScanInput{TableName: table, IndexName: aws.String("GSI4")}, []string{"dynamodb:Scan table/limits/index/GSI4"}},
		{"a batch is judged with all its keys, for each table", &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			"limits": {Keys: []schema.Item{key("b/X#"), key("a/X#"), key("b/X#")}}, "audit": {Keys: []schema.Item{key("c/X#")}},
		}}, []string{"dynamodb:BatchGetItem table/audit c/X#", "dynamodb:BatchGetItem table/limits a/X# b/X#"}},
		{"a batch of writes is an action of its own", &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"limits": {
			{DeleteRequest: &types.DeleteRequest{Key: key("a/X#")}}, {PutRequest: &types.PutRequest{Item: key("b/X#")}},
		}}}, []string{"dynamodb:BatchWriteItem table/limits a/X# b/X#"}},
		{"a transaction is judged by the actions of its parts", &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Update: &types.Update{TableName: table, Key: key("b/X#")}},
			{Put: &types.Put{TableName: table, Item: key("a/X#")}},
			{Update: &types.Update{TableName: table, Key: key("a/X#")}},
			{Delete: &types.Delete{TableName: table, Key: key("c/X#")}},
			{ConditionCheck: &types.ConditionCheck{TableName: table, Key: key("d/X#")}},
		}}, []string{
			"dynamodb:UpdateItem@TransactWriteItems table/limits a/X# b/X#", "dynamodb:PutItem@TransactWriteItems table/limits a/X#",
			"dynamodb:DeleteItem@TransactWriteItems table/limits c/X#", "dynamodb:ConditionCheckItem@TransactWriteItems table/limits d/X#",
		}},
		{"a table", &dynamodb.DescribeTableInput{TableName: table}, []string{"dynamodb:DescribeTable table/limits"}},
		{"a stream", &dynamodbstreams.DescribeStreamInput{StreamArn: arn}, []string{"dynamodb:DescribeStream table/limits/stream/2026-01-02T03:04:05.678"}},
		{"an iterator does not name its stream", &dynamodbstreams.GetRecordsInput{ShardIterator: arn}, []string{"dynamodb:GetRecords table/*/stream/*"}},
		{"looking for a bucket is listing it", &s3.HeadBucketInput{Bucket: aws.String("trail")}, []string{"s3:ListBucket trail"}},
		{"an object", &s3.PutObjectInput{Bucket: aws.String("trail"), Key: aws.String("a/b")}, []string{"s3:PutObject trail/a/b"}},
		{"an object that may be absent", &s3.HeadObjectInput{Bucket: aws.String("code"), Key: aws.String("a")}, []string{"s3:ListBucket code", "s3:GetObject code/a"}},
		{"a version of an object is deleted by an action of its own", &s3.DeleteObjectsInput{Bucket: aws.String("code"), Delete: &s3types.Delete{
			Objects: []s3types.ObjectIdentifier{{Key: aws.String("a")}, {Key: aws.String("b"), VersionId: aws.String("1")}},
		}}, []string{"s3:DeleteObject code/a", "s3:DeleteObjectVersion code/b"}},
		{"a list of versions", &s3.ListObjectVersionsInput{Bucket: aws.String("code")}, []string{"s3:ListBucketVersions code"}},
		{"a restoration writes the new table", &dynamodb.RestoreTableFromBackupInput{
			BackupArn: aws.String("arn:aws:dynamodb:eu-west-1:123456789012:table/limits/backup/1"), TargetTableName: aws.String("copy"),
		}, []string{
			"dynamodb:RestoreTableFromBackup table/limits/backup/1", "dynamodb:RestoreTableFromBackup table/copy", "dynamodb:BatchWriteItem table/copy",
			"dynamodb:DeleteItem table/copy", "dynamodb:GetItem table/copy", "dynamodb:PutItem table/copy", "dynamodb:Query table/copy", "dynamodb:Scan table/copy", "dynamodb:UpdateItem table/copy",
		}},
		{"a list of backups has no resource", &dynamodb.ListBackupsInput{TableName: table}, []string{"dynamodb:ListBackups *"}},
		{"a stack by its name", &cloudformation.DescribeStacksInput{StackName: table}, []string{"cloudformation:DescribeStacks stack/limits/*"}},
		{"a stack by its ARN", &cloudformation.DeleteStackInput{StackName: stackARN}, []string{"cloudformation:DeleteStack stack/limits/1"}},
		{"all stacks are a list", &cloudformation.DescribeStacksInput{}, []string{"cloudformation:ListStacks *", "cloudformation:DescribeStacks stack/*/*"}},
		{"a template without a stack", &cloudformation.GetTemplateSummaryInput{TemplateBody: aws.String("{}")}, []string{"cloudformation:GetTemplateSummary *"}},
		{"a change set is judged by its stack", &cloudformation.ExecuteChangeSetInput{ChangeSetName: arn, StackName: stackARN}, []string{"cloudformation:ExecuteChangeSet stack/limits/1"}},
		{"a queue", &sqs.ReceiveMessageInput{QueueUrl: aws.String("https://sqs.eu-west-1.amazonaws.com/123456789012/dlq")}, []string{"sqs:ReceiveMessage dlq"}},
		{"a log group", &cloudwatchlogs.FilterLogEventsInput{LogGroupName: aws.String("/aws/lambda/f")}, []string{"logs:FilterLogEvents log-group:/aws/lambda/f:*"}},
		{"the tasks of a cluster", &ecs.ListTasksInput{Cluster: aws.String("c")}, []string{"ecs:ListTasks *"}},
		{"tasks", &ecs.DescribeTasksInput{Cluster: aws.String("c"), Tasks: []string{"t"}}, []string{"ecs:DescribeTasks task/c/*"}},
		{"a function", &lambda.GetFunctionConfigurationInput{FunctionName: aws.String("f")}, []string{"lambda:GetFunctionConfiguration function:f"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			accesses, ok := iamtrace.Of(tt.input)
			var got []string
			for _, a := range accesses {
				got = append(got, a.String())
				if again, err := iamtrace.Parse(a.String()); err != nil || !cmp.Equal(again, a) {
					t.Errorf("%v was read as %v, %v", a, again, err)
				}
			}
			if diff := cmp.Diff(tt.want, got); !ok || diff != "" {
				t.Errorf("known: %t, accesses (-want +got):\n%s", ok, diff)
			}
		})
	}
	if _, ok := iamtrace.Of(&dynamodb.ListTablesInput{}); ok {
		t.Error("an input without a rule is known")
	}
}

func TestWhatIsNoAccess(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "dynamodb:GetItem", "dynamodb:GetItem  table/limits"} {
		if a, err := iamtrace.Parse(s); err == nil {
			t.Errorf("%q was read as %v", s, a)
		}
	}
}

func TestWrites(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]bool{
		"dynamodb:UpdateItem": true, "dynamodb:BatchWriteItem": true, "dynamodb:CreateTable": true, "s3:PutObject": true,
		"dynamodb:BatchGetItem": false, "dynamodb:Query": false, "dynamodb:ConditionCheckItem": false, "s3:ListBucket": false,
		"cloudformation:ExecuteChangeSet": true, "sqs:ReceiveMessage": true, "logs:FilterLogEvents": false,
	} {
		if got := (iamtrace.Access{Action: action}).IsWrite(); got != want {
			t.Errorf("%s writes: %t", action, got)
		}
	}
}
