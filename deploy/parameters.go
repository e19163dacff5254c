package deploy

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A parameter of the template is a field of the options, in both directions. set is nil
// where the value follows from other fields.
type parameter struct {
	key string
	get func(*Options) string
	set func(*Options, string) error
}

// parameters are the parameters of the template, in its order.
var parameters = []parameter{
	{"SnapshotWindows", func(o *Options) string { return strings.Join(o.Windows, ",") }, setWindows},
	number("SnapshotRetentionDays", func(o *Options) *int { return &o.UsageRetentionDays }),
	constant("SchemaVersion", SchemaVersion),
	text("GSI2Projection", func(o *Options) *Projection { return &o.GSI2Projection }),
	flag("EnableLocalIndexes", func(o *Options) *bool { return &o.LocalIndexes }),
	text("KMSKeyArn", func(o *Options) *string { return &o.KMSKeyARN }),
	optional("PITRRecoveryPeriodDays", func(o *Options) *int { return &o.PITRDays }),
	flag("EnableDeletionProtection", func(o *Options) *bool { return &o.DeletionProtection }),
	choice("DataPolicy", "Retain", "Delete", func(o *Options) *bool { return &o.DeleteData }),
	choice("BillingMode", "PAY_PER_REQUEST", "PROVISIONED", func(o *Options) *bool { return &o.Capacity.Provisioned }),
	number("MinReadCapacity", func(o *Options) *int { return &o.Capacity.MinRead }),
	number("MaxReadCapacity", func(o *Options) *int { return &o.Capacity.MaxRead }),
	number("MinWriteCapacity", func(o *Options) *int { return &o.Capacity.MinWrite }),
	number("MaxWriteCapacity", func(o *Options) *int { return &o.Capacity.MaxWrite }),
	number("TargetUtilization", func(o *Options) *int { return &o.Capacity.TargetPercent }),
	without("EnableAggregator", func(o *Options) *bool { return &o.NoAggregator }),
	without("EnableProvisioner", func(o *Options) *bool { return &o.NoProvisioner }),
	text("CodeBucket", func(o *Options) *string { return &o.CodeBucket }),
	text("CodeKey", func(o *Options) *string { return &o.CodeKey }),
	text("Architecture", func(o *Options) *Architecture { return &o.Architecture }),
	number("LambdaMemorySize", func(o *Options) *int { return &o.MemoryMB }),
	{"LambdaTimeout", func(o *Options) string { return strconv.Itoa(int(o.Timeout / time.Second)) }, setTimeout},
	optional("ReservedConcurrency", func(o *Options) *int { return &o.ReservedConcurrency }),
	flag("EnableTracing", func(o *Options) *bool { return &o.Tracing }),
	text("LogLevel", func(o *Options) *string { return &o.LogLevel }),
	number("LogRetentionDays", func(o *Options) *int { return &o.LogRetentionDays }),
	{"MergeQuiet", (*Options).mergeQuiet, setQuiet},
	text("StreamStartingPosition", func(o *Options) *Position { return &o.StartingPosition }),
	without("EnableAuditArchival", func(o *Options) *bool { return &o.NoArchive }),
	number("AuditArchiveGlacierTransitionDays", func(o *Options) *int { return &o.GlacierDays }),
	without("EnableAlarms", func(o *Options) *bool { return &o.NoAlarms }),
	text("AlarmSNSTopicArn", func(o *Options) *string { return &o.AlarmTopicARN }),
	{"LambdaDurationThreshold", (*Options).durationAlarm, setDurationAlarm},
	without("EnableIAM", func(o *Options) *bool { return &o.NoIAM }),
	flag("EnableIAMRoles", func(o *Options) *bool { return &o.Roles }),
	flag("EnableNamespaceRoles", func(o *Options) *bool { return &o.NamespaceRoles }),
	text("AggregatorRoleArn", func(o *Options) *string { return &o.AggregatorRoleARN }),
	text("ProvisionerRoleArn", func(o *Options) *string { return &o.ProvisionerRoleARN }),
	text("PermissionBoundary", func(o *Options) *string { return &o.PermissionBoundary }),
	prefix("RoleNamePrefix", func(o *Options) *string { return &o.RoleNameFormat }),
	suffix("RoleNameSuffix", func(o *Options) *string { return &o.RoleNameFormat }),
	prefix("PolicyNamePrefix", func(o *Options) *string { return &o.PolicyNameFormat }),
	suffix("PolicyNameSuffix", func(o *Options) *string { return &o.PolicyNameFormat }),
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
	for _, p := range parameters {
		value, ok := values[p.key]
		if !ok || value == "" || p.set == nil {
			continue
		}
		if err := p.set(&o, value); err != nil {
			return o, &store.ValidationError{Field: "parameter " + p.key, Value: value, Reason: err.Error()}
		}
	}
	o.Tags = usersTags(tags)
	return o, o.setPeerFormats(values)
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

func text[T ~string](key string, field func(*Options) *T) parameter {
	return parameter{
		key,
		func(o *Options) string { return string(*field(o)) },
		func(o *Options, v string) error { *field(o) = T(v); return nil },
	}
}

func number(key string, field func(*Options) *int) parameter {
	return parameter{
		key,
		func(o *Options) string { return strconv.Itoa(*field(o)) },
		func(o *Options, v string) (err error) { *field(o), err = integer(v); return err },
	}
}

// optional is a number whose 0 is the empty parameter.
func optional(key string, field func(*Options) *int) parameter {
	p := number(key, field)
	full := p.get
	p.get = func(o *Options) string {
		if *field(o) == 0 {
			return ""
		}
		return full(o)
	}
	return p
}

// flag is a field that is true where the parameter is.
func flag(key string, field func(*Options) *bool) parameter {
	return choice(key, "false", "true", field)
}

// without is a field that is true where the parameter is false.
func without(key string, field func(*Options) *bool) parameter {
	return choice(key, "true", "false", field)
}

// choice is a field with one word for false and one for true.
func choice(key, no, yes string, field func(*Options) *bool) parameter {
	return parameter{
		key,
		func(o *Options) string {
			if *field(o) {
				return yes
			}
			return no
		},
		func(o *Options, v string) error {
			if v != no && v != yes {
				return fmt.Errorf("give %s or %s", no, yes)
			}
			*field(o) = v == yes
			return nil
		},
	}
}

func constant(key, value string) parameter {
	return parameter{key: key, get: func(*Options) string { return value }}
}

// prefix is what a format has before the name. A template cannot take a format apart.
func prefix(key string, field func(*Options) *string) parameter {
	return parameter{
		key,
		func(o *Options) string { before, _, _ := strings.Cut(*field(o), placeholder); return before },
		func(o *Options, v string) error { *field(o) = v + placeholder; return nil },
	}
}

// suffix is what a format has after the name; its parameter follows the prefix.
func suffix(key string, field func(*Options) *string) parameter {
	return parameter{
		key,
		func(o *Options) string { _, after, _ := strings.Cut(*field(o), placeholder); return after },
		func(o *Options, v string) error { *field(o) = cmp.Or(*field(o), placeholder) + v; return nil },
	}
}

// formatted is the name of a component after a format.
func formatted(format, name string, c Component) string {
	return strings.Replace(cmp.Or(format, placeholder), placeholder, name+"-"+string(c), 1)
}

const placeholder = "{}"

func setWindows(o *Options, v string) error {
	o.Windows = strings.Split(strings.ReplaceAll(v, " ", ""), ",")
	return nil
}

func setTimeout(o *Options, v string) error {
	n, err := integer(v)
	o.Timeout = time.Duration(n) * time.Second
	return err
}

// setDurationAlarm follows setTimeout in the order of the parameters. It rounds up, so that
// a percentage comes back as itself.
func setDurationAlarm(o *Options, v string) error {
	n, err := integer(v)
	if err != nil {
		return err
	}
	const percent = 100
	timeout := int(cmp.Or(o.Timeout, defaultTimeout).Milliseconds())
	o.DurationAlarmPercent = min(percent, (n*percent+timeout-1)/timeout)
	return nil
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

func integer(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, errors.New("give a whole number")
	}
	return n, nil
}
