package deploy

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/internal/parameter"
)

// parameters are the parameters of the template, in its order.
var parameters = []parameter.Parameter[Options]{
	{Key: "SnapshotWindows", Get: func(o *Options) string { return strings.Join(o.Windows, ",") }, Set: setWindows},
	parameter.Number("SnapshotRetentionDays", func(o *Options) *int { return &o.UsageRetentionDays }),
	parameter.Constant[Options]("SchemaVersion", SchemaVersion),
	parameter.Text("GSI2Projection", func(o *Options) *Projection { return &o.GSI2Projection }),
	parameter.Flag("EnableLocalIndexes", func(o *Options) *bool { return &o.LocalIndexes }),
	parameter.Text("KMSKeyArn", func(o *Options) *string { return &o.KMSKeyARN }),
	parameter.Optional("PITRRecoveryPeriodDays", func(o *Options) *int { return &o.PITRDays }),
	parameter.Flag("EnableDeletionProtection", func(o *Options) *bool { return &o.DeletionProtection }),
	parameter.Choice("DataPolicy", "Retain", "Delete", func(o *Options) *bool { return &o.DeleteData }),
	parameter.Choice("BillingMode", "PAY_PER_REQUEST", "PROVISIONED", func(o *Options) *bool { return &o.Capacity.Provisioned }),
	parameter.Number("MinReadCapacity", func(o *Options) *int { return &o.Capacity.MinRead }),
	parameter.Number("MaxReadCapacity", func(o *Options) *int { return &o.Capacity.MaxRead }),
	parameter.Number("MinWriteCapacity", func(o *Options) *int { return &o.Capacity.MinWrite }),
	parameter.Number("MaxWriteCapacity", func(o *Options) *int { return &o.Capacity.MaxWrite }),
	parameter.Number("TargetUtilization", func(o *Options) *int { return &o.Capacity.TargetPercent }),
	parameter.Without("EnableAggregator", func(o *Options) *bool { return &o.NoAggregator }),
	parameter.Without("EnableProvisioner", func(o *Options) *bool { return &o.NoProvisioner }),
	parameter.Text("CodeBucket", func(o *Options) *string { return &o.CodeBucket }),
	parameter.Text("CodeKey", func(o *Options) *string { return &o.CodeKey }),
	parameter.Text("Architecture", func(o *Options) *Architecture { return &o.Architecture }),
	parameter.Number("LambdaMemorySize", func(o *Options) *int { return &o.MemoryMB }),
	parameter.Seconds("LambdaTimeout", func(o *Options) *time.Duration { return &o.Timeout }),
	parameter.Optional("ReservedConcurrency", func(o *Options) *int { return &o.ReservedConcurrency }),
	parameter.Flag("EnableTracing", func(o *Options) *bool { return &o.Tracing }),
	parameter.Text("LogLevel", func(o *Options) *string { return &o.LogLevel }),
	parameter.Number("LogRetentionDays", func(o *Options) *int { return &o.LogRetentionDays }),
	{Key: "MergeQuiet", Get: (*Options).mergeQuiet, Set: setQuiet},
	parameter.Number("StreamBatchSize", func(o *Options) *int { return &o.BatchSize }),
	{Key: "StreamBatchWindow", Get: (*Options).batchWindow, Set: setBatchWindow},
	parameter.Text("StreamStartingPosition", func(o *Options) *Position { return &o.StartingPosition }),
	parameter.Without("EnableAuditArchival", func(o *Options) *bool { return &o.NoArchive }),
	parameter.Number("AuditArchiveGlacierTransitionDays", func(o *Options) *int { return &o.GlacierDays }),
	parameter.Without("EnableAlarms", func(o *Options) *bool { return &o.NoAlarms }),
	parameter.Text("AlarmSNSTopicArn", func(o *Options) *string { return &o.AlarmTopicARN }),
	{Key: "LambdaDurationThreshold", Get: (*Options).durationAlarm, Set: setDurationAlarm},
	parameter.Without("EnableIAM", func(o *Options) *bool { return &o.NoIAM }),
	parameter.Flag("EnableIAMRoles", func(o *Options) *bool { return &o.Roles }),
	parameter.Flag("EnableNamespaceRoles", func(o *Options) *bool { return &o.NamespaceRoles }),
	parameter.Text("AggregatorRoleArn", func(o *Options) *string { return &o.AggregatorRoleARN }),
	parameter.Text("ProvisionerRoleArn", func(o *Options) *string { return &o.ProvisionerRoleARN }),
	parameter.Text("PermissionBoundary", func(o *Options) *string { return &o.PermissionBoundary }),
	parameter.Prefix("RoleNamePrefix", func(o *Options) *string { return &o.RoleNameFormat }),
	parameter.Suffix("RoleNameSuffix", func(o *Options) *string { return &o.RoleNameFormat }),
	parameter.Prefix("PolicyNamePrefix", func(o *Options) *string { return &o.PolicyNameFormat }),
	parameter.Suffix("PolicyNameSuffix", func(o *Options) *string { return &o.PolicyNameFormat }),
}

