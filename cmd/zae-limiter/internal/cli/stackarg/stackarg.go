// Package stackarg has the flags that describe a stack, for the commands that make, change
// or print one.
package stackarg

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// Flags are the flags of a stack. Without a flag, an option keeps its value.
type Flags struct {
	set   *pflag.FlagSet
	apply map[string]func(*deploy.Options) // by the flag's name
	// options are the flags by the options that they set, as validation errors name them.
	options map[string]string
	// numbers are the values of the flags with a number.
	numbers map[string]*int
	quiet   *time.Duration // 0 never merges
	window  *time.Duration // 0 does not wait
}

// Bind adds the flags to a command.
func (f *Flags) Bind(cmd *cobra.Command) {
	f.set, f.apply, f.options, f.numbers = cmd.Flags(), map[string]func(*deploy.Options){}, map[string]string{}, map[string]*int{}
	f.bindUsage()
	f.bindTable()
	f.bindFunctions()
	f.bindArchive()
	f.bindAlarms()
	f.bindAccess()
	tags := Tags{}
	f.set.VarP(&tags, "tag", "t", "`KEY=VALUE` of a tag of the stack; repeat the flag for more, up\nto 44")
	sets(f, "tag", func(o *deploy.Options) *map[string]string { return &o.Tags })
	f.apply["tag"] = func(o *deploy.Options) {
		all := maps.Clone(o.Tags)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, tags)
		o.Tags = all
	}
}

// Apply sets the options of the flags that were given, and leaves the others alone. So a
// command that changes a stack begins with [deploy.OptionsOf].
func (f *Flags) Apply(o *deploy.Options) {
	for name, apply := range f.apply {
		if f.set.Changed(name) {
			apply(o)
		}
	}
}

// Given reports whether the command line has any of the flags.
func (f *Flags) Given() bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(f.apply)), f.set.Changed)
}

func (f *Flags) bindUsage() {
	f.windows("snapshot-windows", func(o *deploy.Options) *[]string { return &o.Windows }, "`windows` of usage: hourly, daily, monthly (default hourly,daily)")
	f.int("usage-retention-days", func(o *deploy.Options) *int { return &o.UsageRetentionDays }, "`days` for which usage is kept after its window, 1 to 3650\n(default 90)")
	f.int("audit-retention-days", func(o *deploy.Options) *int { return &o.AuditRetentionDays }, "`days` for which audit events stay in the table, 1 to 3650\n(default as the table has it, else 90)")
}

func (f *Flags) bindTable() {
	word(f, "gsi2-projection", []choice[deploy.Projection]{{"keys", deploy.ProjectKeys}, {"all", deploy.ProjectAll}},
		func(o *deploy.Options) *deploy.Projection { return &o.GSI2Projection },
		"attributes in the index of a resource's buckets: keys, or all\nas in the Python package's tables; a table cannot change it\n(default keys)")
	f.bool("local-indexes", func(o *deploy.Options) *bool { return &o.LocalIndexes }, "give the table the five local indexes of the Python package's\ntables; only a table that has them needs this")
	f.string("kms-key", func(o *deploy.Options) *string { return &o.KMSKeyARN }, "`ARN` of the key that encrypts the table (default a key that AWS\nowns)")
	f.int("pitr-recovery-days", func(o *deploy.Options) *int { return &o.PITRDays }, "`days` for which the table can be restored, 1 to 35 (default 35)")
	f.pair("enable-deletion-protection", "no-deletion-protection", func(o *deploy.Options) *bool { return &o.DeletionProtection }, true, "let DynamoDB refuse to delete the table")
	f.bool("delete-data-with-stack", func(o *deploy.Options) *bool { return &o.DeleteData }, "delete table and archive together with the stack; otherwise\nboth stay")
	f.bool("provisioned", func(o *deploy.Options) *bool { return &o.Capacity.Provisioned }, "provision throughput with auto-scaling instead of paying for\neach request")
	f.int("min-read-capacity", func(o *deploy.Options) *int { return &o.Capacity.MinRead }, "least read `units` of the table and of each index (default 5)")
	f.int("max-read-capacity", func(o *deploy.Options) *int { return &o.Capacity.MaxRead }, "most read `units` of the table and of each index (default 100)")
	f.int("min-write-capacity", func(o *deploy.Options) *int { return &o.Capacity.MinWrite }, "least write `units` of the table and of each index (default 5)")
	f.int("max-write-capacity", func(o *deploy.Options) *int { return &o.Capacity.MaxWrite }, "most write `units` of the table and of each index (default 100)")
	f.int("target-utilization", func(o *deploy.Options) *int { return &o.Capacity.TargetPercent }, "use of the provisioned throughput that auto-scaling aims at, in\n`percent`, 20 to 90 (default 70)")
}

