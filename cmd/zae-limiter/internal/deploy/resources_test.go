package deploy_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/aggregator/lambda"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/elftest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// admits evaluates one filter pattern as Lambda does: each field of the pattern is an object,
// or a list of which one rule must match a field that exists.
func admits(pattern, record map[string]any) bool {
	for field, want := range pattern {
		has, ok := record[field]
		if !ok {
			return false
		}
		switch want := want.(type) {
		case map[string]any:
			inner, ok := has.(map[string]any)
			if !ok || !admits(want, inner) {
				return false
			}
		case []any:
			if !slices.ContainsFunc(want, func(rule any) bool { return matches(rule, has) }) {
				return false
			}
		}
	}
	return true
}

func matches(rule, value any) bool {
	text, ok := value.(string)
	if special, is := rule.(map[string]any); is {
		if others, is := special["anything-but"].([]any); is {
			return ok && !slices.ContainsFunc(others, func(other any) bool { return other == text })
		}
		return ok && strings.HasPrefix(text, special["prefix"].(string))
	}
	return ok && rule == text
}

// asLambda is the record in the form in which Lambda filters it.
func asLambda(r *streamtypes.Record) map[string]any {
	image := func(item map[string]streamtypes.AttributeValue) map[string]any {
		out := map[string]any{}
		for name, v := range item {
			switch v := v.(type) {
			case *streamtypes.AttributeValueMemberS:
				out[name] = map[string]any{"S": v.Value}
			case *streamtypes.AttributeValueMemberN:
				out[name] = map[string]any{"N": v.Value}
			}
		}
		return out
	}
	record := map[string]any{"eventName": string(r.EventName)}
	change := map[string]any{"Keys": image(r.Dynamodb.Keys)}
	if r.Dynamodb.OldImage != nil {
		change["OldImage"] = image(r.Dynamodb.OldImage)
	}
	if r.Dynamodb.NewImage != nil {
		change["NewImage"] = image(r.Dynamodb.NewImage)
	}
	record["dynamodb"] = change
	if r.UserIdentity != nil {
		record["userIdentity"] = map[string]any{"principalId": *r.UserIdentity.PrincipalId, "type": *r.UserIdentity.Type}
	}
	return record
}

// drain returns all records that the stream of the table has.
func drain(t *testing.T, w *testbed.World) (all []streamtypes.Record) {
	t.Helper()
	table, err := w.Engine.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(testbed.Table)})
	w.Must(err)
	arn := table.Table.LatestStreamArn
	stream, err := w.Engine.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	w.Must(err)
	for _, shard := range stream.StreamDescription.Shards {
		it, err := w.Engine.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
			StreamArn: arn, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		w.Must(err)
		page, err := w.Engine.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
		w.Must(err)
		all = append(all, page.Records...)
	}
	return all
}

// patternsOf are the filters of the aggregator's records.
func patternsOf(t *testing.T, s *stack) (patterns []map[string]any) {
	t.Helper()
	for _, f := range s.properties("AggregatorEventSourceMapping")["FilterCriteria"].(map[string]any)["Filters"].([]any) {
		var pattern map[string]any
		if err := json.Unmarshal([]byte(f.(map[string]any)["Pattern"].(string)), &pattern); err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, pattern)
	}
	return patterns
}

func isAdmitted(patterns []map[string]any, record map[string]any) bool {
	return slices.ContainsFunc(patterns, func(p map[string]any) bool { return admits(p, record) })
}

