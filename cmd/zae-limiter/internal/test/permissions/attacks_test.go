//go:build conformance

package permissions_test

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/iamtrace"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
)

const (
	tableARN  = "arn:aws:dynamodb:eu-west-1:123456789012:table/limits"
	streamARN = tableARN + "/stream/2026-01-02T03:04:05.678"
	queueARN  = "arn:aws:sqs:eu-west-1:123456789012:limits-aggregator-dlq"
	logsARN   = "arn:aws:logs:eu-west-1:123456789012:log-group:/aws/lambda/limits-"

	otherTableARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/limits2"
)

// The tag of the registry is no namespace: the recorded reads and writes with keys of the
// table's partitions are refused to a principal that has it.
func TestTheTagOfTheRegistryIsNoNamespace(t *testing.T) {
	t.Parallel()
	var requests []permissions.Request
	for _, access := range accessesThat(t, func(a iamtrace.Access) bool { return len(a.LeadingKeys) > 0 }) {
		for _, key := range []string{"_/SYSTEM#", "_/AUDIT#one", "_/STREAM#one", "_"} {
			r := request(t, access, "_")
			r.Keys = []string{key}
			requests = append(requests, r)
		}
	}
	refusedToTenants(t, requests)
}

// attacks are requests by which a principal would leave what its policy is for, and the
// policies that are for them all the same.
var attacks = []struct {
	actions, arn string
	keys         []string
	allowed      []string
}{
	{"dynamodb:PartiQLSelect dynamodb:PartiQLInsert dynamodb:PartiQLUpdate dynamodb:PartiQLDelete", tableARN, []string{"ns1/BUCKET#one"}, nil},
	{"dynamodb:Scan", tableARN, nil, []string{"full", "read"}},
	{"dynamodb:Scan", tableARN + "/index/GSI4", nil, []string{"full", "read"}},
	{"dynamodb:GetItem dynamodb:BatchGetItem dynamodb:Query dynamodb:PutItem dynamodb:UpdateItem dynamodb:DeleteItem dynamodb:BatchWriteItem", strings.Replace(tableARN, "limits", "limits2", 1), []string{"ns1/BUCKET#one"}, nil},
	{"dynamodb:DeleteItem dynamodb:BatchWriteItem", tableARN, []string{"_/SYSTEM#"}, []string{"full"}},
	{"dynamodb:PutItem", tableARN, []string{"ns1/ENTITY#one"}, []string{"full", "ns-full", "provisioner"}},
	{"dynamodb:DeleteItem", tableARN, []string{"ns1/AUDIT#one"}, []string{"full", "ns-full", "provisioner"}},
	{"dynamodb:UpdateTable dynamodb:DeleteTable dynamodb:UpdateTimeToLive dynamodb:UpdateContinuousBackups dynamodb:CreateBackup dynamodb:PutResourcePolicy dynamodb:DeleteResourcePolicy dynamodb:TagResource dynamodb:UntagResource dynamodb:ExportTableToPointInTime dynamodb:EnableKinesisStreamingDestination dynamodb:UpdateContributorInsights", tableARN, nil, nil},
	{"dynamodb:GetRecords dynamodb:GetShardIterator dynamodb:DescribeStream", streamARN, nil, []string{"full", "aggregator"}},
	{"dynamodb:ListStreams", "*", nil, []string{"aggregator"}}, // which Lambda asks of the role of an event source mapping
	{"sqs:SendMessage", queueARN, nil, []string{"aggregator"}},
	{"sqs:ReceiveMessage sqs:DeleteMessage sqs:ChangeMessageVisibility", queueARN, nil, []string{"full"}},
	{"sqs:PurgeQueue sqs:SetQueueAttributes sqs:AddPermission", queueARN, nil, nil},
	{"s3:PutObject", "arn:aws:s3:::trail/audit/year=2026/x", nil, []string{"aggregator"}},
	{"s3:PutObject", "arn:aws:s3:::trail/functions/x.zip", nil, nil},
	{"s3:DeleteObject s3:DeleteObjectVersion s3:PutObjectAcl s3:GetObjectVersion", "arn:aws:s3:::trail/audit/year=2026/x", nil, nil},
	{"s3:GetObject", "arn:aws:s3:::trail/audit/year=2026/x", nil, []string{"full", "read"}},
	{"s3:PutBucketPolicy s3:PutLifecycleConfiguration s3:DeleteBucket", "arn:aws:s3:::trail", nil, nil},
	{"s3:PutObject s3:GetObject", "arn:aws:s3:::limits-functioncodebucket-1/functions/x.zip", nil, nil},
	{"lambda:InvokeFunction lambda:UpdateFunctionCode lambda:UpdateFunctionConfiguration lambda:AddPermission", "arn:aws:lambda:eu-west-1:123456789012:function:limits-limits-provisioner", nil, nil},
	{"iam:PassRole iam:TagRole iam:AttachRolePolicy iam:PutRolePolicy iam:UpdateAssumeRolePolicy", "arn:aws:iam::123456789012:role/limits-aggr", nil, nil},
	{"sts:AssumeRole sts:TagSession", "arn:aws:iam::123456789012:role/limits-admin", nil, nil},
	{"cloudformation:CreateChangeSet cloudformation:ExecuteChangeSet cloudformation:UpdateStack cloudformation:DeleteStack", "arn:aws:cloudformation:eu-west-1:123456789012:stack/limits/1", nil, nil},
	{"logs:CreateLogStream logs:PutLogEvents", logsARN + "aggregator:log-stream:one", nil, []string{"aggregator"}},
	{"logs:CreateLogStream logs:PutLogEvents", logsARN + "limits-provisioner:log-stream:one", nil, []string{"provisioner"}},
	{"logs:CreateLogGroup logs:DeleteLogStream logs:PutRetentionPolicy", logsARN + "aggregator:log-stream:one", nil, nil},
	// The resources of another stack in the account.
	{"dynamodb:Query", otherTableARN + "/index/GSI3", []string{"ns1/ENTITY#one"}, nil},
	{"dynamodb:UpdateItem dynamodb:PutItem dynamodb:DeleteItem", otherTableARN, []string{"ns1/ENTITY#one"}, nil},
	{"dynamodb:UpdateItem dynamodb:PutItem dynamodb:BatchWriteItem", otherTableARN, []string{"ns1/USAGE#gpt-4#1"}, nil},
	{"dynamodb:GetRecords dynamodb:GetShardIterator dynamodb:DescribeStream", otherTableARN + "/stream/2026-01-02T03:04:05.678", nil, nil},
	{"sqs:SendMessage sqs:ReceiveMessage sqs:DeleteMessage sqs:ChangeMessageVisibility sqs:GetQueueAttributes", "arn:aws:sqs:eu-west-1:123456789012:limits2-aggregator-dlq", nil, nil},
	{"s3:PutObject s3:GetObject", "arn:aws:s3:::trail2/audit/year=2026/x", nil, nil},
	{"s3:ListBucket s3:GetLifecycleConfiguration", "arn:aws:s3:::trail2", nil, nil},
	{"cloudformation:DescribeStacks cloudformation:GetTemplate", "arn:aws:cloudformation:eu-west-1:123456789012:stack/limits2/1", nil, nil},
	{"lambda:GetFunctionConfiguration", "arn:aws:lambda:eu-west-1:123456789012:function:limits2-aggregator", nil, nil},
	{"logs:FilterLogEvents logs:CreateLogStream logs:PutLogEvents", "arn:aws:logs:eu-west-1:123456789012:log-group:/aws/lambda/limits2-aggregator:log-stream:one", nil, nil},
	{"kms:Decrypt kms:CreateGrant", "arn:aws:kms:eu-west-1:123456789012:key/1", nil, nil},
}

// No policy of the template leads out of what it is for: to other tables, to the resources of
// the stack, or to roles. The principal has the tag ns1.
func TestNoPolicyLeadsFurther(t *testing.T) {
	t.Parallel()
	var requests []permissions.Request
	var want [][]string
	for _, a := range attacks {
		for action := range strings.FieldsSeq(a.actions) {
			requests = append(requests, permissions.Request{Action: action, ARN: a.arn, Keys: a.keys, Tag: "ns1"})
			want = append(want, append([]string{}, a.allowed...))
		}
	}
	for i, allowed := range judge(t, permissions.Policies, requests) {
		if diff := gocmp.Diff(want[i], allowed); diff != "" {
			t.Errorf("policies that allow %+v (-want +got):\n%s", requests[i], diff)
		}
	}
}
