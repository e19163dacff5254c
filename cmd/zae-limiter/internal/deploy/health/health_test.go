package health_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cloudtest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	name     = "limits"
	function = name + "-aggregator"
	group    = "/aws/lambda/" + function
	queue    = "https://sqs.us-east-1.amazonaws.com/123456789012/limits-aggregator-dlq"
	bucket   = "limits-archive"
)

var now = time.Date(2026, 3, 4, 12, 0, 30, 0, time.UTC)

// site has every part.
var site = health.Site{
	Aggregator: function, Provisioner: name + "-limits-provisioner", DeadLetters: queue, Archive: bucket,
	Alarms: []string{name + "-write-throttle", name + "-aggregator-dlq-alarm", name + "-stream-iterator-age"},
}

// newAccount is an account in which all is well.
func newAccount() *cloudtest.Account {
	alarm := func(name string) types.MetricAlarm {
		return types.MetricAlarm{
			AlarmName: &name, StateValue: types.StateValueOk, StateReason: aws.String("no datapoints"), StateUpdatedTimestamp: aws.Time(now.Add(-time.Hour)),
			ActionsEnabled: aws.Bool(true), AlarmActions: []string{"arn:aws:sns:us-east-1:123456789012:oncall"},
		}
	}
	f := func() *cloudtest.Function {
		return &cloudtest.Function{
			SHA256: "c2hh", State: "Active", Update: "Successful", MemoryMB: 256, TimeoutS: 60,
			Architecture: lambdatypes.ArchitectureArm64, Runtime: lambdatypes.RuntimeProvidedal2023, Modified: now.Add(-48 * time.Hour),
		}
	}
	a := &cloudtest.Account{
		Functions: map[string]*cloudtest.Function{site.Aggregator: f(), site.Provisioner: f()},
		Mappings:  []lambdatypes.EventSourceMappingConfiguration{mapping("m1", "sqs", "Enabled", "OK"), mapping("m2", "dynamodb", "Enabled", "OK")},
		Queues:    map[string]cloudtest.Queue{queue: {}},
		Buckets: map[string][]s3types.LifecycleRule{bucket: {{
			ID: aws.String("ToGlacier"), Status: s3types.ExpirationStatusEnabled, Filter: &s3types.LifecycleRuleFilter{Prefix: aws.String("audit/")},
			Transitions: []s3types.Transition{{StorageClass: s3types.TransitionStorageClassGlacierIr, Days: aws.Int32(90)}},
		}}},
	}
	for _, name := range site.Alarms {
		a.Alarms = append(a.Alarms, alarm(name))
	}
	age(a, 2*time.Minute, 1500)
	a.Measure("AWS/Lambda", "Invocations", "FunctionName", function, now.Add(-2*time.Minute), 7)
	a.Measure("AWS/Lambda", "Invocations", "FunctionName", function, now.Add(-30*time.Minute), 5)
	a.Log(group, now.Add(-time.Minute), `{"level":"INFO","msg":"started"}`)
	return a
}

func mapping(id, service, state, result string) lambdatypes.EventSourceMappingConfiguration {
	return lambdatypes.EventSourceMappingConfiguration{
		UUID: &id, State: &state, LastProcessingResult: &result,
		EventSourceArn: aws.String("arn:aws:" + service + ":us-east-1:123456789012:table/limits/stream/2026"),
		FunctionArn:    aws.String("arn:aws:lambda:us-east-1:123456789012:function:" + function),
	}
}

// age measures an iterator age in milliseconds.
func age(a *cloudtest.Account, ago time.Duration, ms float64) {
	a.Measure("AWS/Lambda", "IteratorAge", "FunctionName", function, now.Add(-ago), ms)
}

// described is a table that is well, with the version record of this client.
func described() *admin.Description {
	d := &admin.Description{
		Name: name, Status: "ACTIVE", Billing: "PAY_PER_REQUEST", Items: 12_345, Bytes: 6_789_012, Expiry: "ENABLED", ExpiryBy: "ttl",
		StreamView: "NEW_AND_OLD_IMAGES", Recovery: admin.Recovery{Status: "ENABLED", Days: 35}, DeletionProtection: true, Unknown: map[string]error{},
		Version: &dynamo.Version{Schema: dynamo.SchemaVersion, ClientMin: "0.0.0", Lambda: dynamo.ClientVersion},
	}
	for i := range 4 {
		d.Indexes = append(d.Indexes, admin.Index{Name: fmt.Sprintf("GSI%d", i+1), Status: "ACTIVE", Projection: "KEYS_ONLY"})
	}
	return d
}