// The peer's filter of audit events never matched (its defect 2), and it left out new buckets
// (defect 9).
func TestTheFiltersAdmitWhatTheAggregatorWorksOn(t *testing.T) {
	t.Parallel()
	s := newStack(t, withCode())
	patterns := patternsOf(t, s)
	synctest.Test(t, func(t *testing.T) {
		w := testbed.New(t, testbed.Options{Table: dynamo.TableOptions{Stream: true}})
		w.System(limiter.PerHour("rph", 10))
		w.Take(w.Limiter, testbed.Ask("key", "rph", 1))
		w.Take(w.Limiter, testbed.Ask("key", "rph", 1))
		seen := map[string]bool{}
		look := func() {
			for _, r := range drain(t, w) {
				record := asLambda(&r)
				seen[kind(&r)] = isAdmitted(patterns, record)
			}
		}
		look()
		items, err := w.Engine.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(testbed.Table)})
		w.Must(err)
		event := slices.IndexFunc(items.Items, func(item map[string]types.AttributeValue) bool {
			return strings.HasPrefix(schema.KeyOf(item).SK, "#AUDIT#")
		})
		remove := func(key schema.Key) {
			_, err := w.Engine.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(testbed.Table), Key: key.Item()})
			w.Must(err)
		}
		remove(schema.KeyOf(items.Items[event]))
		_, ns := w.Store.Namespace()
		w.Take(w.Limiter, testbed.Ask("other", "rph", 1))
		remove(schema.BucketKey(ns, limiter.Bucket{Entity: "other", Resource: testbed.Resource}))
		look()
		for range 3 { // until the bucket has expired; the stream keeps a day
			time.Sleep(23 * time.Hour)
			look()
		}
		time.Sleep((90*24 - 68) * time.Hour) // until the events have expired
		look()
		want := map[string]bool{
			"INSERT bucket": false, "MODIFY bucket": false, "REMOVE bucket": true, "REMOVE bucket, expired": true, "REMOVE event, expired": true,
			"REMOVE event": false, "INSERT event": false, "INSERT other": false,
		}
		for what, admit := range want {
			if got, ok := seen[what]; !ok || got != admit {
				t.Errorf("%s: admitted %v, seen %v", what, got, ok)
			}
		}
	})
}

// kind says what a record is of.
func kind(r *streamtypes.Record) string {
	sk := r.Dynamodb.Keys[schema.SK].(*streamtypes.AttributeValueMemberS).Value
	what := "other"
	switch {
	case sk == schema.StateSK:
		what = "bucket"
	case strings.HasPrefix(sk, "#AUDIT#"):
		what = "event"
	}
	if r.UserIdentity != nil {
		what += ", expired"
	}
	return string(r.EventName) + " " + what
}

// The table of the stack equals the table of zae-limiter table create.
func TestTheTableIsThatOfTheProgram(t *testing.T) {
	t.Parallel()
	for _, o := range []deploy.Options{deploy.Defaults(), with(func(o *deploy.Options) { o.GSI2Projection = deploy.ProjectAll })} {
		p := newStack(t, o).properties("RateLimitsTable")
		engine := testbed.NewEngine(t, testbed.Options{}.Engine)
		projection := map[deploy.Projection]dynamo.Projection{"": dynamo.ProjectKeys, deploy.ProjectAll: dynamo.ProjectAll}[o.GSI2Projection]
		testbed.CreateTable(t, engine, dynamo.TableOptions{Stream: true, GSI2Projection: projection})
		out, err := engine.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(testbed.Table)})
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[string]string{}, map[string]string{}
		for _, a := range out.Table.AttributeDefinitions {
			want["attribute "+*a.AttributeName] = string(a.AttributeType)
		}
		want["key"] = keyOf(out.Table.KeySchema)
		for _, ix := range out.Table.GlobalSecondaryIndexes {
			want[*ix.IndexName] = keyOf(ix.KeySchema) + string(ix.Projection.ProjectionType)
		}
		for _, a := range p["AttributeDefinitions"].([]any) {
			got["attribute "+a.(map[string]any)["AttributeName"].(string)] = a.(map[string]any)["AttributeType"].(string)
		}
		got["key"] = keyIn(p)
		for _, v := range p["GlobalSecondaryIndexes"].([]any) {
			ix := v.(map[string]any)
			got[ix["IndexName"].(string)] = keyIn(ix) + ix["Projection"].(map[string]any)["ProjectionType"].(string)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("table (-program +template):\n%s", diff)
		}
		if view := p["StreamSpecification"].(map[string]any)["StreamViewType"]; view != string(out.Table.StreamSpecification.StreamViewType) {
			t.Errorf("the stream shows %v", view)
		}
		if ttl := p["TimeToLiveSpecification"].(map[string]any)["AttributeName"]; ttl != schema.TTL {
			t.Errorf("items expire by %v", ttl)
		}
	}
}

