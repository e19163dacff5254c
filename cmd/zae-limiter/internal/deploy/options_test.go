package deploy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestABadOptionIsNamed(t *testing.T) {
	t.Parallel()
	tags := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint("key", i)] = "value"
		}
		return all
	}
	for _, c := range []struct {
		field string
		o     deploy.Options
	}{
		{"Name", deploy.Options{Name: "my_stack"}},
		{"Name", deploy.Options{Name: "my.stack"}},
		{"Name", deploy.Options{Name: "my stack"}},
		{"Name", deploy.Options{Name: "limits\n"}},
		{"Name", deploy.Options{Name: "1limits"}},
		{"Name", deploy.Options{Name: "-limits"}},
		{"Name", deploy.Options{Name: "ab"}},
		{"Name", deploy.Options{Name: strings.Repeat("a", 46)}},
		{"Name", deploy.Options{Name: strings.Repeat("a", 54), NoProvisioner: true}},
		{"Windows", deploy.Options{Windows: []string{"hourly", "weekly"}}},
		{"Windows", deploy.Options{Windows: []string{"hourly", "hourly"}}},
		{"Windows", deploy.Options{Windows: []string{}}},
		{"UsageRetentionDays", deploy.Options{UsageRetentionDays: -1}},
		{"UsageRetentionDays", deploy.Options{UsageRetentionDays: 3651}},
		{"AuditRetentionDays", deploy.Options{AuditRetentionDays: -1}},
		{"Capacity.MaxRead", deploy.Options{Capacity: deploy.Capacity{MinRead: 7, MaxRead: 6}}},
		{"Capacity.MinWrite", deploy.Options{Capacity: deploy.Capacity{MinWrite: -1}}},
		{"Capacity.TargetPercent", deploy.Options{Capacity: deploy.Capacity{TargetPercent: 91}}},
		{"KMSKeyARN", deploy.Options{KMSKeyARN: "alias/mine"}},
		{"GSI2Projection", deploy.Options{GSI2Projection: "INCLUDE"}},
		{"PITRDays", deploy.Options{PITRDays: 36}},
		{"CodeBucket", deploy.Options{CodeBucket: "Code"}},
		{"CodeKey", deploy.Options{CodeKey: "a b"}},
		{"Architecture", deploy.Options{Architecture: "amd64"}},
		{"MemoryMB", deploy.Options{MemoryMB: 127}},
		{"Timeout", deploy.Options{Timeout: 901 * time.Second}},
		{"Timeout", deploy.Options{Timeout: 1500 * time.Millisecond}},
		{"ReservedConcurrency", deploy.Options{ReservedConcurrency: -1}},
		{"LogLevel", deploy.Options{LogLevel: "trace"}},
		{"LogRetentionDays", deploy.Options{LogRetentionDays: 2}},
		{"Quiet", deploy.Options{Quiet: time.Millisecond}},
		{"BatchSize", deploy.Options{BatchSize: 10001}},
		{"BatchSize", deploy.Options{BatchSize: -1}},
		{"BatchWindow", deploy.Options{BatchWindow: 301 * time.Second}},
		{"BatchWindow", deploy.Options{BatchWindow: 1500 * time.Millisecond}},
		{"BatchWindow", deploy.Options{BatchWindow: -1}}, // with the default of 100 records
		{"BatchWindow", deploy.Options{BatchWindow: -1, BatchSize: 11}},
		{"StartingPosition", deploy.Options{StartingPosition: "AT_TIMESTAMP"}},
		{"GlacierDays", deploy.Options{GlacierDays: 3651}},
		{"AlarmTopicARN", deploy.Options{AlarmTopicARN: "alarms"}},
		{"DurationAlarmPercent", deploy.Options{DurationAlarmPercent: 101}},
		{"Roles", deploy.Options{NoIAM: true, Roles: true}},
		{"NamespaceRoles", deploy.Options{NoIAM: true, NamespaceRoles: true}},
		{"AggregatorRoleARN", deploy.Options{AggregatorRoleARN: "arn:aws:iam::12:role/x"}},
		{"ProvisionerRoleARN", deploy.Options{ProvisionerRoleARN: aRole + "\n"}},
		{"PermissionBoundary", deploy.Options{PermissionBoundary: "a b"}},
		{"RoleNameFormat", deploy.Options{RoleNameFormat: "team"}},
		{"RoleNameFormat", deploy.Options{RoleNameFormat: "{}{}"}},
		{"RoleNameFormat", deploy.Options{RoleNameFormat: strings.Repeat("a", 54) + "{}"}},
		{"RoleNameFormat", deploy.Options{Name: strings.Repeat("a", 45), RoleNameFormat: strings.Repeat("b", 15) + "{}"}},
		{"PolicyNameFormat", deploy.Options{PolicyNameFormat: "a b{}"}},
		{"PolicyNameFormat", deploy.Options{Name: strings.Repeat("a", 45), PolicyNameFormat: strings.Repeat("b", 100) + "{}"}},
		{"Tags", deploy.Options{Tags: tags(45)}},
		{"Tags", deploy.Options{Tags: map[string]string{"": "x"}}},
		{"Tags", deploy.Options{Tags: map[string]string{"AWS:x": "x"}}},
		{"Tags", deploy.Options{Tags: map[string]string{"x": strings.Repeat("v", 257)}}},
		{"Tags", deploy.Options{Tags: map[string]string{"k*": "x"}}},
		{"Tags", deploy.Options{Tags: map[string]string{"x": "a;b"}}},
	} {
		_, err := deploy.New(c.o)
		bad := (*store.ValidationError)(nil)
		if !errors.As(err, &bad) || bad.Field != c.field || bad.Reason == "" {
			t.Errorf("%s: %v", c.field, err)
		}
	}
}