// A world is what a report is made of.
type world struct {
	*cloudtest.Account
	table   *admin.Description
	failure error // of the description
	listing error // of the namespaces
	empty   bool  // there are no namespaces
	stack   health.Part[health.Stack]
	site    health.Site
	timeout time.Duration
}

func (w *world) Describe(ctx context.Context) (*admin.Description, error) {
	return w.table, errors.Join(w.failure, ctx.Err())
}

func (w *world) List(ctx context.Context) ([]admin.Namespace, error) {
	if w.empty {
		return nil, nil
	}
	return []admin.Namespace{{Name: "default", ID: "abc"}}, errors.Join(w.listing, ctx.Err())
}

func newWorld() *world {
	return &world{
		Account: newAccount(), table: described(), site: site,
		stack: health.Read(health.Stack{Name: name, Status: "UPDATE_COMPLETE", Resources: health.Read([]health.Resource{})}),
	}
}

// report collects and judges.
func (w *world) report(t *testing.T) *health.Report {
	t.Helper()
	r, err := health.Collect(t.Context(), health.Options{
		Table: w, Namespaces: w, TableName: name, Site: w.site, Timeout: w.timeout, Now: func() time.Time { return now },
		Clients: health.Clients{Watch: w.Account, Functions: w.Account, Queues: w.Account, Logs: w.Account, Buckets: w.Account},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Stack = w.stack
	r.Judge()
	return r
}

// findings are the findings in short.
func findings(r *health.Report) (all []string) {
	for _, f := range r.Findings {
		all = append(all, fmt.Sprintf("%s %s: %s", f.Verdict, f.Part, f.What))
	}
	return all
}

func TestALimiterOfWhichAllIsWellIsHealthy(t *testing.T) {
	t.Parallel()
	r := newWorld().report(t)
	if r.Verdict != health.Healthy || len(r.Findings) > 0 {
		t.Fatalf("%s: %q", r.Verdict, findings(r))
	}
	a := r.Aggregator
	if diff := cmp.Diff(health.Read(health.Code{
		Runtime: "provided.al2023", Architecture: "arm64", MemoryMB: 256, TimeoutS: 60, SHA256: "c2hh", Modified: now.Add(-48 * time.Hour).Truncate(time.Second),
		State: "Active", Update: "Successful", LogGroup: group,
		Has: stack.Function{SHA256: "736861", Runtime: "provided.al2023", Architecture: "arm64", MemoryMB: 256, TimeoutS: 60},
	}), a.Code); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(health.Read(health.Mapping{ID: "m2", State: "Enabled", Result: "OK"}), a.Mapping); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(health.Read(health.Activity{IteratorAge: aws.Float64(1500), IteratorAgeMax: aws.Float64(1500), Calls: 12}), a.Activity); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(health.Read([]health.Rule{{ID: "ToGlacier", Enabled: true, Prefix: "audit/", To: "GLACIER_IR", Days: 90}}), r.Archive.Lifecycle); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]health.Namespace{{Name: "default", ID: "abc"}}, *r.Namespaces.Value); diff != "" {
		t.Error(diff)
	}
	if !a.LastError.Absent() || !r.DeadLetters.Oldest.Absent() {
		t.Errorf("an error %+v, an oldest message %+v", a.LastError, r.DeadLetters.Oldest)
	}
	if got := *r.Alarms.Value; len(got) != 3 || got[0].Name != name+"-aggregator-dlq-alarm" || !got[0].Acts {
		t.Errorf("alarms %+v", got)
	}
}