// OptionsOf reads the options back from the parameters of a stack and its tags, so that an
// update can keep what it does not change. A parameter that the stack does not have keeps
// its default, and a parameter that this version does not know is ignored. The name, the
// retention of audit events and the version are not in the parameters. The parameters of the
// peer's template count, too. A value that cannot be read gives a [*store.ValidationError].
func OptionsOf(name string, has []Parameter, tags []Tag) (Options, error) {
	o := Options{Name: name}
	values := map[string]string{}
	for _, p := range has {
		values[p.Key] = p.Value
	}
	if err := parameter.Read(parameters, values, &o); err != nil {
		return o, err
	}
	o.Tags = usersTags(tags)
	err := o.setPeerFormats(values)
	return o, err
}

// usersTags leaves out the project's tags.
func usersTags(tags []Tag) map[string]string {
	users := map[string]string{}
	for _, t := range tags {
		if t.Key != TagManagedBy && !strings.HasPrefix(t.Key, "zae-limiter:") && !strings.HasPrefix(t.Key, "aws:") {
			users[t.Key] = t.Value
		}
	}
	if len(users) == 0 {
		return nil
	}
	return users
}

// formatted is the name of a component after a format.
func formatted(format, name string, c Component) string {
	return strings.Replace(cmp.Or(format, placeholder), placeholder, name+"-"+string(c), 1)
}

const placeholder = parameter.Placeholder

func setWindows(o *Options, v string) error {
	o.Windows = strings.Split(strings.ReplaceAll(v, " ", ""), ",")
	return nil
}

// setDurationAlarm follows the timeout in the order of the parameters. It rounds up, so that
// a percentage comes back as itself.
func setDurationAlarm(o *Options, v string) error {
	n, err := parameter.Integer(v)
	if err != nil {
		return err
	}
	const percent = 100
	timeout := int(cmp.Or(o.Timeout, defaultTimeout).Milliseconds())
	o.DurationAlarmPercent = min(percent, (n*percent+timeout-1)/timeout)
	return nil
}

func (o *Options) batchWindow() string {
	return strconv.Itoa(int(max(0, o.BatchWindow).Seconds()))
}

func setBatchWindow(o *Options, v string) error {
	n, err := parameter.Integer(v)
	if o.BatchWindow = time.Duration(n) * time.Second; n == 0 {
		o.BatchWindow = -1
	}
	return err
}

func (o *Options) mergeQuiet() string {
	if o.Quiet < 0 {
		return "0"
	}
	return o.Quiet.String()
}

func setQuiet(o *Options, v string) (err error) {
	if o.Quiet, err = time.ParseDuration(v); err != nil {
		return errors.New("give a duration, 30m for instance")
	}
	if o.Quiet == 0 {
		o.Quiet = -1
	}
	return nil
}