// A stack name of 45 characters leaves room for the longest name of a function.
func TestTheLongestNameFits(t *testing.T) {
	t.Parallel()
	spec := newSpec(t, deploy.Options{Name: strings.Repeat("a", 45)})
	alone := newSpec(t, deploy.Options{Name: strings.Repeat("a", 53), NoProvisioner: true}) // as stacks of the peer may be called
	const most = 64
	for _, name := range []string{
		spec.AggregatorFunction(), spec.ProvisionerFunction(), spec.RoleName(deploy.ProvisionerRole), alone.AggregatorFunction(), alone.RoleName(deploy.AdminRole),
	} {
		if len(name) > most {
			t.Errorf("%s has %d characters, of %d that AWS takes", name, len(name), most)
		}
	}
}

func TestTagsOfTheProjectWin(t *testing.T) {
	t.Parallel()
	users := map[string]string{deploy.TagManagedBy: "me", "team": "core"}
	for i := range 42 {
		users[fmt.Sprint("key", i)] = "value"
	}
	got := map[string]string{}
	for _, tag := range newSpec(t, deploy.Options{Tags: users, Version: "v1.2.3"}).Tags() {
		got[tag.Key] = tag.Value
	}
	const most = 50
	if len(got) > most {
		t.Errorf("%d tags, of %d that CloudFormation takes", len(got), most)
	}
	for key, want := range map[string]string{
		"ManagedBy": "zae-limiter", "zae-limiter:name": "zae-limiter", "zae-limiter:type": "limiter", "zae-limiter:version": "v1.2.3",
		"zae-limiter:schema-version": "0.10.0", "zae-limiter:lambda-version": "v1.2.3", "team": "core",
	} {
		if got[key] != want {
			t.Errorf("the tag %s is %q, not %q", key, got[key], want)
		}
	}
}

func TestOptionsComeBackFromAStack(t *testing.T) {
	t.Parallel()
	for name, o := range shapes() {
		want := newSpec(t, o)
		read, err := deploy.OptionsOf(want.Name(), want.Parameters(), want.Tags())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want.Options(), newSpec(t, read).Options()); diff != "" {
			t.Errorf("%s: options (-deployed +read):\n%s", name, diff)
		}
	}
}

func TestEveryPercentageComesBack(t *testing.T) {
	t.Parallel()
	for percent := 1; percent <= 100; percent++ {
		for _, timeout := range []time.Duration{time.Second, 7 * time.Second, 15 * time.Minute} {
			s := newSpec(t, deploy.Options{Timeout: timeout, DurationAlarmPercent: percent})
			read, err := deploy.OptionsOf(s.Name(), s.Parameters(), nil)
			if err != nil || read.DurationAlarmPercent != percent {
				t.Fatalf("%d %% of %v came back as %d %%: %v", percent, timeout, read.DurationAlarmPercent, err)
			}
		}
	}
}