func (f *Flags) bindFunctions() {
	f.pair("enable-aggregator", "no-aggregator", func(o *deploy.Options) *bool { return &o.NoAggregator }, false, "the function that follows the table's stream (default on)")
	f.pair("enable-provisioner", "no-provisioner", func(o *deploy.Options) *bool { return &o.NoProvisioner }, false, "the function behind the custom resource of limits (default on)")
	f.string("code-bucket", func(o *deploy.Options) *string { return &o.CodeBucket }, "name of an existing `bucket` for the code of the functions (default a\nbucket that the stack makes)")
	word(f, "arch", architectures, func(o *deploy.Options) *deploy.Architecture { return &o.Architecture },
		"processors of the functions: arm64 or amd64 (default those that the\ncode is for; arm64 in a template)")
	f.int("lambda-memory", func(o *deploy.Options) *int { return &o.MemoryMB }, "memory of the aggregator in `MB`, 128 to 3008 (default 256)")
	seconds := f.set.Int("lambda-timeout", 0, "`seconds` that a call of the aggregator may take, 1 to 900\n(default 60)")
	f.numbers["lambda-timeout"] = seconds
	sets(f, "lambda-timeout", func(o *deploy.Options) *time.Duration { return &o.Timeout })
	f.apply["lambda-timeout"] = func(o *deploy.Options) { o.Timeout = time.Duration(*seconds) * time.Second }
	f.int("reserved-concurrency", func(o *deploy.Options) *int { return &o.ReservedConcurrency }, "concurrent `calls` reserved for the aggregator (default none)")
	f.pair("enable-tracing", "no-tracing", func(o *deploy.Options) *bool { return &o.Tracing }, true, "record calls of the functions in X-Ray")
	f.string("lambda-log-level", func(o *deploy.Options) *string { return &o.LogLevel }, "lowest `level` that the aggregator logs: debug, info, warn, error\n(default info)")
	f.int("log-retention-days", func(o *deploy.Options) *int { return &o.LogRetentionDays }, "`days` for which logs are kept (default 30)")
	f.int("batch-size", func(o *deploy.Options) *int { return &o.BatchSize }, "most `records` of a call of the aggregator, 1 to 10000 (default 100)")
	f.window = f.durationOrNone("batch-window", func(o *deploy.Options) *time.Duration { return &o.BatchWindow }, "`time` that records wait for others before a call, up to 5m; 0 is\nnot at all, for up to 10 records (default 5s)")
	f.quiet = f.durationOrNone("merge-quiet", func(o *deploy.Options) *time.Duration { return &o.Quiet }, "merge shards that are hardly written after this `time`; 0 never\nmerges, which clients of the Python package need (default 30m)")
}

func (f *Flags) bindArchive() {
	f.pair("enable-audit-archival", "no-audit-archival", func(o *deploy.Options) *bool { return &o.NoArchive }, false, "the bucket of expired audit events (default on)")
	f.int("audit-archive-glacier-days", func(o *deploy.Options) *int { return &o.GlacierDays }, "age in `days` at which archived events move to Glacier, 1 to 3650\n(default 90)")
}

func (f *Flags) bindAlarms() {
	f.pair("enable-alarms", "no-alarms", func(o *deploy.Options) *bool { return &o.NoAlarms }, false, "the alarms and the dashboard (default on)")
	f.string("alarm-sns-topic", func(o *deploy.Options) *string { return &o.AlarmTopicARN }, "`ARN` of the topic that every alarm notifies")
	f.int("lambda-duration-threshold-pct", func(o *deploy.Options) *int { return &o.DurationAlarmPercent }, "average duration that raises an alarm, in `percent` of\n--lambda-timeout, 1 to 100 (default 80)")
}

func (f *Flags) bindAccess() {
	f.pair("iam", "no-iam", func(o *deploy.Options) *bool { return &o.NoIAM }, false, "policies and roles (default on); without them a function needs\nan existing role")
	f.pair("create-iam-roles", "no-create-iam-roles", func(o *deploy.Options) *bool { return &o.Roles }, true, "make roles of applications, administrators and readers")
	f.bool("create-namespace-roles", func(o *deploy.Options) *bool { return &o.NamespaceRoles }, "make the same three roles for principals with the tag\nzael_namespace_id")
	f.string("aggregator-role-arn", func(o *deploy.Options) *string { return &o.AggregatorRoleARN }, "`ARN` of an existing role for the aggregator")
	f.string("provisioner-role-arn", func(o *deploy.Options) *string { return &o.ProvisionerRoleARN }, "`ARN` of an existing role for the provisioner")
	f.string("permission-boundary", func(o *deploy.Options) *string { return &o.PermissionBoundary }, "`policy`, by name or ARN, that bounds every role")
	f.string("role-name-format", func(o *deploy.Options) *string { return &o.RoleNameFormat }, "`format` of the names of roles, team-{} for instance")
	f.string("policy-name-format", func(o *deploy.Options) *string { return &o.PolicyNameFormat }, "`format` of the names of policies")
}

