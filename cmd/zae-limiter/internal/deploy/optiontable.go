package deploy

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
)

// Bounds that several options have, and those of AWS.
const (
	maxDays     = 3650
	maxCapacity = 40000
)

var (
	roleARN     = option.Pattern(`\Aarn:aws(-[a-z]+)*:iam::\d{12}:role/[\w+=,.@/-]+\z`)
	boundaryARN = option.Pattern(`\A(arn:aws(-[a-z]+)*:iam::(\d{12}|aws):policy/)?[\w+=,.@/-]+\z`)
	topicARN    = option.Pattern(`\Aarn:aws(-[a-z]+)*:sns:[a-z0-9-]+:\d{12}:[\w-]+(\.fifo)?\z`)
	keyARN      = option.Pattern(`\Aarn:aws(-[a-z]+)*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+\z`)
	bucketName  = option.Pattern(`\A[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\z`)
	codeKey     = option.Pattern(`\A[\w!.*'()/-]+\z`)
)

// LogRetentions are the periods for which CloudWatch Logs keeps logs, in days.
var LogRetentions = strings.Fields("1 3 5 7 14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653")

// LogRetentionRule says what to give instead of another period.
var LogRetentionRule = "CloudWatch Logs has only these periods: " + strings.Join(LogRetentions, " ")

