package deploy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
)

const (
	aTopic = "arn:aws:sns:eu-west-1:123456789012:alarms"
	aKey   = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	aRole  = "arn:aws:iam::123456789012:role/mine"
)

// widest has every resource, and a value for every option.
func widest() deploy.Options {
	return deploy.Options{
		Name: "limits", UsageRetentionDays: 30, KMSKeyARN: aKey,
		GSI2Projection: deploy.ProjectAll, LocalIndexes: true, PITRDays: 7, DeletionProtection: true,
		Capacity:   deploy.Capacity{Provisioned: true, MinRead: 1, MaxRead: 2, MinWrite: 3, MaxWrite: 4, TargetPercent: 50},
		Aggregator: true, Provisioner: true, Archive: true, Alarms: true, IAM: true,
		CodeKey: "functions/0.zip", Architecture: deploy.AMD64, MemoryMB: 512, TimeoutSeconds: 120, ReservedConcurrency: 5,
		Tracing: true, LogLevel: "debug", LogRetentionDays: 7, BatchSize: 1000, BatchWindow: time.Minute, StartingPosition: deploy.FromNow, GlacierDays: 1,
		AlarmTopicARN: aTopic, DurationAlarmPercent: 33, Roles: true, NamespaceRoles: true, PermissionBoundary: "edge",
		RoleNameFormat: "team-{}-role", PolicyNameFormat: "{}-policy", Tags: map[string]string{"team": "core"},
	}
}

// shapes are options that together have every branch of the template.
func shapes() map[string]deploy.Options {
	external, peer := widest(), deploy.Defaults()
	external.CodeBucket, external.AggregatorRoleARN, external.ProvisionerRoleARN = "code", aRole, aRole
	external.IAM, external.Roles, external.NamespaceRoles, external.PermissionBoundary = false, false, false, "arn:aws:iam::aws:policy/edge"
	peer.KeepPeer("")
	all := map[string]deploy.Options{"default": deploy.Defaults(), "with code": withCode(), "widest": widest(), "roles of others": external, "peer": peer}
	for name, change := range map[string]func(*deploy.Options){
		"no IAM": func(o *deploy.Options) { o.IAM = false }, "no functions": func(o *deploy.Options) { o.Aggregator, o.Provisioner = false, false },
		"no aggregator": func(o *deploy.Options) { o.Aggregator = false }, "no provisioner": func(o *deploy.Options) { o.Provisioner = false },
		"no alarms": func(o *deploy.Options) { o.Alarms = false }, "no archive": func(o *deploy.Options) { o.Archive = false },
	} {
		o := withCode()
		change(&o)
		all[name] = o
	}
	return all
}

// The template keeps some room for the next resource.
func TestTheTemplateFits(t *testing.T) {
	t.Parallel()
	const room = 600
	for name, o := range shapes() {
		if n := len(newSpec(t, o).Template()); n > deploy.MaxTemplateBytes-room {
			t.Errorf("%s: the template has %d bytes, of %d that CloudFormation takes without %d for what is to come", name, n, deploy.MaxTemplateBytes, room)
		}
	}
}