func TestWhatIsWrongMakesTheVerdict(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		breaks  func(*world)
		verdict health.Verdict
		finds   string // the first finding begins with it
	}{
		"an alarm": {func(w *world) {
			w.Alarms[0].StateValue, w.Alarms[0].StateReason = types.StateValueAlarm, aws.String("2 datapoints\nwere above 1")
		}, health.Degraded, "degraded alarms: limits-write-throttle is in ALARM: 2 datapoints were above 1"},
		"an alarm that was deleted": {func(w *world) { w.Alarms = w.Alarms[1:] }, health.Degraded, "degraded alarms: limits-write-throttle was deleted"},
		"an alarm without data":     {func(w *world) { w.Alarms[0].StateValue = types.StateValueInsufficientData }, health.Healthy, ""},
		"alarms that tell nobody": {
			func(w *world) { w.Alarms[0].AlarmActions, w.Alarms[1].ActionsEnabled = nil, aws.Bool(false) },
			health.Healthy, "healthy alarms: 2 of 3 alarms notify nobody",
		},
		"dead letters": {
			func(w *world) { w.Queues[queue] = cloudtest.Queue{Visible: 2, InFlight: 1} },
			health.Degraded, "degraded dead_letters: about 3 dead letters wait",
		},
		"a queue that is gone":        {func(w *world) { delete(w.Queues, queue) }, health.Degraded, "degraded dead_letters: the queue of dead letters does not exist"},
		"a late aggregator":           {func(w *world) { age(w.Account, time.Minute, 31_000) }, health.Degraded, "degraded aggregator: the aggregator is 31 s late"},
		"an aggregator that was late": {func(w *world) { age(w.Account, 10*time.Minute, 31_000) }, health.Healthy, ""},
		"errors of calls": {
			func(w *world) { w.Measure("AWS/Lambda", "Errors", "FunctionName", function, now.Add(-time.Minute), 3) },
			health.Healthy, "healthy aggregator: 3 calls of the function failed",
		},
		"calls that all fail": {
			func(w *world) {
				w.Measure("AWS/Lambda", "Invocations", "FunctionName", function, now.Add(-time.Minute), 3000)
				w.Measure("AWS/Lambda", "Errors", "FunctionName", function, now.Add(-time.Minute), 3000)
			},
			health.Degraded, "degraded aggregator: the function does not work: ",
		},
		"records that fail": {
			func(w *world) {
				w.Measure("ZaeLimiter/Aggregator", "FailedRecords", "Table", name, now.Add(-time.Minute), 4)
			},
			health.Healthy, "healthy aggregator: 4 records failed",
		},
		"errors long ago":            {func(w *world) { w.Measure("AWS/Lambda", "Errors", "FunctionName", function, now.Add(-2*time.Hour), 3) }, health.Healthy, ""},
		"no function":                {func(w *world) { delete(w.Functions, function) }, health.Degraded, "degraded aggregator: the function limits-aggregator does not exist"},
		"a function that failed":     {func(w *world) { w.Functions[function].State = "Failed" }, health.Degraded, "degraded aggregator: the function is Failed"},
		"a function that is updated": {func(w *world) { w.Functions[function].Update = "InProgress" }, health.Changing, "changing aggregator: the function is Active"},
		"no mapping":                 {func(w *world) { w.Mappings = nil }, health.Degraded, "degraded aggregator: no event source mapping"},
		"a disabled mapping": {
			func(w *world) { w.Mappings = append(w.Mappings, mapping("m3", "dynamodb", "Disabled", "OK")) },
			health.Degraded, "degraded aggregator: the event source mapping is Disabled",
		},
		"a mapping that begins": {func(w *world) { w.Mappings[1].State = aws.String("Creating") }, health.Changing, "changing aggregator: the event source mapping is Creating"},
		"a mapping that fails": {
			func(w *world) { w.Mappings[1].LastProcessingResult = aws.String("PROBLEM: Function call failed") },
			health.Degraded, "degraded aggregator: the last call for the stream failed",
		},
		"no archive":            {func(w *world) { clear(w.Buckets) }, health.Degraded, "degraded archive: the bucket limits-archive does not exist"},
		"no lifecycle":          {func(w *world) { w.Buckets[bucket] = nil }, health.Healthy, ""},
		"no table":              {func(w *world) { w.failure = &store.NotFoundError{Kind: "table", Name: name} }, health.Broken, "broken table: the table does not exist"},
		"a table out of reach":  {func(w *world) { w.failure = store.ErrUnavailable }, health.Unreachable, "unreachable table: the table cannot be reached"},
		"a table not permitted": {func(w *world) { w.failure = store.ErrAccessDenied }, health.Forbidden, "forbidden table: no permission for dynamodb:DescribeTable"},
		"expired credentials": {func(w *world) {
			w.failure = fmt.Errorf("%w: %w", store.ErrAccessDenied, &smithy.GenericAPIError{Code: "ExpiredTokenException"})
		}, health.Forbidden, "forbidden table: the credentials have expired"},
		"a wrong key of one service": {func(w *world) {
			w.Fail("cloudwatch:DescribeAlarms", &smithy.GenericAPIError{Code: "InvalidClientTokenId"})
		}, health.Forbidden, "forbidden alarms: AWS does not know the credentials"},
		"a table that changes":   {func(w *world) { w.table.Status = "UPDATING" }, health.Changing, "changing table: the table is UPDATING"},
		"a table without key":    {func(w *world) { w.table.Status = "INACCESSIBLE_ENCRYPTION_CREDENTIALS" }, health.Broken, "broken table: the table is INACCESSIBLE"},
		"a table that goes":      {func(w *world) { w.table.Status = "DELETING" }, health.Broken, "broken table: the table is DELETING"},
		"a table that went":      {func(w *world) { w.table.Status = "ARCHIVED" }, health.Broken, "broken table: the table is ARCHIVED"},
		"another table":          {func(w *world) { w.table.Misfit = "index GSI3 is missing" }, health.Broken, "broken table: the table does not fit this client"},
		"an index that is built": {func(w *world) { w.table.Indexes[2].Status = "CREATING" }, health.Changing, "changing table: the index GSI3 is CREATING"},
		"no stream":              {func(w *world) { w.table.StreamView = "" }, health.Degraded, "degraded table: the table has no stream"},
		"no expiry":              {func(w *world) { w.table.Expiry = "DISABLED" }, health.Healthy, "healthy table: expired items stay"},
		"no recovery":            {func(w *world) { w.table.Recovery.Status = "DISABLED" }, health.Healthy, "healthy table: the table cannot be restored"},
		"the peer's index":       {func(w *world) { w.table.Indexes[1].Projection = "ALL" }, health.Healthy, "healthy table: the index GSI2 projects ALL"},
		"a server without backups": {func(w *world) {
			w.table.Unknown["DescribeContinuousBackups"] = fmt.Errorf("%w: unknown", admin.ErrNoBackups)
		}, health.Healthy, ""},
		"a server without tags": {func(w *world) {
			w.table.Unknown["ListTagsOfResource"] = &smithy.GenericAPIError{Code: "UnknownOperationException"}
		}, health.Healthy, ""},
		"an expiry not permitted": {
			func(w *world) { w.table.Unknown["DescribeTimeToLive"] = store.ErrAccessDenied },
			health.Incomplete, "incomplete table: no permission for dynamodb:DescribeTimeToLive",
		},
		"a newer schema":    {func(w *world) { w.table.Version.Schema = "1.0.0" }, health.Broken, "broken versions: incompatible"},
		"an old aggregator": {func(w *world) { w.table.Version.Lambda = "0.16.0" }, health.Healthy, "healthy versions: the aggregator has version 0.16.0"},
		"no version record": {func(w *world) { w.table.Version = nil }, health.Healthy, "healthy versions: the table has no version record"},
		"a version not permitted": {
			func(w *world) { w.table.Unknown["GetItem"] = store.ErrAccessDenied },
			health.Incomplete, "incomplete versions: no permission for dynamodb:GetItem",
		},
		"namespaces not permitted": {func(w *world) { w.listing = store.ErrAccessDenied }, health.Incomplete, "incomplete namespaces: no permission for dynamodb:Query"},
		"no namespaces":            {func(w *world) { w.empty = true }, health.Broken, "broken namespaces: no namespace is registered"},
		"a half of a deployment": {
			func(w *world) {
				w.stack.Value.Resources = health.Read([]health.Resource{{LogicalID: "AggregatorLogGroup", Status: "CREATE_COMPLETE"}})
			},
			health.Degraded, "degraded stack: the deployment is not complete: the stack is to have, and does not have, AggregatorFunction",
		},
		"a whole deployment": {
			func(w *world) {
				w.stack.Value.Resources = health.Read([]health.Resource{
					{LogicalID: "AggregatorLogGroup", Status: "CREATE_COMPLETE"},
					{LogicalID: "AggregatorFunction", Status: "UPDATE_COMPLETE"},
					{LogicalID: "ProvisionerLogGroup", Status: "DELETE_COMPLETE"},
				})
			},
			health.Healthy, "",
		},
		"a running update":       {func(w *world) { w.stack.Value.Status = "UPDATE_IN_PROGRESS" }, health.Changing, "changing stack: the stack is UPDATE_IN_PROGRESS"},
		"an update rolled back":  {func(w *world) { w.stack.Value.Status = "UPDATE_ROLLBACK_COMPLETE" }, health.Degraded, "degraded stack: the last update failed"},
		"a creation rolled back": {func(w *world) { w.stack.Value.Status = "ROLLBACK_COMPLETE" }, health.Broken, "broken stack: the stack is ROLLBACK_COMPLETE"},
		"a stuck rollback":       {func(w *world) { w.stack.Value.Status = "UPDATE_ROLLBACK_FAILED" }, health.Broken, "broken stack: the stack is UPDATE_ROLLBACK_FAILED"},
		"a stack never deployed": {func(w *world) { w.stack.Value.Status = "REVIEW_IN_PROGRESS" }, health.Broken, "broken stack: the stack was never deployed"},
		"a running update of a broken table": {func(w *world) {
			w.stack.Value.Status, w.table.Status = "UPDATE_IN_PROGRESS", "DELETING"
		}, health.Changing, "changing stack"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			c.breaks(w)
			r := w.report(t)
			first := ""
			if got := findings(r); len(got) > 0 {
				first = got[0]
			}
			if r.Verdict != c.verdict || !strings.HasPrefix(first, c.finds) || (c.finds == "") != (first == "") {
				t.Errorf("%s, %q; want %s, %q", r.Verdict, findings(r), c.verdict, c.finds)
			}
			for _, f := range r.Findings { // the stack's own advice is from deploy/stack
				if f.Do == "" && f.Part != "stack" && (f.Verdict == health.Broken || f.Verdict == health.Degraded) {
					t.Errorf("nothing is to do about %+v", f)
				}
			}
		})
	}
}

