package iamtrace

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// AnyStream is the resource of [Access] for requests whose input does not name the stream: a
// shard iterator leads to it, and only AWS can read that.
const AnyStream = "table/*/stream/*"

// accessOf has the action and the resource of each operation whose request carries no keys of
// items. {Field} is a field of the SDK's input. The resource of a field that is an ARN is that of
// the ARN. The resource * stands for none: a policy must name all resources. The rules are those of "Actions,
// resources, and condition keys" of each service, and of "Required permissions for Amazon S3 API operations".
var accessOf = map[string]string{
	"dynamodb.CreateTable":               "dynamodb:CreateTable table/{TableName}",
	"dynamodb.DescribeTable":             "dynamodb:DescribeTable table/{TableName}",
	"dynamodb.UpdateTable":               "dynamodb:UpdateTable table/{TableName}",
	"dynamodb.DeleteTable":               "dynamodb:DeleteTable table/{TableName}",
	"dynamodb.UpdateTimeToLive":          "dynamodb:UpdateTimeToLive table/{TableName}",
	"dynamodb.DescribeTimeToLive":        "dynamodb:DescribeTimeToLive table/{TableName}",
	"dynamodb.CreateBackup":              "dynamodb:CreateBackup table/{TableName}",
	"dynamodb.ListBackups":               "dynamodb:ListBackups *",
	"dynamodb.DescribeBackup":            "dynamodb:DescribeBackup {BackupArn}",
	"dynamodb.DeleteBackup":              "dynamodb:DeleteBackup {BackupArn}",
	"dynamodb.DescribeContinuousBackups": "dynamodb:DescribeContinuousBackups table/{TableName}",
	"dynamodb.UpdateContinuousBackups":   "dynamodb:UpdateContinuousBackups table/{TableName}",
	"dynamodb.ListTagsOfResource":        "dynamodb:ListTagsOfResource {ResourceArn}",
	"dynamodb.TagResource":               "dynamodb:TagResource {ResourceArn}",

	"dynamodbstreams.DescribeStream":   "dynamodb:DescribeStream {StreamArn}",
	"dynamodbstreams.GetShardIterator": "dynamodb:GetShardIterator {StreamArn}",
	"dynamodbstreams.GetRecords":       "dynamodb:GetRecords " + AnyStream,

	"cloudformation.DescribeStacks":         "cloudformation:DescribeStacks stack/{StackName}/*",
	"cloudformation.DescribeStackEvents":    "cloudformation:DescribeStackEvents stack/{StackName}/*",
	"cloudformation.DescribeStackResources": "cloudformation:DescribeStackResources stack/{StackName}/*",
	"cloudformation.GetTemplate":            "cloudformation:GetTemplate stack/{StackName}/*",
	"cloudformation.GetTemplateSummary":     "cloudformation:GetTemplateSummary stack/{StackName}/*",
	"cloudformation.ContinueUpdateRollback": "cloudformation:ContinueUpdateRollback stack/{StackName}/*",
	"cloudformation.CancelUpdateStack":      "cloudformation:CancelUpdateStack stack/{StackName}/*",
	"cloudformation.DeleteStack":            "cloudformation:DeleteStack stack/{StackName}/*",
	"cloudformation.CreateChangeSet":        "cloudformation:CreateChangeSet stack/{StackName}/*",
	"cloudformation.DescribeChangeSet":      "cloudformation:DescribeChangeSet stack/{StackName}/*",
	"cloudformation.ExecuteChangeSet":       "cloudformation:ExecuteChangeSet stack/{StackName}/*",
	"cloudformation.DeleteChangeSet":        "cloudformation:DeleteChangeSet stack/{StackName}/*",
	"cloudformation.ListChangeSets":         "cloudformation:ListChangeSets stack/{StackName}/*",

	"resourcegroupstaggingapi.GetResources": "tag:GetResources *",
	"ecs.ListTasks":                         "ecs:ListTasks *", // it is restricted by a condition on the cluster
	"ecs.DescribeTasks":                     "ecs:DescribeTasks task/{Cluster}/*",
	"lambda.ListEventSourceMappings":        "lambda:ListEventSourceMappings *",
	"lambda.UpdateFunctionCode":             "lambda:UpdateFunctionCode function:{FunctionName}",
	"lambda.UpdateFunctionConfiguration":    "lambda:UpdateFunctionConfiguration function:{FunctionName}",
	"lambda.GetFunctionConfiguration":       "lambda:GetFunctionConfiguration function:{FunctionName}",
	"cloudwatch.GetMetricData":              "cloudwatch:GetMetricData *",
	"cloudwatch.DescribeAlarms":             "cloudwatch:DescribeAlarms alarm:*", // composite alarms need all of them
	"cloudwatchlogs.FilterLogEvents":        "logs:FilterLogEvents log-group:{LogGroupName}:*",
	"sqs.ReceiveMessage":                    "sqs:ReceiveMessage {QueueUrl}",
	"sqs.DeleteMessage":                     "sqs:DeleteMessage {QueueUrl}",
	"sqs.ChangeMessageVisibility":           "sqs:ChangeMessageVisibility {QueueUrl}",
	"sqs.GetQueueAttributes":                "sqs:GetQueueAttributes {QueueUrl}",

	"s3.HeadBucket":                      "s3:ListBucket {Bucket}",
	"s3.ListObjectsV2":                   "s3:ListBucket {Bucket}",
	"s3.ListObjectVersions":              "s3:ListBucketVersions {Bucket}",
	"s3.DeleteBucket":                    "s3:DeleteBucket {Bucket}",
	"s3.GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration {Bucket}",
	"s3.GetBucketPolicy":                 "s3:GetBucketPolicy {Bucket}",
	"s3.GetObject":                       "s3:GetObject {Bucket}/{Key}",
	"s3.PutObject":                       "s3:PutObject {Bucket}/{Key}",
}