func keyOf(elements []types.KeySchemaElement) string {
	var b strings.Builder
	for _, e := range elements {
		b.WriteString(*e.AttributeName + " " + string(e.KeyType) + ", ")
	}
	return b.String()
}

func keyIn(properties map[string]any) string {
	var b strings.Builder
	for _, e := range properties["KeySchema"].([]any) {
		b.WriteString(e.(map[string]any)["AttributeName"].(string) + " " + e.(map[string]any)["KeyType"].(string) + ", ")
	}
	return b.String()
}

func TestTheSchemaIsThatOfTheTable(t *testing.T) {
	t.Parallel()
	w := testbed.New(t, testbed.Options{})
	if v, ok := w.Store.Version(); !ok || v.Schema != deploy.SchemaVersion {
		t.Errorf("the stack is for the schema %s, the table has %s", deploy.SchemaVersion, v.Schema)
	}
}

// An adopted stack has its code in the archive. A rule that moved or deleted it would break
// the next update of the functions.
func TestNoLifecycleRuleOfTheArchiveTouchesTheCode(t *testing.T) {
	t.Parallel()
	a, err := deploy.NewArtefact(elftest.Program(path, "linux", elf.EM_AARCH64))
	if err != nil {
		t.Fatal(err)
	}
	lifecycle := newStack(t, deploy.Defaults()).properties("AuditArchiveBucket")["LifecycleConfiguration"].(map[string]any)
	moving := 0
	for _, r := range lifecycle["Rules"].([]any) {
		rule := r.(map[string]any)
		if rule["AbortIncompleteMultipartUpload"] != nil {
			continue
		}
		moving++
		if prefix, ok := rule["Prefix"].(string); !ok || strings.HasPrefix(a.Key(), prefix) {
			t.Errorf("the rule %v touches %s", rule, a.Key())
		}
	}
	if moving == 0 {
		t.Error("no rule moves anything")
	}
}