// Each action that is denied makes one part unreadable, and only that.
func TestAPartThatIsNotPermittedHidesNoOther(t *testing.T) {
	t.Parallel()
	for action, part := range map[string]string{
		"lambda:GetFunctionConfiguration": "aggregator", "lambda:ListEventSourceMappings": "aggregator", "cloudwatch:GetMetricData": "aggregator",
		"logs:FilterLogEvents": "aggregator", "sqs:GetQueueAttributes": "dead_letters", "s3:ListBucket": "archive", "s3:GetLifecycleConfiguration": "archive",
		"cloudwatch:DescribeAlarms": "alarms",
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.Deny(action)
			r := w.report(t)
			first := "incomplete " + part + ": no permission for " + action
			if got := findings(r); r.Verdict != health.Incomplete || len(got) == 0 || got[0] != first {
				t.Errorf("%s: %q", r.Verdict, got)
			}
			for _, f := range r.Findings {
				if !strings.Contains(f.What, action) || f.Do != "use credentials that permit "+action {
					t.Errorf("another finding: %+v", f)
				}
			}
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte(`"problem"`)); n != len(r.Findings) {
				t.Errorf("%d parts are unreadable, and %d findings say so: %s", n, len(r.Findings), text)
			}
		})
	}
}

func TestOtherFailuresOfAServiceHaveTheirKind(t *testing.T) {
	t.Parallel()
	for kind, breaks := range map[health.Kind]func(*world){
		health.Throttled: func(w *world) { w.Throttle("cloudwatch:DescribeAlarms") },
		health.Denied:    func(w *world) { w.Fail("cloudwatch:DescribeAlarms", &smithy.GenericAPIError{Code: "AccessDenied"}) },
		health.Expired:   func(w *world) { w.Fail("cloudwatch:DescribeAlarms", &smithy.GenericAPIError{Code: "ExpiredToken"}) },
		health.Wrong: func(w *world) {
			w.Fail("cloudwatch:DescribeAlarms", &smithy.GenericAPIError{Code: "SignatureDoesNotMatch"})
		},
		health.Unavailable: func(w *world) {
			w.Fail("cloudwatch:DescribeAlarms", &net.OpError{Op: "dial", Err: errors.New("refused")})
		},
		health.Other: func(w *world) { w.Fail("cloudwatch:DescribeAlarms", &smithy.GenericAPIError{Code: "InternalFailure"}) },
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			breaks(w)
			if p := w.report(t).Alarms.Problem; p == nil || p.Kind != kind || p.Call != "cloudwatch:DescribeAlarms" {
				t.Errorf("%+v", p)
			}
		})
	}
}

