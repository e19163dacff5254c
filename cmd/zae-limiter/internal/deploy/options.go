package deploy

import (
	"cmp"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
)

// A Projection says which attributes the index of a resource's buckets, GSI2, has.
type Projection string

// The values of [Projection].
const (
	// ProjectKeys costs nothing when a write changes no key.
	ProjectKeys Projection = "KEYS_ONLY"
	// ProjectAll is what the peer's tables have. Each write to a bucket costs twice.
	ProjectAll Projection = "ALL"
)

// An Architecture is that of the functions' processors, in Lambda's words.
type Architecture string

// The values of [Architecture].
const (
	ARM64 Architecture = "arm64"
	AMD64 Architecture = "x86_64"
)

// A Position is where an event source mapping begins to read the stream.
type Position string

// The values of [Position].
const (
	// FromTheStart begins with the oldest record that the stream still has. The aggregator
	// counts each record once, so it may see records again.
	FromTheStart Position = "TRIM_HORIZON"
	// FromNow begins with new records. The peer's stacks have it, and CloudFormation cannot
	// change it without replacing the mapping.
	FromNow Position = "LATEST"
)

// Options describe a stack. [Defaults] makes them, and [OptionTable] has the default and the
// bounds of each.
type Options struct {
	// Name is the name of the stack and of its table. Lambda's limit of 64 characters for the
	// name of a function leaves 45, and 53 without a provisioner.
	Name string

	// Windows are the windows to sum usage over: hourly, daily, monthly. Each costs one write
	// for each entity and resource of a batch.
	Windows []string
	// UsageRetentionDays is how long usage is kept after its window.
	UsageRetentionDays int
	// AuditRetentionDays is how long audit events stay in the table; 0 leaves the setting of
	// the table as it is, 90 in a new one. It is no parameter of the template: the deployer
	// writes it to the table.
	AuditRetentionDays int

	// Capacity is the table's throughput.
	Capacity Capacity
	// KMSKeyARN is the key that encrypts the table; "" is a key that AWS owns.
	KMSKeyARN string
	// GSI2Projection cannot be changed in a table.
	GSI2Projection Projection
	// LocalIndexes gives the table the five local indexes of the peer's tables, which
	// nothing uses. Only a table that has them needs it: without, it would be replaced.
	LocalIndexes bool
	// PITRDays is how far back the table can be restored; 0 is AWS's default, 35.
	PITRDays int
	// DeletionProtection makes DynamoDB refuse to delete the table.
	DeletionProtection bool
	// DeleteData deletes the table and the archive with the stack. Otherwise both stay.
	DeleteData bool

	// Aggregator is the function that follows the table's stream.
	Aggregator bool
	// Provisioner is the function that handles the custom resource of limits.
	Provisioner bool
	// CodeBucket is an existing bucket for the zip of the functions; "" makes a bucket, and
	// then the first deployment takes two change sets.
	CodeBucket string
	// CodeKey is the key of the zip in the bucket; with "" the stack has no functions.
	CodeKey string
	// Architecture is that of the functions. The zip must be for it.
	Architecture Architecture
	// MemoryMB is the memory of the aggregator in MB.
	MemoryMB int
	// TimeoutSeconds is how long one call of the aggregator may take.
	TimeoutSeconds int
	// ReservedConcurrency is the number of concurrent calls that only the aggregator may
	// use, and the most that it does use; 0 reserves none.
	ReservedConcurrency int
	// Tracing records calls of the functions in X-Ray.
	Tracing bool
	// LogLevel is the lowest level that the aggregator logs: debug, info, warn, error.
	LogLevel string
	// LogRetentionDays is how long logs are kept, one of the periods that CloudWatch Logs has.
	LogRetentionDays int
	// Quiet is the time after which the aggregator merges shards that are hardly written; 0
	// never merges. Clients of the peer need 0: they make a merged shard again, full.
	Quiet time.Duration
	// BatchSize is the most records of one call of the aggregator.
	BatchSize int
	// BatchWindow is how long records wait for others before a call, in whole seconds; 0 is
	// not at all, which Lambda takes for up to 10 records.
	BatchWindow time.Duration
	// StartingPosition is where the aggregator begins to read.
	StartingPosition Position

	// Archive is the bucket of expired audit events. Without an aggregator there is none.
	Archive bool
	// GlacierDays is the age at which archived events move to Glacier.
	GlacierDays int

	// Alarms are the alarms and the dashboard.
	Alarms bool
	// AlarmTopicARN is the SNS topic that every alarm notifies; with "" alarms only show
	// their state.
	AlarmTopicARN string
	// DurationAlarmPercent is the average duration of a call that raises an alarm, in
	// percent of TimeoutSeconds.
	DurationAlarmPercent int

	// IAM makes policies and roles. Without it a function needs an external role, and the
	// stack leaves out a function without one: see [Spec.Notes].
	IAM bool
	// Roles makes the roles of applications, administrators and readers.
	Roles bool
	// NamespaceRoles makes the same three roles for principals that have the tag
	// zael_namespace_id.
	NamespaceRoles bool
	// AggregatorRoleARN and ProvisionerRoleARN are existing roles; "" makes one.
	AggregatorRoleARN, ProvisionerRoleARN string
	// PermissionBoundary is the name or ARN of the policy that bounds every role; "" is none.
	PermissionBoundary string
	// RoleNameFormat and PolicyNameFormat turn the name of a role or policy into another:
	// exactly one {} stands for the name, as in team-{}; "" is {}.
	RoleNameFormat, PolicyNameFormat string

	// Tags are the user's tags, at most 44: CloudFormation accepts 50, and [Spec.Tags] adds 6.
	Tags map[string]string
	// Version is the version of this program, for the tags; "" is unknown.
	Version string
}

// Capacity is the throughput of the table and of each index. Auto-scaling keeps it between
// the bounds.
type Capacity struct {
	// Provisioned bills what is provisioned, not each request.
	Provisioned bool
	// The bounds, in capacity units. They count only if Provisioned.
	MinRead, MaxRead, MinWrite, MaxWrite int
	// TargetPercent is the use of what is provisioned that auto-scaling aims at.
	TargetPercent int
}

// DefaultName is the name of a stack that has no other.
const DefaultName = "zae-limiter"

// Defaults are the options of a stack that nobody says anything about.
func Defaults() Options {
	o := Options{Name: DefaultName}
	OptionTable.SetDefaults(&o)
	return o
}

// OptionsOf reads the options back from the parameters of a stack and its tags, so that an
// update can keep what it does not change. A parameter that the stack does not have keeps
// its default, and a parameter that this version does not know is ignored. The name, the
// retention of audit events and the version are not in the parameters. The parameters of the
// peer's template count, too. A value that cannot be read gives a [*store.ValidationError].
func OptionsOf(name string, has []Parameter, tags []Tag) (Options, error) {
	o := Defaults()
	o.Name = name
	values := map[string]string{}
	for _, p := range has {
		values[p.Key] = p.Value
	}
	if err := OptionTable.Read(values, &o); err != nil {
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

const placeholder = option.Placeholder