// A replacement would lose the peer's table, archive and queue. CloudFormation replaces what
// has another logical ID, type or physical name.
func TestAStackOfThePeerKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	o := withCode()
	o.Roles = true
	o.KeepPeer("archive")
	s := newStack(t, o)
	for name, want := range map[string][3]string{
		"RateLimitsTable":              {"AWS::DynamoDB::Table", "TableName", "limits"},
		"AuditArchiveBucket":           {"AWS::S3::Bucket", "BucketName", ""},
		"AggregatorDLQ":                {"AWS::SQS::Queue", "QueueName", "limits-aggregator-dlq"},
		"AggregatorDLQAlarm":           {"AWS::CloudWatch::Alarm", "AlarmName", "limits-aggregator-dlq-alarm"},
		"LambdaErrorRateAlarm":         {"AWS::CloudWatch::Alarm", "AlarmName", "limits-aggregator-error-rate"},
		"LambdaDurationAlarm":          {"AWS::CloudWatch::Alarm", "AlarmName", "limits-aggregator-duration"},
		"StreamIteratorAgeAlarm":       {"AWS::CloudWatch::Alarm", "AlarmName", "limits-stream-iterator-age"},
		"DynamoDBReadThrottleAlarm":    {"AWS::CloudWatch::Alarm", "AlarmName", "limits-read-throttle"},
		"DynamoDBWriteThrottleAlarm":   {"AWS::CloudWatch::Alarm", "AlarmName", "limits-write-throttle"},
		"AggregatorLogGroup":           {"AWS::Logs::LogGroup", "LogGroupName", "/aws/lambda/limits-aggregator"},
		"ProvisionerLogGroup":          {"AWS::Logs::LogGroup", "LogGroupName", "/aws/lambda/limits-limits-provisioner"},
		"AggregatorFunction":           {"AWS::Lambda::Function", "FunctionName", "limits-aggregator"},
		"ProvisionerFunction":          {"AWS::Lambda::Function", "FunctionName", "limits-limits-provisioner"},
		"AggregatorEventSourceMapping": {"AWS::Lambda::EventSourceMapping", "StartingPosition", "LATEST"},
		"AggregatorRole":               {"AWS::IAM::Role", "RoleName", "limits-aggr"},
		"ProvisionerRole":              {"AWS::IAM::Role", "RoleName", "limits-prov"},
		"AppRole":                      {"AWS::IAM::Role", "RoleName", "limits-app"},
		"AdminRole":                    {"AWS::IAM::Role", "RoleName", "limits-admin"},
		"ReadOnlyRole":                 {"AWS::IAM::Role", "RoleName", "limits-read"},
		"AcquireOnlyPolicy":            {"AWS::IAM::ManagedPolicy", "ManagedPolicyName", "limits-acq"},
		"FullAccessPolicy":             {"AWS::IAM::ManagedPolicy", "ManagedPolicyName", "limits-full"},
		"ReadOnlyPolicy":               {"AWS::IAM::ManagedPolicy", "ManagedPolicyName", "limits-read"},
		"NamespaceAcquirePolicy":       {"AWS::IAM::ManagedPolicy", "ManagedPolicyName", "limits-ns-acq"},
		"NamespaceFullAccessPolicy":    {"AWS::IAM::ManagedPolicy", "ManagedPolicyName", "limits-ns-full"},
		"NamespaceReadOnlyPolicy":      {"AWS::IAM::ManagedPolicy", "ManagedPolicyName", "limits-ns-read"},
	} {
		name, property := name, want[1]
		got, _ := s.properties(name)[property].(string)
		if kind := s.declared(name).Type; kind != want[0] || got != want[2] {
			t.Errorf("%s is %v with %s %q, not %v", name, kind, property, got, want)
		}
	}
	table := s.properties("RateLimitsTable")
	if indexes, _ := table["LocalSecondaryIndexes"].([]any); len(indexes) != 5 {
		t.Errorf("the table has the local indexes %v", indexes)
	}
	if gsi2 := table["GlobalSecondaryIndexes"].([]any)[1].(map[string]any)["Projection"]; !cmp.Equal(gsi2, map[string]any{"ProjectionType": "ALL"}) {
		t.Errorf("GSI2 projects %v", gsi2)
	}
}

func TestAStackExportsWhatThePeersExports(t *testing.T) {
	t.Parallel()
	s := newStack(t, widest())
	var got []string
	for _, v := range s.Section("Outputs") {
		name := s.eval(v.(map[string]any)["Export"]).(map[string]any)["Name"].(string)
		got = append(got, strings.TrimPrefix(name, "limits-"))
	}
	for want := range strings.FieldsSeq(`TableName TableArn StreamArn AggregatorArn AggregatorName DLQUrl DLQArn DLQAlarmName LambdaErrorRateAlarmName
		LambdaDurationAlarmName ReadThrottleAlarmName WriteThrottleAlarmName StreamIteratorAgeAlarmName AuditArchiveBucketName AuditArchiveBucketArn
		AcquireOnlyPolicyArn FullAccessPolicyArn ReadOnlyPolicyArn NamespaceAcquirePolicyArn NamespaceFullAccessPolicyArn NamespaceReadOnlyPolicyArn
		AppRoleArn AppRoleName AdminRoleArn AdminRoleName ReadOnlyRoleArn ReadOnlyRoleName PermissionBoundaryArn RoleNameFormat CodeBucketName
		ProvisionerArn ProvisionerName`) {
		if !slices.Contains(got, want) {
			t.Errorf("no export %s", want)
		}
	}
}