// A service that never answers costs its own part, after the time limit. The parts wait at
// the same time.
func TestAServiceWithoutAnswerEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.timeout = 3 * time.Second
		for _, action := range []string{"cloudwatch:GetMetricData", "sqs:GetQueueAttributes", "s3:ListBucket"} {
			w.Hang(action)
		}
		began := time.Now()
		r := w.report(t)
		if took := time.Since(began); took != w.timeout {
			t.Errorf("took %v", took)
		}
		for _, p := range []*health.Problem{r.Aggregator.Activity.Problem, r.DeadLetters.Counts.Problem, r.Archive.Exists.Problem} {
			if p == nil || p.Kind != health.TimedOut {
				t.Errorf("%+v", p)
			}
		}
		if r.Alarms.Value == nil || r.Aggregator.Code.Value == nil {
			t.Error("another part is missing")
		}
	})
}

func TestTheLastErrorIsTheNewestLineOfAnError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		lines map[time.Duration]string // by age
		want  string
	}{
		{"none", map[time.Duration]string{time.Hour: "INIT_START"}, ""},
		{"the newest", map[time.Duration]string{3 * time.Minute: "level=ERROR b", 2 * time.Minute: "level=ERROR c", 5 * time.Minute: "level=ERROR a"}, "level=ERROR c"},
		{"an old one", map[time.Duration]string{20 * time.Hour: "[ERROR] old", 23 * time.Hour: "[ERROR] older", time.Minute: "fine"}, "[ERROR] old"},
		{"too old", map[time.Duration]string{25 * time.Hour: "[ERROR] old"}, ""},
		{"a timeout", map[time.Duration]string{time.Hour: "abc Task timed out after 60.00 seconds"}, "abc Task timed out after 60.00 seconds"},
		{"a crash in lines", map[time.Duration]string{time.Hour: "panic: \x1b[31mboom\n\tgoroutine 1"}, "panic: [31mboom goroutine 1"},
		{"a long line", map[time.Duration]string{time.Hour: "ERROR " + strings.Repeat("ä", 400)}, "ERROR " + strings.Repeat("ä", 294) + "…"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			for age, text := range c.lines {
				w.Log(group, now.Add(-age), text)
			}
			got := w.report(t).Aggregator.LastError
			if c.want == "" && !got.Absent() || c.want != "" && (got.Value == nil || got.Value.Text != c.want) {
				t.Errorf("%+v, want %q", got.Value, c.want)
			}
		})
	}
}