func (f *Flags) int(name string, field func(*deploy.Options) *int, usage string) {
	v := f.set.Int(name, 0, usage)
	f.numbers[name] = v
	sets(f, name, field)
	f.apply[name] = func(o *deploy.Options) { *field(o) = *v }
}

// durationOrNone adds a flag for a time of which 0 means none. An option has less than 0 for it.
func (f *Flags) durationOrNone(name string, field func(*deploy.Options) *time.Duration, usage string) *time.Duration {
	v := f.set.Duration(name, 0, usage)
	sets(f, name, field)
	f.apply[name] = func(o *deploy.Options) {
		if *field(o) = *v; *v == 0 {
			*field(o) = -1
		}
	}
	return v
}

func (f *Flags) string(name string, field func(*deploy.Options) *string, usage string) {
	v := f.set.String(name, "", usage)
	sets(f, name, field)
	f.apply[name] = func(o *deploy.Options) { *field(o) = *v }
}

func (f *Flags) windows(name string, field func(*deploy.Options) *[]string, help string) {
	var v []usage.Window
	f.set.Var(app.Windows(&v), name, help)
	sets(f, name, field)
	f.apply[name] = func(o *deploy.Options) { *field(o) = app.WindowNames(v) }
}

func (f *Flags) bool(name string, field func(*deploy.Options) *bool, usage string) {
	v := f.set.Bool(name, false, usage)
	sets(f, name, field)
	f.apply[name] = func(o *deploy.Options) { *field(o) = *v }
}

// pair adds a flag and its opposite. on is the value of the field that the first one sets.
func (f *Flags) pair(name, opposite string, field func(*deploy.Options) *bool, on bool, usage string) {
	yes := f.set.Bool(name, false, usage)
	no := f.set.Bool(opposite, false, "the opposite of --"+name)
	sets(f, name, field)
	f.apply[name] = func(o *deploy.Options) { *field(o) = *yes == on }
	f.apply[opposite] = func(o *deploy.Options) { *field(o) = *no != on }
}

// zeros are the flags for which 0 is a value. For the others it would mean the default in
// silence.
var zeros = []string{"reserved-concurrency"}

// Validate refuses a flag together with its opposite, and a number 0 that is no value.
func (f *Flags) Validate() error {
	for _, pair := range [][2]string{
		{"enable-deletion-protection", "no-deletion-protection"},
		{"enable-aggregator", "no-aggregator"},
		{"enable-provisioner", "no-provisioner"},
		{"enable-tracing", "no-tracing"},
		{"enable-audit-archival", "no-audit-archival"},
		{"enable-alarms", "no-alarms"},
		{"iam", "no-iam"},
		{"create-iam-roles", "no-create-iam-roles"},
	} {
		if f.set.Changed(pair[0]) && f.set.Changed(pair[1]) {
			return fmt.Errorf("--%s and --%s contradict each other: give one of them", pair[0], pair[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.numbers)) {
		if f.set.Changed(name) && *f.numbers[name] == 0 && !slices.Contains(zeros, name) {
			return fmt.Errorf("invalid --%s 0: give at least 1, or leave the flag out", name)
		}
	}
	if *f.window < 0 {
		return fmt.Errorf("invalid --batch-window %v: give whole seconds up to 5m, or 0 for none", *f.window)
	}
	if *f.quiet != 0 && *f.quiet < time.Second {
		return fmt.Errorf("invalid --merge-quiet %v: give at least 1s, or 0 to never merge", *f.quiet)
	}
	return nil
}

// A choice is a word of the command line that stands for a value.
type choice[T ~string] struct {
	word string
	of   T
}

// word adds a flag with a choice of words. The first is the default.
func word[T ~string](f *Flags, name string, choices []choice[T], field func(*deploy.Options) *T, usage string) {
	var v string
	words, values := make([]string, len(choices)), map[string]T{}
	for i, c := range choices {
		words[i], values[c.word] = c.word, c.of
	}
	f.set.Var(app.Choice(&v, words...), name, usage)
	sets(f, name, field)
	f.apply[name] = func(o *deploy.Options) { *field(o) = values[v] }
}

// Tags is the value of the flag of tags.
type Tags map[string]string

// Set reads one more tag. Its key must be new.
func (t *Tags) Set(s string) error {
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" {
		return errors.New("give KEY=VALUE, team=core for instance")
	}
	if _, twice := (*t)[key]; twice {
		return fmt.Errorf("tag %s was given before: give each key once", key)
	}
	(*t)[key] = value
	return nil
}

// String writes the tags in the form of the flag.
func (t *Tags) String() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(*t)) {
		parts = append(parts, key+"="+(*t)[key])
	}
	return strings.Join(parts, " ")
}

// Type is the value's name in help.
func (*Tags) Type() string { return "KEY=VALUE" }

// IsCumulative says that the flag takes several tags.
func (*Tags) IsCumulative() bool { return true }