func TestWhatIsSentMeansWhatTheFileSays(t *testing.T) {
	t.Parallel()
	spec := newSpec(t, deploy.Defaults())
	want := parse(t, spec.Source())
	for _, p := range want.Section("Parameters") {
		entry := p.(map[string]any)
		for _, key := range []string{"Description", "MinValue", "MaxValue", "AllowedPattern"} {
			delete(entry, key)
		}
		if entry["Type"] == "Number" {
			delete(entry, "AllowedValues")
		}
	}
	for _, r := range want.Section("Resources") {
		delete(r.(map[string]any), "Metadata")
	}
	body := want.Section("Resources")["Dashboard"].(map[string]any)["Properties"].(map[string]any)
	text := body["DashboardBody"].(map[string]any)["Fn::Sub"].([]any)
	lines := strings.Split(text[0].(string), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	text[0] = strings.Join(lines, "")
	sent := parse(t, string(spec.Template()))
	for _, section := range []string{"Parameters", "Conditions", "Resources", "Outputs"} {
		if diff := cmp.Diff(want.Section(section), sent.Section(section)); diff != "" || len(sent.Section(section)) == 0 {
			t.Errorf("the file differs from what is sent (-file +sent):\n%s", diff)
		}
	}
}

func TestTheTemplateAcceptsTheParameters(t *testing.T) {
	t.Parallel()
	for name, o := range shapes() {
		s := newStack(t, o)
		for key, value := range s.Values {
			allowed, ok := s.Section("Parameters")[key].(map[string]any)["AllowedValues"].([]any)
			if ok && !slices.Contains(allowed, any(value)) {
				t.Errorf("%s: %s is %q, which is not among %v", name, key, value, allowed)
			}
		}
	}
}

// CloudFormation rejects an export that is empty, and rolls the stack back.
func TestOutputsAreNeverEmpty(t *testing.T) {
	t.Parallel()
	for name, o := range shapes() {
		newStack(t, o).checkOutputs(name)
	}
}

func (s *stack) checkOutputs(name string) {
	s.t.Helper()
	exports := map[string]bool{}
	for output, v := range s.Section("Outputs") {
		entry := v.(map[string]any)
		if !s.has(entry) {
			continue
		}
		if value, ok := s.eval(entry["Value"]).(string); !ok || value == "" {
			s.t.Errorf("%s: the output %s is empty", name, output)
		}
		export := s.eval(entry["Export"]).(map[string]any)["Name"].(string)
		if !strings.HasPrefix(export, "limits-") || exports[export] {
			s.t.Errorf("%s: the output %s is exported as %q", name, output, export)
		}
		exports[export] = true
	}
}

// Whatever options are given together, the template is whole: no output is empty, and what
// it has refers to nothing that is left out.
func TestAnyOptionsMakeAWholeStack(t *testing.T) {
	t.Parallel()
	const stacks = 400
	draw := rand.New(rand.NewPCG(1, 2))
	made := 0
	for range stacks {
		o := anyOptions(draw)
		if _, err := deploy.New(o); err != nil {
			continue // the options contradict each other
		}
		made++
		s := newStack(t, o)
		s.checkOutputs(fmt.Sprintf("%+v", o))
		for _, resource := range s.resources() {
			s.properties(resource)
		}
	}
	if made < stacks/4 {
		t.Errorf("only %d of %d options make a stack", made, stacks)
	}
}

// anyOptions are options that turn each part of the template on or off.
func anyOptions(draw *rand.Rand) deploy.Options {
	const rarely = 4
	on := func() bool { return draw.IntN(2) == 0 }
	seldom := func() bool { return draw.IntN(rarely) == 0 }
	text := func(on bool, s string) string { return map[bool]string{true: s}[on] }
	o := deploy.Defaults()
	o.DeleteData, o.DeletionProtection, o.LocalIndexes, o.Tracing, o.Archive, o.Alarms = on(), on(), on(), on(), on(), on()
	o.Aggregator, o.Provisioner, o.IAM = !seldom(), !seldom(), !seldom()
	o.CodeKey, o.CodeBucket, o.KMSKeyARN, o.AlarmTopicARN = text(!seldom(), "functions/0.zip"), text(on(), "code"), text(on(), aKey), text(on(), aTopic)
	o.AggregatorRoleARN, o.ProvisionerRoleARN = text(on(), aRole), text(on(), aRole)
	o.PermissionBoundary = [...]string{"", "edge", "arn:aws:iam::aws:policy/edge"}[draw.IntN(3)]
	o.RoleNameFormat, o.PolicyNameFormat = text(on(), "team-{}-role"), text(on(), "{}-policy")
	o.Roles, o.NamespaceRoles = o.IAM && on(), o.IAM && on()
	if on() {
		o.Capacity = widest().Capacity
	}
	if on() {
		o.GSI2Projection, o.PITRDays, o.ReservedConcurrency = deploy.ProjectAll, 7, 5
	}
	return o
}

// Evaluating a reference to a resource that is left out fails the test.
func TestResourcesReferToNothingThatIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, o := range shapes() {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, o)
			for _, resource := range s.resources() {
				s.properties(resource)
			}
		})
	}
}