// amazonsMetrics are the metrics of AWS that the dashboard and the alarms use.
var amazonsMetrics = map[string][]string{
	"AWS/DynamoDB": {
		"SuccessfulRequestLatency", "ReadThrottleEvents", "WriteThrottleEvents", "ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits",
		"ReadKeyRangeThroughputThrottleEvents", "WriteKeyRangeThroughputThrottleEvents",
	},
	"AWS/Lambda": {"Errors", "Duration", "IteratorAge", "Invocations"},
	"AWS/SQS":    {"ApproximateNumberOfMessagesVisible"},
}

// ownMetrics are the metrics that the aggregator writes for a batch, and for a minute.
func ownMetrics(t *testing.T) (namespace string, names []string) {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	clock := func() time.Time { return now }
	a, err := aggregator.New(func(context.Context, string) (aggregator.Namespace, error) {
		return aggregator.Namespace{}, nil
	}, aggregator.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	var w bytes.Buffer
	h := lambda.New(a, lambda.Options{Table: "limits", Metrics: &w, Now: clock})
	var write events.DynamoDBEvent
	if err := json.Unmarshal([]byte(`{"Records": [{"eventID": "1", "eventName": "INSERT", "dynamodb": {"ApproximateCreationDateTime": 1700000000, "SequenceNumber": "1",
		"Keys": {"PK": {"S": "ns/BUCKET#user#api#0"}, "SK": {"S": "#STATE"}},
		"NewImage": {"PK": {"S": "ns/BUCKET#user#api#0"}, "SK": {"S": "#STATE"}, "rf": {"N": "1700000000000"}}}}]}`), &write); err != nil {
		t.Fatal(err)
	}
	for _, e := range []events.DynamoDBEvent{write, {}} {
		if _, err := h.Handle(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	for lines := json.NewDecoder(&w); lines.More(); {
		var line struct {
			AWS struct {
				CloudWatchMetrics []struct {
					Namespace string
					Metrics   []struct{ Name string }
				}
			} `json:"_aws"`
		}
		if err := lines.Decode(&line); err != nil {
			t.Fatal(err)
		}
		declared := line.AWS.CloudWatchMetrics[0]
		namespace = declared.Namespace
		for _, m := range declared.Metrics {
			names = append(names, m.Name)
		}
	}
	return namespace, names
}

func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := maps.Clone(amazonsMetrics)
	own, names := ownMetrics(t)
	known[own] = names
	s := newStack(t, deploy.Defaults())
	var body struct {
		Widgets []struct {
			Properties struct {
				Title   string
				Metrics [][]any
			}
		}
	}
	if err := json.Unmarshal([]byte(s.properties("Dashboard")["DashboardBody"].(string)), &body); err != nil {
		t.Fatal(err)
	}
	if len(body.Widgets) != 7 {
		t.Errorf("%d widgets", len(body.Widgets))
	}
	for _, widget := range body.Widgets {
		var row []any // a dot repeats the value of the row before
		for _, metric := range widget.Properties.Metrics {
			if _, expression := metric[0].(map[string]any); expression {
				continue
			}
			for i, v := range metric {
				if v == "." {
					metric[i] = row[i]
				}
			}
			row = metric
			if !slices.Contains(known[metric[0].(string)], metric[1].(string)) {
				t.Errorf("%s: no metric %v", widget.Properties.Title, metric)
			}
		}
	}
	if p := s.properties("AggregatorFailuresAlarm"); p["Namespace"] != own || !slices.Contains(names, p["MetricName"].(string)) {
		t.Errorf("the alarm of failed records watches %v of %v", p["MetricName"], p["Namespace"])
	}
}