func TestTheOldestDeadLetterHasAnAge(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Queues[queue] = cloudtest.Queue{Visible: 1}
	w.Measure("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", "limits-aggregator-dlq", now.Add(-time.Minute), 7200)
	if diff := cmp.Diff(health.Read(health.Oldest{Seconds: 7200}), w.report(t).DeadLetters.Oldest); diff != "" {
		t.Error(diff)
	}
}

// A table without a stack has no other part, and no client of another service is needed.
func TestATableAloneIsReported(t *testing.T) {
	t.Parallel()
	engine := testbed.NewEngine(t, dynamolite.Options{})
	testbed.CreateTable(t, engine, dynamo.TableOptions{})
	table, err := admin.New(admin.Options{API: engine, Table: testbed.Table})
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := admin.NewNamespaces(dynamo.Options{API: engine, Table: testbed.Table})
	if err != nil {
		t.Fatal(err)
	}
	r, err := health.Collect(t.Context(), health.Options{Table: table, Namespaces: namespaces, TableName: testbed.Table})
	if err != nil {
		t.Fatal(err)
	}
	r.Judge()
	if r.Verdict != health.Healthy || len(*r.Namespaces.Value) == 0 || !r.Versions.Value.Recorded {
		t.Errorf("%s: %q, %+v", r.Verdict, findings(r), r)
	}
	if !r.Alarms.Absent() || r.Aggregator != nil || r.DeadLetters != nil || r.Archive != nil || !r.Stack.Absent() {
		t.Errorf("parts that are not there: %+v", r)
	}
}

func TestOptionsNameWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld()
	whole := health.Options{Table: w, Namespaces: w, TableName: name}
	for field, o := range map[string]health.Options{
		"Table": {}, "Namespaces": {Table: w}, "TableName": {Table: w, Namespaces: w}, "Timeout": {Timeout: -1},
		"Clients.Functions": with(whole, health.Site{Aggregator: "f"}), "Clients.Watch": with(whole, health.Site{Alarms: []string{"a"}}),
		"Clients.Buckets": with(whole, health.Site{Archive: "b"}),
	} {
		_, err := health.Collect(t.Context(), o)
		if invalid := (*store.ValidationError)(nil); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func with(o health.Options, s health.Site) health.Options {
	o.Site = s
	return o
}