func TestWithoutCodeThereAreNoFunctions(t *testing.T) {
	t.Parallel()
	const function, mapping = "AWS::Lambda::Function", "AWS::Lambda::EventSourceMapping"
	first, second := newStack(t, deploy.Defaults()), newStack(t, withCode())
	if got := append(first.ofType(function), first.ofType(mapping)...); len(got) > 0 {
		t.Errorf("without code the stack has %v", got)
	}
	if got := first.ofType("AWS::S3::Bucket"); !slices.Contains(got, "FunctionCodeBucket") {
		t.Errorf("without code the stack has only the buckets %v", got)
	}
	if diff := cmp.Diff([]string{"AggregatorFunction", "ProvisionerFunction"}, second.ofType(function)); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	for resource, handler := range map[string]string{"AggregatorFunction": "aggregator", "ProvisionerFunction": "provisioner"} {
		p := second.properties(resource)
		if p["Handler"] != handler || p["Runtime"] != "provided.al2023" {
			t.Errorf("%s has the handler %v and the runtime %v", resource, p["Handler"], p["Runtime"])
		}
	}
}

func TestEveryAlarmNotifiesTheTopic(t *testing.T) {
	t.Parallel()
	with, without := widest(), widest()
	without.AlarmTopicARN = ""
	notifying, silent := newStack(t, with), newStack(t, without)
	for _, alarm := range notifying.ofType("AWS::CloudWatch::Alarm") {
		for _, actions := range []string{"AlarmActions", "OKActions"} {
			if diff := cmp.Diff([]any{aTopic}, notifying.properties(alarm)[actions]); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", actions, alarm, diff)
			}
			if diff := cmp.Diff([]any{}, silent.properties(alarm)[actions]); diff != "" {
				t.Errorf("without a topic, %s of %s (-want +got):\n%s", actions, alarm, diff)
			}
		}
	}
}

// watched are the metrics of an alarm, each with the value of its last dimension.
func watched(s *stack, alarm string) (metrics []string) {
	s.t.Helper()
	for _, m := range s.properties(alarm)["Metrics"].([]any) {
		stat, ok := m.(map[string]any)["MetricStat"].(map[string]any)
		if !ok {
			continue
		}
		metric := stat["Metric"].(map[string]any)
		dimensions := metric["Dimensions"].([]any)
		of := dimensions[len(dimensions)-1].(map[string]any)["Value"].(string)
		metrics = append(metrics, metric["MetricName"].(string)+" "+of)
	}
	slices.Sort(metrics)
	return metrics
}

func TestTheThrottlesOfEveryIndexRaiseAnAlarm(t *testing.T) {
	t.Parallel()
	want := []string{
		"ReadThrottleEvents GSI1", "ReadThrottleEvents GSI2", "ReadThrottleEvents GSI3", "ReadThrottleEvents GSI4",
		"WriteThrottleEvents GSI1", "WriteThrottleEvents GSI2", "WriteThrottleEvents GSI3", "WriteThrottleEvents GSI4",
	}
	if diff := cmp.Diff(want, watched(newStack(t, deploy.Defaults()), "IndexThrottleAlarm")); diff != "" {
		t.Errorf("the alarm watches (-want +got):\n%s", diff)
	}
}

// The other alarms of the aggregator are quiet when nothing calls it. This one compares the
// calls with the writes that are to cause them, so a table that nobody uses raises none.
func TestSilenceOfTheAggregatorRaisesAnAlarm(t *testing.T) {
	t.Parallel()
	s := newStack(t, widest())
	want := []string{"Invocations limits-aggregator", "SuccessfulRequestLatency UpdateItem"}
	if diff := cmp.Diff(want, watched(s, "AggregatorSilentAlarm")); diff != "" {
		t.Errorf("the alarm watches (-want +got):\n%s", diff)
	}
	p := s.properties("AggregatorSilentAlarm")
	expression := p["Metrics"].([]any)[0].(map[string]any)["Expression"]
	if expression != "IF(FILL(c,0),0,FILL(w,0))" || p["ComparisonOperator"] != "GreaterThanThreshold" || p["Threshold"] != "0" || p["TreatMissingData"] != "notBreaching" {
		t.Errorf("the expression is %v, the alarm is %v", expression, p)
	}
	// A batch may wait for the longest window. So one period without a call means nothing.
	if p["EvaluationPeriods"] != "3" {
		t.Errorf("%v periods", p["EvaluationPeriods"])
	}
	none := newStack(t, with(func(o *deploy.Options) { o.Aggregator = false }))
	if slices.Contains(none.ofType("AWS::CloudWatch::Alarm"), "AggregatorSilentAlarm") {
		t.Error("a stack without an aggregator has the alarm")
	}
}

