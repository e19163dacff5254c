package deploy

import (
	"cmp"
	"maps"
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

// Options describe a stack. [Defaults] makes them. [OptionTable] says of each what it is, and has
// its default and bounds; the comments here say what the table does not.
type Options struct {
	// Name is the name of the stack and of its table. Lambda's limit of 64 characters for the
	// name of a function leaves 45, and 53 without a provisioner.
	Name string

	UsageRetentionDays int
	// AuditRetentionDays 0 leaves the setting of the table as it is. The deployer writes it to
	// the table: it is no parameter.
	AuditRetentionDays int

	Capacity           Capacity
	KMSKeyARN          string     // "" is a key that AWS owns
	GSI2Projection     Projection // of an existing table, it cannot change
	LocalIndexes       bool       // nothing uses them; without, a table that has them would be replaced
	PITRDays           int        // 0 is AWS's default, 35
	DeletionProtection bool
	DeleteData         bool

	// Without Aggregator there is no archive either.
	Aggregator, Provisioner bool
	// CodeBucket is an existing bucket for the zip of the functions; "" makes a bucket, and
	// then the first deployment takes two change sets. With a CodeKey of "" the stack has no
	// functions.
	CodeBucket, CodeKey string
	Architecture        Architecture // the zip must be for it
	MemoryMB            int
	TimeoutSeconds      int
	ReservedConcurrency int // also the most concurrent calls; 0 reserves none
	Tracing             bool
	LogLevel            string
	LogRetentionDays    int
	// Quiet 0 never merges. Clients of the peer need that: they make a merged shard again, full.
	Quiet            time.Duration
	BatchSize        int
	BatchWindow      time.Duration // 0, which does not wait, is for up to 10 records
	StartingPosition Position

	Archive     bool
	GlacierDays int

	Alarms               bool
	AlarmTopicARN        string // with "" alarms only show their state
	DurationAlarmPercent int    // of TimeoutSeconds

	// Without IAM a function needs an external role, and the stack leaves out a function
	// without one: see [Spec.Notes].
	IAM                                   bool
	Roles, NamespaceRoles                 bool
	AggregatorRoleARN, ProvisionerRoleARN string // existing roles; "" makes one
	PermissionBoundary                    string // the name or ARN of a policy
	// In RoleNameFormat and PolicyNameFormat, exactly one {} stands for the name; "" is {}.
	RoleNameFormat, PolicyNameFormat string

	// Tags are the user's tags, at most 44: CloudFormation accepts 50, and [Spec.Tags] adds 6.
	Tags    map[string]string
	Version string // of this program, for the tags; "" is unknown
}

// Capacity is the throughput of the table and of each index. Auto-scaling keeps it between
// the bounds, in capacity units, which count only if it is provisioned.
type Capacity struct {
	Provisioned                          bool
	MinRead, MaxRead, MinWrite, MaxWrite int
	TargetPercent                        int
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
func OptionsOf(name string, parameters, tags map[string]string) (Options, error) {
	o := Defaults()
	o.Name = name
	if err := OptionTable.Read(parameters, &o); err != nil {
		return o, err
	}
	o.Tags = maps.Clone(tags)
	maps.DeleteFunc(o.Tags, func(key, _ string) bool {
		return key == TagManagedBy || strings.HasPrefix(key, "zae-limiter:") || strings.HasPrefix(key, "aws:")
	})
	if len(o.Tags) == 0 {
		o.Tags = nil
	}
	return o, o.setPeerFormats(parameters)
}

// formatted is the name of a component after a format.
func formatted(format, name string, c Component) string {
	return strings.Replace(cmp.Or(format, placeholder), placeholder, name+"-"+string(c), 1)
}

const placeholder = option.Placeholder
