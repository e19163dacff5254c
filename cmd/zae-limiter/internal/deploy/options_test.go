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
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/optiontest"
	"github.com/zeroae/zae-limiter-go/store"
)

// Each row refuses what is beyond its bounds, not among its values, or unlike its pattern, and
// takes the bounds themselves. The error has the name of the option, and says what to give.
func TestTheTableRefuses(t *testing.T) {
	t.Parallel()
	for _, problem := range optiontest.Accepted(deploy.OptionTable, deploy.Defaults, func(o deploy.Options) error {
		_, err := deploy.New(o)
		return err
	}) {
		t.Error(problem)
	}
}

// The template bounds each parameter as the table does, and has the same defaults.
func TestTheTemplateHasTheBoundsOfTheTable(t *testing.T) {
	t.Parallel()
	for _, problem := range optiontest.Differences(deploy.OptionTable, newSpec(t, deploy.Defaults()).Source()) {
		t.Error(problem)
	}
}

// Every option has a row, whose name is that of the field.
func TestEveryOptionHasARow(t *testing.T) {
	t.Parallel()
	for _, problem := range optiontest.Unnamed(deploy.OptionTable, "Version") {
		t.Error(problem)
	}
}

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
		field  string
		change func(o *deploy.Options)
	}{
		{"Name", func(o *deploy.Options) { o.Name = "" }},
		{"Name", func(o *deploy.Options) { o.Name = "my_stack" }},
		{"Name", func(o *deploy.Options) { o.Name = "my.stack" }},
		{"Name", func(o *deploy.Options) { o.Name = "my stack" }},
		{"Name", func(o *deploy.Options) { o.Name = "limits\n" }},
		{"Name", func(o *deploy.Options) { o.Name = "1limits" }},
		{"Name", func(o *deploy.Options) { o.Name = "-limits" }},
		{"Name", func(o *deploy.Options) { o.Name = "ab" }},
		{"Name", func(o *deploy.Options) { o.Name = strings.Repeat("a", 46) }},
		{"Name", func(o *deploy.Options) { o.Name, o.Provisioner = strings.Repeat("a", 54), false }},
		{"Capacity.MaxRead", func(o *deploy.Options) { o.Capacity.MinRead, o.Capacity.MaxRead = 7, 6 }},
		{"Capacity.MaxWrite", func(o *deploy.Options) { o.Capacity.MinWrite, o.Capacity.MaxWrite = 7, 6 }},
		{"LogRetentionDays", func(o *deploy.Options) { o.LogRetentionDays = 2 }},
		{"Quiet", func(o *deploy.Options) { o.Quiet = time.Millisecond }},
		{"BatchWindow", func(o *deploy.Options) { o.BatchWindow = 0 }}, // with the default of 100 records
		{"BatchWindow", func(o *deploy.Options) { o.BatchWindow, o.BatchSize = 0, 11 }},
		{"Roles", func(o *deploy.Options) { o.IAM, o.Roles = false, true }},
		{"NamespaceRoles", func(o *deploy.Options) { o.IAM, o.NamespaceRoles = false, true }},
		{"ProvisionerRoleARN", func(o *deploy.Options) { o.ProvisionerRoleARN = aRole + "\n" }},
		{"RoleNameFormat", func(o *deploy.Options) { o.RoleNameFormat = "team" }},
		{"RoleNameFormat", func(o *deploy.Options) { o.RoleNameFormat = "{}{}" }},
		{"RoleNameFormat", func(o *deploy.Options) { o.RoleNameFormat = strings.Repeat("a", 54) + "{}" }},
		{"RoleNameFormat", func(o *deploy.Options) {
			o.Name, o.RoleNameFormat = strings.Repeat("a", 45), strings.Repeat("b", 15)+"{}"
		}},
		{"PolicyNameFormat", func(o *deploy.Options) { o.PolicyNameFormat = "a b{}" }},
		{"PolicyNameFormat", func(o *deploy.Options) {
			o.Name, o.PolicyNameFormat = strings.Repeat("a", 45), strings.Repeat("b", 100)+"{}"
		}},
		{"Tags", func(o *deploy.Options) { o.Tags = tags(45) }},
		{"Tags", func(o *deploy.Options) { o.Tags = map[string]string{"": "x"} }},
		{"Tags", func(o *deploy.Options) { o.Tags = map[string]string{"AWS:x": "x"} }},
		{"Tags", func(o *deploy.Options) { o.Tags = map[string]string{"x": strings.Repeat("v", 257)} }},
		{"Tags", func(o *deploy.Options) { o.Tags = map[string]string{"k*": "x"} }},
		{"Tags", func(o *deploy.Options) { o.Tags = map[string]string{"x": "a;b"} }},
	} {
		o := with(c.change)
		_, err := deploy.New(o)
		bad := (*store.ValidationError)(nil)
		if !errors.As(err, &bad) || bad.Field != c.field || bad.Reason == "" {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A stack name of 45 characters leaves room for the longest name of a function.
func TestTheLongestNameFits(t *testing.T) {
	t.Parallel()
	spec := newSpec(t, with(func(o *deploy.Options) { o.Name = strings.Repeat("a", 45) }))
	alone := newSpec(t, with(func(o *deploy.Options) { o.Name, o.Provisioner = strings.Repeat("a", 53), false })) // as stacks of the peer may be called
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
	for _, tag := range newSpec(t, with(func(o *deploy.Options) { o.Tags, o.Version = users, "v1.2.3" })).Tags() {
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

// parametersOf and tagsOf are what CloudFormation tells of a stack.
func parametersOf(s *deploy.Spec) map[string]string {
	all := map[string]string{}
	for _, p := range s.Parameters() {
		all[p.Key] = p.Value
	}
	return all
}

func tagsOf(s *deploy.Spec) map[string]string {
	all := map[string]string{}
	for _, t := range s.Tags() {
		all[t.Key] = t.Value
	}
	return all
}

func TestOptionsComeBackFromAStack(t *testing.T) {
	t.Parallel()
	for name, o := range shapes() {
		want := newSpec(t, o)
		read, err := deploy.OptionsOf(want.Name(), parametersOf(want), tagsOf(want))
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
		for _, timeout := range []int{1, 7, 900} {
			s := newSpec(t, with(func(o *deploy.Options) { o.TimeoutSeconds, o.DurationAlarmPercent = timeout, percent }))
			read, err := deploy.OptionsOf(s.Name(), parametersOf(s), nil)
			if err != nil || read.DurationAlarmPercent != percent {
				t.Fatalf("%d %% of %d s came back as %d %%: %v", percent, timeout, read.DurationAlarmPercent, err)
			}
		}
	}
}

func TestOptionsComeFromAStackOfThePeer(t *testing.T) {
	t.Parallel()
	got, err := deploy.OptionsOf("limits", map[string]string{
		"SnapshotWindows":         "hourly, daily",
		"SnapshotRetentionDays":   "30",
		"LambdaTimeout":           "120",
		"LambdaDurationThreshold": "60000",
		"EnableIAMRoles":          "false",
		"EnableAuditArchival":     "false",
		"RoleNameFormat":          "team-{}",
		"AppRoleName":             "team-limits-app",
		"AcquireOnlyPolicyName":   "limits-acq-core",
		"FullAccessPolicyName":    "limits-full-core",
		"SchemaVersion":           "0.10.0",
		"PITRRecoveryPeriodDays":  "",
	}, map[string]string{"ManagedBy": "zae-limiter", "zae-limiter:version": "0.17.0", "team": "core", "aws:cloudformation:stack-name": "limits"})
	if err != nil {
		t.Fatal(err)
	}
	want := with(func(o *deploy.Options) {
		o.Name, o.UsageRetentionDays, o.TimeoutSeconds, o.DurationAlarmPercent = "limits", 30, 120, 50
		o.Archive, o.RoleNameFormat, o.PolicyNameFormat, o.Tags = false, "team-{}", "{}-core", map[string]string{"team": "core"}
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

// The names tell, not the peer's record of their format: names that are made anew replace
// roles and policies.
func TestNamesOfThePeerThatFollowNoFormatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parameters map[string]string
		refused    string
	}{
		"usual names":                   {map[string]string{"AcquireOnlyPolicyName": "", "FullAccessPolicyName": ""}, ""},
		"one of several":                {map[string]string{"AcquireOnlyPolicyName": "x-limits-acq", "FullAccessPolicyName": ""}, "FullAccessPolicyName"},
		"another format":                {map[string]string{"AcquireOnlyPolicyName": "", "ReadOnlyPolicyName": "x-limits-read"}, "ReadOnlyPolicyName"},
		"a format that nothing follows": {map[string]string{"RoleNameFormat": "team-{}", "AggregatorRoleName": ""}, ""},
		"roles that there are not":      {map[string]string{"EnableIAMRoles": "false", "AggregatorRoleName": "", "AppRoleName": "x"}, ""},
		"roles that there are":          {map[string]string{"EnableIAMRoles": "true", "AggregatorRoleName": "", "AppRoleName": "x"}, "AppRoleName"},
		"no policies":                   {map[string]string{"EnableIAM": "false", "AcquireOnlyPolicyName": "x"}, ""},
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
	for key, value := range map[string]string{
		"LambdaTimeout":           "soon",
		"EnableIAM":               "yes",
		"MergeQuiet":              "never",
		"LambdaMemorySize":        "1e3",
		"LambdaDurationThreshold": "long",
		"AcquireOnlyPolicyName":   "something",
	} {
		_, err := deploy.OptionsOf("limits", map[string]string{key: value}, nil)
		bad := (*store.ValidationError)(nil)
		if !errors.As(err, &bad) || bad.Field != "parameter "+key {
			t.Errorf("%s=%s: %v", key, value, err)
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
		if code := newStack(t, shapes()[name]); spec.Aggregator() != code.Holds("Aggr") || spec.Provisioner() != code.Holds("Prov") {
			t.Errorf("%s: the template and Spec disagree on the functions", name)
		}
	}
}

func TestMergingWaitsAsLongAsTheAggregatorDoes(t *testing.T) {
	t.Parallel()
	if got := newSpec(t, deploy.Defaults()).Options().Quiet; got != aggregator.DefaultQuiet {
		t.Errorf("the default of Quiet is %v, that of the aggregator %v", got, aggregator.DefaultQuiet)
	}
}