func TestDataOutlivesTheStackUnlessOptionsSayOtherwise(t *testing.T) {
	t.Parallel()
	for _, deleteData := range []bool{false, true} {
		s := newStack(t, with(func(o *deploy.Options) { o.DeleteData = deleteData }))
		want := map[bool]string{false: "Retain", true: "Delete"}[deleteData]
		onDelete := map[bool]string{false: "RetainExceptOnCreate", true: "Delete"}[deleteData]
		for _, name := range []string{"RateLimitsTable", "AuditArchiveBucket", "AuditArchiveBucketPolicy"} {
			r := s.Section("Resources")[name].(map[string]any)
			if r["DeletionPolicy"] != onDelete || r["UpdateReplacePolicy"] != want {
				t.Errorf("%s: the policies are %v and %v, not %s and %s", name, r["DeletionPolicy"], r["UpdateReplacePolicy"], onDelete, want)
			}
		}
		if s.Values["DataPolicy"] != want {
			t.Errorf("the parameter DataPolicy is %s, not %s", s.Values["DataPolicy"], want)
		}
	}
}

func TestNamesFollowTheFormats(t *testing.T) {
	t.Parallel()
	spec, s := newSpec(t, widest()), newStack(t, widest())
	for resource, component := range map[string]deploy.Component{
		"AggregatorRole": deploy.AggregatorRole, "ProvisionerRole": deploy.ProvisionerRole, "AppRole": deploy.AppRole,
		"AdminRole": deploy.AdminRole, "ReadOnlyRole": deploy.ReadOnlyRole, "NamespaceAppRole": deploy.NamespaceAppRole,
		"NamespaceAdminRole": deploy.NamespaceAdminRole, "NamespaceReadOnlyRole": deploy.NamespaceReadOnlyRole,
	} {
		if got, want := s.properties(resource)["RoleName"], spec.RoleName(component); got != want || want != "team-limits-"+string(component)+"-role" {
			t.Errorf("%s is called %v, and Spec says %s", resource, got, want)
		}
	}
	for resource, component := range map[string]deploy.Component{
		"AcquireOnlyPolicy": deploy.AcquireOnlyPolicy, "FullAccessPolicy": deploy.FullAccessPolicy, "ReadOnlyPolicy": deploy.ReadOnlyPolicy,
		"NamespaceAcquirePolicy": deploy.NamespaceAcquirePolicy, "NamespaceFullAccessPolicy": deploy.NamespaceFullAccessPolicy,
		"NamespaceReadOnlyPolicy": deploy.NamespaceReadOnlyPolicy, "KeyPolicy": deploy.KeyPolicy,
	} {
		if got, want := s.properties(resource)["ManagedPolicyName"], spec.PolicyName(component); got != want || want != "limits-"+string(component)+"-policy" {
			t.Errorf("%s is called %v, and Spec says %s", resource, got, want)
		}
	}
	for resource, name := range map[string]string{"AggregatorFunction": spec.AggregatorFunction(), "ProvisionerFunction": spec.ProvisionerFunction()} {
		if got := s.properties(resource)["FunctionName"]; got != name {
			t.Errorf("%s is called %v, and Spec says %s", resource, got, name)
		}
	}
}

func TestTheBoundaryIsAnARN(t *testing.T) {
	t.Parallel()
	for boundary, want := range map[string]string{
		"edge":                         "arn:aws:iam::123456789012:policy/edge",
		"arn:aws:iam::aws:policy/edge": "arn:aws:iam::aws:policy/edge",
	} {
		o := widest()
		o.PermissionBoundary = boundary
		s := newStack(t, o)
		for _, role := range s.ofType("AWS::IAM::Role") {
			if got := s.properties(role)["PermissionsBoundary"]; got != want {
				t.Errorf("the boundary of %s is %v, not %s", role, got, want)
			}
		}
	}
}