// withoutKeys returns the accesses of a request that carries no keys of items, nil for another.
func withoutKeys(input any) []Access {
	switch in := input.(type) {
	case *cloudformation.DescribeStacksInput:
		if in.StackName == nil { // it needs both ("DescribeStacks")
			return []Access{{Action: "cloudformation:ListStacks", Resource: "*"}, {Action: "cloudformation:DescribeStacks", Resource: "stack/*/*"}}
		}
	case *cloudformation.GetTemplateSummaryInput:
		if in.StackName == nil { // it is about a template, and no stack
			return []Access{{Action: "cloudformation:GetTemplateSummary", Resource: "*"}}
		}
	case *dynamodb.RestoreTableFromBackupInput:
		return ofRestoration(filled("dynamodb:RestoreTableFromBackup {BackupArn}", in), in.TargetTableName)
	case *dynamodb.RestoreTableToPointInTimeInput:
		return ofRestoration(filled("dynamodb:RestoreTableToPointInTime table/{SourceTableName}", in), in.TargetTableName)
	case *s3.HeadObjectInput:
		// Without s3:ListBucket, S3 answers 403 for an object that does not exist ("HeadObject").
		return []Access{filled("s3:ListBucket {Bucket}", in), filled("s3:GetObject {Bucket}/{Key}", in)}
	case *s3.DeleteObjectsInput:
		return ofDeletion(in)
	}
	of := reflect.TypeOf(input).Elem()
	service := of.PkgPath()[strings.LastIndexByte(of.PkgPath(), '/')+1:]
	if rule, ok := accessOf[service+"."+strings.TrimSuffix(of.Name(), "Input")]; ok {
		return []Access{filled(rule, input)}
	}
	return nil
}

// ofRestoration returns the accesses of a restoration. DynamoDB reads and writes the new
// table with the rights of the caller ("Using IAM with DynamoDB backup and restore").
func ofRestoration(source Access, target *string) []Access {
	all := []Access{source, on(source.Action, target)}
	for _, verb := range []string{"BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem"} {
		all = append(all, on("dynamodb:"+verb, target))
	}
	return all
}

// ofDeletion returns one access for each object. To delete a version is an action of its own.
func ofDeletion(in *s3.DeleteObjectsInput) (all []Access) {
	for _, o := range in.Delete.Objects {
		action := "s3:DeleteObject"
		if o.VersionId != nil {
			action = "s3:DeleteObjectVersion"
		}
		all = append(all, Access{Action: action, Resource: *in.Bucket + "/" + *o.Key})
	}
	return all
}

// field is a {Field} in a rule.
var field = regexp.MustCompile(`\{(\w+)\}`)

// filled is the access of a rule, with the fields of an input.
func filled(rule string, input any) Access {
	action, resource, _ := strings.Cut(rule, " ")
	whole := ""
	resource = field.ReplaceAllStringFunc(resource, func(name string) string {
		text, _ := reflect.TypeAssert[*string](reflect.ValueOf(input).Elem().FieldByName(strings.Trim(name, "{}")))
		switch {
		case text == nil:
			return ""
		case strings.HasPrefix(*text, "arn:"):
			const before = 5 // arn:PARTITION:SERVICE:REGION:ACCOUNT:
			whole = strings.SplitN(*text, ":", before+1)[before]
		case strings.HasPrefix(*text, "https://"): // the last part of the URL of a queue is its name
			return (*text)[strings.LastIndexByte(*text, '/')+1:]
		}
		return *text
	})
	if whole != "" {
		resource = whole
	}
	return Access{Action: action, Resource: resource}
}
