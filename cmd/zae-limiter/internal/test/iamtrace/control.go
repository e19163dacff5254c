package iamtrace

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// ofBackup returns the accesses of a request about backups, recovery or tags of a table
// ("Actions, resources, and condition keys for Amazon DynamoDB").
func ofBackup(input any) []Access {
	switch in := input.(type) {
	case *dynamodb.CreateBackupInput:
		return one(on("dynamodb:CreateBackup", in.TableName))
	case *dynamodb.ListBackupsInput:
		return one(Access{Action: "dynamodb:ListBackups", Resource: anything})
	case *dynamodb.DescribeBackupInput:
		return one(Access{Action: "dynamodb:DescribeBackup", Resource: resourceOf(in.BackupArn)})
	case *dynamodb.DeleteBackupInput:
		return one(Access{Action: "dynamodb:DeleteBackup", Resource: resourceOf(in.BackupArn)})
	case *dynamodb.DescribeContinuousBackupsInput:
		return one(on("dynamodb:DescribeContinuousBackups", in.TableName))
	case *dynamodb.UpdateContinuousBackupsInput:
		return one(on("dynamodb:UpdateContinuousBackups", in.TableName))
	case *dynamodb.RestoreTableFromBackupInput:
		return ofRestoration("dynamodb:RestoreTableFromBackup", resourceOf(in.BackupArn), in.TargetTableName)
	case *dynamodb.RestoreTableToPointInTimeInput:
		return ofRestoration("dynamodb:RestoreTableToPointInTime", tableOrIndex(in.SourceTableName, nil), in.TargetTableName)
	case *dynamodb.ListTagsOfResourceInput:
		return one(Access{Action: "dynamodb:ListTagsOfResource", Resource: resourceOf(in.ResourceArn)})
	case *dynamodb.TagResourceInput:
		return one(Access{Action: "dynamodb:TagResource", Resource: resourceOf(in.ResourceArn)})
	}
	return nil
}

// ofRestoration returns the accesses of a restoration. DynamoDB reads and writes the new
// table with the rights of the caller ("Using IAM with DynamoDB backup and restore").
func ofRestoration(action, source string, target *string) []Access {
	all := []Access{{Action: action, Resource: source}, on(action, target)}
	for _, verb := range []string{"BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem"} {
		all = append(all, on("dynamodb:"+verb, target))
	}
	return all
}

// ofStack returns the accesses of a request to CloudFormation ("Actions, resources, and
// condition keys for AWS CloudFormation"). What CloudFormation does for the caller is not
// among them.
func ofStack(input any) []Access {
	switch in := input.(type) {
	case *cloudformation.DescribeStacksInput:
		if in.StackName == nil { // it needs both ("DescribeStacks")
			return []Access{{Action: "cloudformation:ListStacks", Resource: anything}, stackAccess("DescribeStacks", aws.String("*"))}
		}
		return one(stackAccess("DescribeStacks", in.StackName))
	case *cloudformation.DescribeStackEventsInput:
		return one(stackAccess("DescribeStackEvents", in.StackName))
	case *cloudformation.DescribeStackResourcesInput:
		return one(stackAccess("DescribeStackResources", in.StackName))
	case *cloudformation.GetTemplateInput:
		return one(stackAccess("GetTemplate", in.StackName))
	case *cloudformation.GetTemplateSummaryInput:
		if in.StackName == nil { // it is about a template, and no stack
			return one(Access{Action: "cloudformation:GetTemplateSummary", Resource: anything})
		}
		return one(stackAccess("GetTemplateSummary", in.StackName))
	case *cloudformation.ContinueUpdateRollbackInput:
		return one(stackAccess("ContinueUpdateRollback", in.StackName))
	case *cloudformation.CancelUpdateStackInput:
		return one(stackAccess("CancelUpdateStack", in.StackName))
	case *cloudformation.DeleteStackInput:
		return one(stackAccess("DeleteStack", in.StackName))
	}
	return ofChangeSet(input)
}

// ofChangeSet returns the access of a request about change sets, which has the stack as its
// resource.
func ofChangeSet(input any) []Access {
	switch in := input.(type) {
	case *cloudformation.CreateChangeSetInput:
		return one(stackAccess("CreateChangeSet", in.StackName))
	case *cloudformation.DescribeChangeSetInput:
		return one(stackAccess("DescribeChangeSet", in.StackName))
	case *cloudformation.ExecuteChangeSetInput:
		return one(stackAccess("ExecuteChangeSet", in.StackName))
	case *cloudformation.DeleteChangeSetInput:
		return one(stackAccess("DeleteChangeSet", in.StackName))
	case *cloudformation.ListChangeSetsInput:
		return one(stackAccess("ListChangeSets", in.StackName))
	}
	return nil
}

// stackAccess is the access of an action on a stack, which a request gives by its name or
// by its ARN.
func stackAccess(verb string, stack *string) Access {
	resource := "stack/" + aws.ToString(stack) + "/*"
	if isARN(stack) {
		resource = resourceOf(stack)
	}
	return Access{Action: "cloudformation:" + verb, Resource: resource}
}

// ofParts returns the accesses of a request about other parts of a stack.
func ofParts(input any) []Access {
	switch in := input.(type) {
	case *resourcegroupstaggingapi.GetResourcesInput:
		return one(Access{Action: "tag:GetResources", Resource: anything})
	case *ecs.ListTasksInput:
		return one(Access{Action: "ecs:ListTasks", Resource: anything}) // it is restricted by a condition on the cluster
	case *ecs.DescribeTasksInput:
		return one(Access{Action: "ecs:DescribeTasks", Resource: "task/" + aws.ToString(in.Cluster) + "/*"})
	case *lambda.ListEventSourceMappingsInput:
		return one(Access{Action: "lambda:ListEventSourceMappings", Resource: anything})
	case *lambda.UpdateFunctionCodeInput:
		return one(Access{Action: "lambda:UpdateFunctionCode", Resource: "function:" + aws.ToString(in.FunctionName)})
	case *lambda.UpdateFunctionConfigurationInput:
		return one(Access{Action: "lambda:UpdateFunctionConfiguration", Resource: "function:" + aws.ToString(in.FunctionName)})
	case *lambda.GetFunctionConfigurationInput:
		return one(Access{Action: "lambda:GetFunctionConfiguration", Resource: "function:" + aws.ToString(in.FunctionName)})
	case *cloudwatch.GetMetricDataInput:
		return one(Access{Action: "cloudwatch:GetMetricData", Resource: anything})
	case *cloudwatch.DescribeAlarmsInput:
		// Its resource is the alarm, but composite alarms need all of them ("DescribeAlarms").
		return one(Access{Action: "cloudwatch:DescribeAlarms", Resource: "alarm:*"})
	case *cloudwatchlogs.FilterLogEventsInput:
		return one(Access{Action: "logs:FilterLogEvents", Resource: "log-group:" + aws.ToString(in.LogGroupName) + ":*"})
	case *sqs.ReceiveMessageInput:
		return one(Access{Action: "sqs:ReceiveMessage", Resource: queueOf(in.QueueUrl)})
	case *sqs.DeleteMessageInput:
		return one(Access{Action: "sqs:DeleteMessage", Resource: queueOf(in.QueueUrl)})
	case *sqs.ChangeMessageVisibilityInput:
		return one(Access{Action: "sqs:ChangeMessageVisibility", Resource: queueOf(in.QueueUrl)})
	case *sqs.GetQueueAttributesInput:
		return one(Access{Action: "sqs:GetQueueAttributes", Resource: queueOf(in.QueueUrl)})
	}
	return nil
}
