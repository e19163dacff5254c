//go:build conformance

package health_test

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// The SDK's own clients, over HTTP, against moto: a table, dead letters, alarms, metrics, a
// log, a bucket, and the configuration of a function. Moto runs no function and evaluates no
// alarm, so the test sets both.
func TestALimiterOnMoto(t *testing.T) {
	moto := peers.Moto(t)
	buckets := s3test.OnMoto(t, moto, bucket)
	cfg := aws.Config{
		Region: peers.Region, BaseEndpoint: aws.String(moto),
		Credentials: credentials.NewStaticCredentialsProvider(peers.AccessKey, peers.SecretKey, ""),
	}
	watch := cloudwatch.NewFromConfig(cfg, func(o *cloudwatch.Options) {
		o.Protocol = awsquery.New(schemas.GraniteServiceVersion20100801) // moto does not speak the newer protocol
	})
	logs, queues, functions := cloudwatchlogs.NewFromConfig(cfg), sqs.NewFromConfig(cfg), lambda.NewFromConfig(cfg)
	database := dynamodb.NewFromConfig(cfg)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(dynamo.CreateTable(t.Context(), database, dynamo.TableOptions{Name: name, Stream: true}))
	table, err := admin.New(admin.Options{API: database, Table: name})
	must(err)
	namespaces, err := admin.NewNamespaces(dynamo.Options{API: database, Table: name})
	must(err)

	made, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("letters")})
	must(err)
	_, err = queues.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: made.QueueUrl, MessageBody: aws.String("a range")})
	must(err)
	_, err = buckets.PutBucketLifecycleConfiguration(t.Context(), &s3.PutBucketLifecycleConfigurationInput{
		Bucket: aws.String(bucket), LifecycleConfiguration: &s3types.BucketLifecycleConfiguration{Rules: []s3types.LifecycleRule{{
			ID: aws.String("ToGlacier"), Status: s3types.ExpirationStatusEnabled, Filter: &s3types.LifecycleRuleFilter{Prefix: aws.String("audit/")},
			Transitions: []s3types.Transition{{StorageClass: s3types.TransitionStorageClassGlacierIr, Days: aws.Int32(90)}},
		}}},
	})
	must(err)
	for _, alarm := range []string{"limits-a", "limits-b"} {
		_, err = watch.PutMetricAlarm(t.Context(), &cloudwatch.PutMetricAlarmInput{
			AlarmName: &alarm, MetricName: aws.String("Errors"), Namespace: aws.String("AWS/Lambda"), Period: aws.Int32(300), EvaluationPeriods: aws.Int32(2),
			Threshold: aws.Float64(1), ComparisonOperator: types.ComparisonOperatorGreaterThanThreshold, Statistic: types.StatisticSum,
		})
		must(err)
		state := types.StateValueOk
		if alarm == "limits-b" {
			state = types.StateValueAlarm
		}
		_, err = watch.SetAlarmState(t.Context(), &cloudwatch.SetAlarmStateInput{AlarmName: &alarm, StateValue: state, StateReason: aws.String("a reason")})
		must(err)
	}
	at := time.Now().Add(-3 * time.Minute)
	datum := func(metric string, value float64) types.MetricDatum {
		return types.MetricDatum{
			MetricName: &metric, Value: &value, Timestamp: &at, Dimensions: []types.Dimension{{Name: aws.String("FunctionName"), Value: aws.String(function)}},
		}
	}
	_, err = watch.PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{
		Namespace: aws.String("AWS/Lambda"), MetricData: []types.MetricDatum{datum("Invocations", 4), datum("Errors", 1), datum("IteratorAge", 2500)},
	})
	must(err)
	_, err = logs.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: aws.String(group)})
	must(err)
	_, err = logs.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: aws.String(group), LogStreamName: aws.String("s")})
	must(err)
	_, err = logs.PutLogEvents(t.Context(), &cloudwatchlogs.PutLogEventsInput{
		LogGroupName: aws.String(group), LogStreamName: aws.String("s"),
		LogEvents: []logtypes.InputLogEvent{{Timestamp: aws.Int64(at.UnixMilli()), Message: aws.String("ERROR it failed")}},
	})
	must(err)
	makeFunction(t, moto, functions)
	described, err := database.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(name)})
	must(err)
	_, err = functions.CreateEventSourceMapping(t.Context(), &lambda.CreateEventSourceMappingInput{
		EventSourceArn: described.Table.LatestStreamArn, FunctionName: aws.String(function), StartingPosition: lambdatypes.EventSourcePositionLatest,
	})
	must(err)

	r, err := health.Collect(t.Context(), health.Options{
		Table: table, Namespaces: namespaces, TableName: name,
		Site:    health.Site{Aggregator: function, DeadLetters: *made.QueueUrl, Archive: bucket, Alarms: []string{"limits-a", "limits-b", "limits-gone"}},
		Clients: health.Clients{Watch: watch, Functions: functions, Queues: queues, Logs: logs, Buckets: buckets},
	})
	must(err)
	r.Judge()
	if r.Verdict != health.Degraded {
		t.Errorf("verdict %s", r.Verdict)
	}
	found := strings.Join(findings(r), "\n")
	for _, want := range []string{
		"degraded dead_letters: about 1 dead letters wait", "degraded alarms: limits-b is in ALARM: a reason", "degraded alarms: limits-gone was deleted",
		"healthy aggregator: 1 calls of the function failed",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("no finding %q in\n%s", want, found)
		}
	}
	if strings.Contains(found, "incomplete") {
		t.Errorf("parts could not be read:\n%s", found)
	}
	a := r.Aggregator
	if got := a.Activity.Value; got == nil || got.Calls != 4 || got.IteratorAge == nil || *got.IteratorAge != 2500 {
		t.Errorf("activity %+v, problem %v", got, a.Activity.Problem)
	}
	if got := a.LastError.Value; got == nil || got.Text != "ERROR it failed" {
		t.Errorf("last error %+v, problem %v", got, a.LastError.Problem)
	}
	if got := a.Code.Value; got == nil || got.MemoryMB != 512 || got.Architecture != "arm64" || got.SHA256 == "" {
		t.Errorf("code %+v, problem %v", got, a.Code.Problem)
	}
	if got := a.Mapping.Value; got == nil || got.State != "Enabled" {
		t.Errorf("mapping %+v, problem %v", got, a.Mapping.Problem)
	}
	if got := r.Archive.Lifecycle.Value; got == nil || len(*got) != 1 || (*got)[0].To != "GLACIER_IR" || (*got)[0].Prefix != "audit/" {
		t.Errorf("lifecycle %+v, problem %v", got, r.Archive.Lifecycle.Problem)
	}
	if d := r.Table.Value; d == nil || d.Expiry != "ENABLED" || d.Recovery.Status != "DISABLED" || len(*r.Namespaces.Value) != 1 {
		t.Errorf("table %+v, problem %v", d, r.Table.Problem)
	}

	missing, err := health.Collect(t.Context(), health.Options{
		Table: table, Namespaces: namespaces, TableName: name,
		Site:    health.Site{Aggregator: "nothing", DeadLetters: *made.QueueUrl + "-gone", Archive: "nothing-here"},
		Clients: health.Clients{Watch: watch, Functions: functions, Queues: queues, Logs: logs, Buckets: buckets},
	})
	must(err)
	for part, p := range map[string]*health.Problem{
		"function": missing.Aggregator.Code.Problem, "queue": missing.DeadLetters.Counts.Problem, "bucket": missing.Archive.Exists.Problem,
	} {
		if p == nil || p.Kind != health.NotFound {
			t.Errorf("%s: %+v", part, p)
		}
	}
}

// makeFunction makes a function, which moto never runs.
func makeFunction(t *testing.T, endpoint string, functions *lambda.Client) {
	t.Helper()
	makeRole(t, endpoint)
	var code bytes.Buffer
	w := zip.NewWriter(&code)
	if _, err := w.Create("bootstrap"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := functions.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: aws.String(function), Role: aws.String("arn:aws:iam::123456789012:role/r"), Runtime: lambdatypes.RuntimeProvidedal2023, Handler: aws.String("aggregator"),
		MemorySize: aws.Int32(512), Architectures: []lambdatypes.Architecture{lambdatypes.ArchitectureArm64}, Code: &lambdatypes.FunctionCode{ZipFile: code.Bytes()},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// makeRole makes the role that moto wants a function to have. One request does not need
// another client: moto reads only the service from the signature.
func makeRole(t *testing.T, endpoint string) {
	t.Helper()
	form := url.Values{"Action": {"CreateRole"}, "Version": {"2010-05-08"}, "RoleName": {"r"}, "AssumeRolePolicyDocument": {"{}"}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint+"/", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+peers.AccessKey+"/20260101/"+peers.Region+"/iam/aws4_request, SignedHeaders=host, Signature=0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("moto answers %s", response.Status)
	}
}