func TestOptionsComeFromAStackOfThePeer(t *testing.T) {
	t.Parallel()
	got, err := deploy.OptionsOf("limits", []deploy.Parameter{
		{"SnapshotWindows", "hourly, daily"},
		{"SnapshotRetentionDays", "30"},
		{"LambdaTimeout", "120"},
		{"LambdaDurationThreshold", "60000"},
		{"EnableIAMRoles", "false"},
		{"EnableAuditArchival", "false"},
		{"RoleNameFormat", "team-{}"},
		{"AppRoleName", "team-limits-app"},
		{"AcquireOnlyPolicyName", "limits-acq-core"},
		{"FullAccessPolicyName", "limits-full-core"},
		{"SchemaVersion", "0.10.0"},
		{"PITRRecoveryPeriodDays", ""},
	}, []deploy.Tag{{"ManagedBy", "zae-limiter"}, {"zae-limiter:version", "0.17.0"}, {"team", "core"}, {"aws:cloudformation:stack-name", "limits"}})
	if err != nil {
		t.Fatal(err)
	}
	want := deploy.Options{
		Name: "limits", Windows: []string{"hourly", "daily"}, UsageRetentionDays: 30, Timeout: 2 * time.Minute, DurationAlarmPercent: 50,
		NoArchive: true, RoleNameFormat: "team-{}", PolicyNameFormat: "{}-core", Tags: map[string]string{"team": "core"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

// The names tell, not the peer's record of their format: names that are made anew replace
// roles and policies.
func TestNamesOfThePeerThatFollowNoFormatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parameters []deploy.Parameter
		refused    string
	}{
		"usual names":                   {[]deploy.Parameter{{"AcquireOnlyPolicyName", ""}, {"FullAccessPolicyName", ""}}, ""},
		"one of several":                {[]deploy.Parameter{{"AcquireOnlyPolicyName", "x-limits-acq"}, {"FullAccessPolicyName", ""}}, "FullAccessPolicyName"},
		"another format":                {[]deploy.Parameter{{"AcquireOnlyPolicyName", ""}, {"ReadOnlyPolicyName", "x-limits-read"}}, "ReadOnlyPolicyName"},
		"a format that nothing follows": {[]deploy.Parameter{{"RoleNameFormat", "team-{}"}, {"AggregatorRoleName", ""}}, ""},
		"roles that there are not":      {[]deploy.Parameter{{"EnableIAMRoles", "false"}, {"AggregatorRoleName", ""}, {"AppRoleName", "x"}}, ""},
		"roles that there are":          {[]deploy.Parameter{{"EnableIAMRoles", "true"}, {"AggregatorRoleName", ""}, {"AppRoleName", "x"}}, "AppRoleName"},
		"no policies":                   {[]deploy.Parameter{{"EnableIAM", "false"}, {"AcquireOnlyPolicyName", "x"}}, ""},
	} {
		o, err := deploy.OptionsOf("limits", c.parameters, nil)
		bad := (*store.ValidationError)(nil)
		if errors.As(err, &bad) != (c.refused != "") || bad != nil && bad.Field != "parameter "+c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (newSpec(t, o).RoleName(deploy.AggregatorRole) != "limits-aggr" || newSpec(t, o).PolicyName(deploy.FullAccessPolicy) != "limits-full") {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestAParameterThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	for _, p := range []deploy.Parameter{
		{"LambdaTimeout", "soon"},
		{"EnableIAM", "yes"},
		{"MergeQuiet", "never"},
		{"LambdaMemorySize", "1e3"},
		{"LambdaDurationThreshold", "long"},
		{"AcquireOnlyPolicyName", "something"},
	} {
		_, err := deploy.OptionsOf("limits", []deploy.Parameter{p}, nil)
		bad := (*store.ValidationError)(nil)
		if !errors.As(err, &bad) || bad.Field != "parameter "+p.Key {
			t.Errorf("%s=%s: %v", p.Key, p.Value, err)
		}
	}
}

func TestWhatIsLeftOutIsNoted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"default": 0, "no IAM": 2, "roles of others": 0, "no functions": 0} {
		spec := newSpec(t, shapes()[name])
		if got := spec.Notes(); len(got) != want {
			t.Errorf("%s: notes %q", name, got)
		}
		if code := newStack(t, shapes()[name]); spec.Aggregator() != code.holds("Aggr") || spec.Provisioner() != code.holds("Prov") {
			t.Errorf("%s: the template and Spec disagree on the functions", name)
		}
	}
}

func TestMergingWaitsAsLongAsTheAggregatorDoes(t *testing.T) {
	t.Parallel()
	if got := newSpec(t, deploy.Options{}).Options().Quiet; got != aggregator.DefaultQuiet {
		t.Errorf("the default of Quiet is %v, that of the aggregator %v", got, aggregator.DefaultQuiet)
	}
}