// OptionTable has the options of a stack, and the parameters of the template in its order.
var OptionTable = option.Table[Options]{
	// Usage
	{Name: "Name", Of: func(o *Options) any { return &o.Name }, Flag: "name", Check: (*Options).checkName},
	{
		Name: "UsageRetentionDays", Of: func(o *Options) any { return &o.UsageRetentionDays }, Parameter: "SnapshotRetentionDays", Default: "90", Min: 1, Max: maxDays,
		Flag: "usage-retention-days", Text: "`days` for which usage is kept after its month, {bounds} {default}",
	},
	{
		Name: "AuditRetentionDays", Of: func(o *Options) any { return &o.AuditRetentionDays }, Min: 1, Max: maxDays,
		Flag: "audit-retention-days", Text: "`days` for which audit events stay in the table, {bounds} (default as the table has it, else 90)",
	},
	{Parameter: "SchemaVersion", Default: SchemaVersion, Get: func(*Options) string { return SchemaVersion }},

	// Table
	{
		Name: "GSI2Projection", Of: func(o *Options) any { return (*string)(&o.GSI2Projection) }, Parameter: "GSI2Projection", Default: string(ProjectKeys),
		Values: []string{string(ProjectKeys), string(ProjectAll)}, Words: []string{"keys", "all"},
		Flag: "gsi2-projection", Text: "attributes in the index of a resource's buckets: keys, or all as in the Python package's tables; a table cannot change it {default}",
	},
	{
		Name: "LocalIndexes", Of: func(o *Options) any { return &o.LocalIndexes }, Parameter: "EnableLocalIndexes", Default: "false",
		Flag: "local-indexes", Text: "give the table the five local indexes of the Python package's tables; only a table that has them needs this",
	},
	{
		Name: "KMSKeyARN", Of: func(o *Options) any { return &o.KMSKeyARN }, Parameter: "KMSKeyArn", Pattern: keyARN, Rule: "give the ARN of a key, arn:aws:kms:REGION:ACCOUNT:key/ID",
		Flag: "kms-key", Text: "`ARN` of the key that encrypts the table (default a key that AWS owns)",
	},
	{
		Name: "PITRDays", Of: func(o *Options) any { return &o.PITRDays }, Parameter: "PITRRecoveryPeriodDays", Min: 1, Max: 35,
		Flag: "pitr-recovery-days", Text: "`days` for which the table can be restored, {bounds} (default 35)",
	},
	{
		Name: "DeletionProtection", Of: func(o *Options) any { return &o.DeletionProtection }, Parameter: "EnableDeletionProtection", Default: "false",
		Flag: "enable-deletion-protection", Opposite: "no-deletion-protection", Text: "let DynamoDB refuse to delete the table",
	},
	{
		Name: "DeleteData", Of: func(o *Options) any { return &o.DeleteData }, Parameter: "DataPolicy", Default: "Retain", Values: []string{"Retain", "Delete"},
		Flag: "delete-data-with-stack", Text: "delete table and archive together with the stack; otherwise both stay",
	},
	{
		Name: "Capacity.Provisioned", Of: func(o *Options) any { return &o.Capacity.Provisioned }, Parameter: "BillingMode", Default: "PAY_PER_REQUEST", Values: []string{"PAY_PER_REQUEST", "PROVISIONED"},
		Flag: "provisioned", Text: "provision throughput with auto-scaling instead of paying for each request",
	},
	{
		Name: "Capacity.MinRead", Of: func(o *Options) any { return &o.Capacity.MinRead }, Parameter: "MinReadCapacity", Default: "5", Min: 1, Max: maxCapacity,
		Flag: "min-read-capacity", Text: "least read `units` of the table and of each index {default}",
	},
	{
		Name: "Capacity.MaxRead", Of: func(o *Options) any { return &o.Capacity.MaxRead }, Parameter: "MaxReadCapacity", Default: "100", Min: 1, Max: maxCapacity,
		Check: func(o *Options) error { return notLess("Capacity.MaxRead", o.Capacity.MaxRead, o.Capacity.MinRead) },
		Flag:  "max-read-capacity", Text: "most read `units` of the table and of each index {default}",
	},
	{
		Name: "Capacity.MinWrite", Of: func(o *Options) any { return &o.Capacity.MinWrite }, Parameter: "MinWriteCapacity", Default: "5", Min: 1, Max: maxCapacity,
		Flag: "min-write-capacity", Text: "least write `units` of the table and of each index {default}",
	},
	{
		Name: "Capacity.MaxWrite", Of: func(o *Options) any { return &o.Capacity.MaxWrite }, Parameter: "MaxWriteCapacity", Default: "100", Min: 1, Max: maxCapacity,
		Check: func(o *Options) error { return notLess("Capacity.MaxWrite", o.Capacity.MaxWrite, o.Capacity.MinWrite) },
		Flag:  "max-write-capacity", Text: "most write `units` of the table and of each index {default}",
	},
	{
		Name: "Capacity.TargetPercent", Of: func(o *Options) any { return &o.Capacity.TargetPercent }, Parameter: "TargetUtilization", Default: "70", Min: 20, Max: 90,
		Flag: "target-utilization", Text: "use of the provisioned throughput that auto-scaling aims at, in `percent`, {bounds} {default}",
	},

	// Functions
	{
		Name: "Aggregator", Of: func(o *Options) any { return &o.Aggregator }, Parameter: "EnableAggregator", Default: "true",
		Flag: "enable-aggregator", Opposite: "no-aggregator", Text: "the function that follows the table's stream {default}",
	},
	{
		Name: "Provisioner", Of: func(o *Options) any { return &o.Provisioner }, Parameter: "EnableProvisioner", Default: "true",
		Flag: "enable-provisioner", Opposite: "no-provisioner", Text: "the function behind the custom resource of limits {default}",
	},
	{
		Name: "CodeBucket", Of: func(o *Options) any { return &o.CodeBucket }, Parameter: "CodeBucket", Pattern: bucketName, Rule: "give the name of an S3 bucket",
		Flag: "code-bucket", Text: "name of an existing `bucket` for the code of the functions (default a bucket that the stack makes)",
	},
	{Name: "CodeKey", Of: func(o *Options) any { return &o.CodeKey }, Parameter: "CodeKey", Pattern: codeKey, Rule: "give the key of the zip, as lambda-export --info shows it"},
	{
		Name: "Architecture", Of: func(o *Options) any { return (*string)(&o.Architecture) }, Parameter: "Architecture", Default: string(ARM64),
		Values: []string{string(ARM64), string(AMD64)}, Words: []string{"arm64", "amd64"},
		Flag: "arch", Text: "processors of the functions: arm64 or amd64 (default those that the code is for; arm64 in a template)",
	},
	{
		Name: "MemoryMB", Of: func(o *Options) any { return &o.MemoryMB }, Parameter: "LambdaMemorySize", Default: "256", Min: 128, Max: 3008,
		Flag: "lambda-memory", Text: "memory of the aggregator in `MB`, {bounds} {default}",
	},
	{
		Name: "TimeoutSeconds", Of: func(o *Options) any { return &o.TimeoutSeconds }, Parameter: "LambdaTimeout", Default: "60", Min: 1, Max: 900,
		Flag: "lambda-timeout", Text: "`seconds` that a call of the aggregator may take, {bounds} {default}",
	},
	{
		Name: "ReservedConcurrency", Of: func(o *Options) any { return &o.ReservedConcurrency }, Parameter: "ReservedConcurrency", Max: 10000,
		Flag: "reserved-concurrency", Text: "concurrent `calls` reserved for the aggregator (default none)",
	},
	{
		Name: "Tracing", Of: func(o *Options) any { return &o.Tracing }, Parameter: "EnableTracing", Default: "false",
		Flag: "enable-tracing", Opposite: "no-tracing", Text: "record calls of the functions in X-Ray",
	},
	{
		Name: "LogLevel", Of: func(o *Options) any { return &o.LogLevel }, Parameter: "LogLevel", Default: "info", Values: []string{"debug", "info", "warn", "error"},
		Flag: "lambda-log-level", Text: "lowest `level` that the aggregator logs: debug, info, warn, error {default}",
	},
	{
		Name: "LogRetentionDays", Of: func(o *Options) any { return &o.LogRetentionDays }, Parameter: "LogRetentionDays", Default: "30",
		Values: LogRetentions, Rule: LogRetentionRule,
		Flag: "log-retention-days", Text: "`days` for which logs are kept {default}",
	},
	{
		Name: "Quiet", Of: func(o *Options) any { return &o.Quiet }, Parameter: "MergeQuiet", Default: "30m0s", Get: (*Options).quiet, Set: (*Options).setQuiet, Check: (*Options).checkQuiet,
		Flag: "merge-quiet", Text: "merge shards that are hardly written after this `time`; 0 never merges, which clients of the Python package need {default}",
	},
	{
		Name: "BatchSize", Of: func(o *Options) any { return &o.BatchSize }, Parameter: "StreamBatchSize", Default: "100", Min: 1, Max: 10000,
		Flag: "batch-size", Text: "most `records` of a call of the aggregator, {bounds} {default}",
	},
	{
		Name: "BatchWindow", Of: func(o *Options) any { return &o.BatchWindow }, Parameter: "StreamBatchWindow", Default: "5", Max: 300,
		Rule: "give whole seconds up to 5m, or 0 for none", Check: (*Options).checkBatchWindow,
		Flag: "batch-window", Text: "`time` that records wait for others before a call, up to 5m; 0 is not at all, for up to 10 records {default}",
	},
	{
		Name: "StartingPosition", Of: func(o *Options) any { return (*string)(&o.StartingPosition) }, Parameter: "StreamStartingPosition", Default: string(FromTheStart),
		Values: []string{string(FromTheStart), string(FromNow)},
	},

	// Archive
	{
		Name: "Archive", Of: func(o *Options) any { return &o.Archive }, Parameter: "EnableAuditArchival", Default: "true",
		Flag: "enable-audit-archival", Opposite: "no-audit-archival", Text: "the bucket of expired audit events {default}",
	},
	{
		Name: "GlacierDays", Of: func(o *Options) any { return &o.GlacierDays }, Parameter: "AuditArchiveGlacierTransitionDays", Default: "90", Min: 1, Max: maxDays,
		Flag: "audit-archive-glacier-days", Text: "age in `days` at which archived events move to Glacier, {bounds} {default}",
	},

	// Alarms
	{
		Name: "Alarms", Of: func(o *Options) any { return &o.Alarms }, Parameter: "EnableAlarms", Default: "true",
		Flag: "enable-alarms", Opposite: "no-alarms", Text: "the alarms and the dashboard {default}",
	},
	{
		Name: "AlarmTopicARN", Of: func(o *Options) any { return &o.AlarmTopicARN }, Parameter: "AlarmSNSTopicArn", Pattern: topicARN, Rule: "give the ARN of a topic, arn:aws:sns:REGION:ACCOUNT:NAME",
		Flag: "alarm-sns-topic", Text: "`ARN` of the topic that every alarm notifies",
	},
	{
		Name: "DurationAlarmPercent", Of: func(o *Options) any { return &o.DurationAlarmPercent }, Parameter: "LambdaDurationThreshold", Default: "48000", Min: 1, Max: percent,
		Get: (*Options).durationAlarm, Set: (*Options).setDurationAlarm,
		Flag: "lambda-duration-threshold-pct", Text: "average duration that raises an alarm, in `percent` of --lambda-timeout, {bounds} {default}",
	},

	// Access
	{
		Name: "IAM", Of: func(o *Options) any { return &o.IAM }, Parameter: "EnableIAM", Default: "true",
		Flag: "iam", Opposite: "no-iam", Text: "policies and roles {default}; without them a function needs an existing role",
	},
	{
		Name: "Roles", Of: func(o *Options) any { return &o.Roles }, Parameter: "EnableIAMRoles", Default: "false",
		Check: func(o *Options) error { return o.needPolicies("Roles", o.Roles) },
		Flag:  "create-iam-roles", Opposite: "no-create-iam-roles", Text: "make roles of applications, administrators and readers",
	},
	{
		Name: "NamespaceRoles", Of: func(o *Options) any { return &o.NamespaceRoles }, Parameter: "EnableNamespaceRoles", Default: "false",
		Check: func(o *Options) error { return o.needPolicies("NamespaceRoles", o.NamespaceRoles) },
		Flag:  "create-namespace-roles", Text: "make the same three roles for principals with the tag zael_namespace_id",
	},
	{
		Name: "AggregatorRoleARN", Of: func(o *Options) any { return &o.AggregatorRoleARN }, Parameter: "AggregatorRoleArn", Pattern: roleARN, Rule: roleRule,
		Flag: "aggregator-role-arn", Text: "`ARN` of an existing role for the aggregator",
	},
	{
		Name: "ProvisionerRoleARN", Of: func(o *Options) any { return &o.ProvisionerRoleARN }, Parameter: "ProvisionerRoleArn", Pattern: roleARN, Rule: roleRule,
		Flag: "provisioner-role-arn", Text: "`ARN` of an existing role for the provisioner",
	},
	{
		Name: "PermissionBoundary", Of: func(o *Options) any { return &o.PermissionBoundary }, Parameter: "PermissionBoundary", Pattern: boundaryARN, Rule: "give the name or the ARN of a policy",
		Flag: "permission-boundary", Text: "`policy`, by name or ARN, that bounds every role",
	},
	{
		Name: "RoleNameFormat", Of: func(o *Options) any { return &o.RoleNameFormat }, Check: (*Options).checkRoleNames,
		Flag: "role-name-format", Text: "`format` of the names of roles, team-{} for instance",
	},
	option.Prefix("RoleNamePrefix", func(o *Options) *string { return &o.RoleNameFormat }),
	option.Suffix("RoleNameSuffix", func(o *Options) *string { return &o.RoleNameFormat }),
	{
		Name: "PolicyNameFormat", Of: func(o *Options) any { return &o.PolicyNameFormat }, Check: (*Options).checkPolicyNames,
		Flag: "policy-name-format", Text: "`format` of the names of policies",
	},
	option.Prefix("PolicyNamePrefix", func(o *Options) *string { return &o.PolicyNameFormat }),
	option.Suffix("PolicyNameSuffix", func(o *Options) *string { return &o.PolicyNameFormat }),
	{
		Name: "Tags", Of: func(o *Options) any { return &o.Tags }, Check: (*Options).checkTags,
		Flag: "tag", Text: "`KEY=VALUE` of a tag of the stack; repeat the flag for more, up to 44",
	},
}

const (
	roleRule = "give the ARN of a role, arn:aws:iam::ACCOUNT:role/NAME"

	percent = 100
	second  = 1000 // milliseconds
)

// durationAlarm is the average duration of a call that raises an alarm, in milliseconds.
func (o *Options) durationAlarm() string {
	return strconv.Itoa(o.TimeoutSeconds * second * o.DurationAlarmPercent / percent)
}

// setDurationAlarm follows the timeout in the order of the parameters. It rounds up, so that
// a percentage comes back as itself.
func (o *Options) setDurationAlarm(v string) error {
	n, err := option.Integer(v)
	if err != nil {
		return err
	}
	timeout := max(1, o.TimeoutSeconds*second)
	o.DurationAlarmPercent = min(percent, (n*percent+timeout-1)/timeout)
	return nil
}

func (o *Options) quiet() string {
	if o.Quiet == 0 {
		return "0"
	}
	return o.Quiet.String()
}

func (o *Options) setQuiet(v string) (err error) {
	if o.Quiet, err = time.ParseDuration(v); err != nil {
		return errors.New("give a duration, 30m for instance")
	}
	return nil
}
