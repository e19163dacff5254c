package deploy

import "time"

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

// Options describe a stack. The zero value works.
type Options struct {
	// Name is the name of the stack and of its table: 3 to 45 letters, digits and hyphens,
	// the first a letter. "" is zae-limiter. Lambda's limit of 64 characters for the name of
	// a function leaves 45, and 53 without a provisioner.
	Name string

	// Windows are the windows to sum usage over: hourly, daily, monthly; nil is hourly and
	// daily. Each costs one write for each entity and resource of a batch.
	Windows []string
	// UsageRetentionDays is how long usage is kept after its window, 1 to 3650; 0 is 90.
	UsageRetentionDays int
	// AuditRetentionDays is how long audit events stay in the table, 1 to 3650; 0 leaves the
	// setting of the table as it is, 90 in a new one. It is no parameter of the template:
	// the deployer writes it to the table.
	AuditRetentionDays int

	// Capacity is the table's throughput; the zero value is billed per request.
	Capacity Capacity
	// KMSKeyARN is the key that encrypts the table; "" is a key that AWS owns.
	KMSKeyARN string
	// GSI2Projection is [ProjectKeys] if "". CloudFormation cannot change it in a table.
	GSI2Projection Projection
	// LocalIndexes gives the table the five local indexes of the peer's tables, which
	// nothing uses. Only a table that has them needs it: without, it would be replaced.
	LocalIndexes bool
	// PITRDays is how far back the table can be restored, 1 to 35; 0 is AWS's default, 35.
	PITRDays int
	// DeletionProtection makes DynamoDB refuse to delete the table.
	DeletionProtection bool
	// DeleteData deletes the table and the archive with the stack. Otherwise both stay.
	DeleteData bool

	// NoAggregator leaves out the function that follows the table's stream.
	NoAggregator bool
	// NoProvisioner leaves out the function that handles the custom resource of limits.
	NoProvisioner bool
	// CodeBucket is an existing bucket for the zip of the functions; "" makes a bucket, and
	// then the first deployment takes two change sets.
	CodeBucket string
	// CodeKey is the key of the zip in the bucket; with "" the stack has no functions.
	CodeKey string
	// Architecture is [ARM64] if "". The zip must be for it.
	Architecture Architecture
	// MemoryMB is the memory of the aggregator in MB, 128 to 3008; 0 is 256.
	MemoryMB int
	// Timeout is how long one call of the aggregator may take, in whole seconds from 1 s to
	// 15 min; 0 is 60 s.
	Timeout time.Duration
	// ReservedConcurrency is the number of concurrent calls that only the aggregator may
	// use, and the most that it does use; 0 reserves none.
	ReservedConcurrency int
	// Tracing records calls of the functions in X-Ray.
	Tracing bool
	// LogLevel is the lowest level that the aggregator logs: debug, info, warn, error; "" is
	// info.
	LogLevel string
	// LogRetentionDays is how long logs are kept, one of the periods that CloudWatch Logs
	// has; 0 is 30.
	LogRetentionDays int
	// Quiet is the time after which the aggregator merges shards that are hardly written, at
	// least 1 s; 0 is 30 min, and less than 0 never merges. Clients of the peer need the
	// latter: they make a merged shard again, full.
	Quiet time.Duration
	// BatchSize is the most records of one call of the aggregator, 1 to 10,000; 0 is 100.
	BatchSize int
	// BatchWindow is how long records wait for others before a call, in whole seconds up to
	// 5 min; 0 is 5 s, and less than 0 is not at all, which Lambda takes for up to 10 records.
	BatchWindow time.Duration
	// StartingPosition is [FromTheStart] if "".
	StartingPosition Position

	// NoArchive leaves out the bucket of expired audit events. Without an aggregator there
	// is no archive either.
	NoArchive bool
	// GlacierDays is the age at which archived events move to Glacier, 1 to 3650; 0 is 90.
	GlacierDays int

	// NoAlarms leaves out the alarms and the dashboard.
	NoAlarms bool
	// AlarmTopicARN is the SNS topic that every alarm notifies; with "" alarms only show
	// their state.
	AlarmTopicARN string
	// DurationAlarmPercent is the average duration of a call that raises an alarm, in
	// percent of Timeout, 1 to 100; 0 is 80.
	DurationAlarmPercent int

	// NoIAM makes no policies and no roles. A function then needs an external role, and the
	// stack leaves out a function without one: see [Spec.Notes].
	NoIAM bool
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
	// exactly one {} stands for the name, as in team-{}. They have at most 55 and 120
	// characters; "" is {}.
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
	// The bounds, in capacity units; a minimum of 0 is 5, and a maximum of 0 is 100. Both
	// count only if Provisioned.
	MinRead, MaxRead, MinWrite, MaxWrite int
	// TargetPercent is the use of what is provisioned that auto-scaling aims at, 20 to 90;
	// 0 is 70.
	TargetPercent int
}
