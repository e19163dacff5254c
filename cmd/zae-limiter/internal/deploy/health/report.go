package health

import (
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

// A Report is the state of a limiter at one instant.
type Report struct {
	At       time.Time `json:"checked_at"` // when the parts were read
	Verdict  Verdict   `json:"verdict"`    // the worst of the findings
	Findings []Finding `json:"findings"`   // what is wrong, the worst first

	Stack Part[Stack] `json:"stack"` // the stack
	// Table has no JSON form here: programs show a table everywhere in the same form.
	Table       Part[admin.Description] `json:"-"`
	Versions    Part[Versions]          `json:"versions"`     // versions of client and table
	Namespaces  Part[[]Namespace]       `json:"namespaces"`   // the namespaces by name
	Aggregator  *Function               `json:"aggregator"`   // nil without one
	Provisioner *Function               `json:"provisioner"`  // nil without one
	DeadLetters *Queue                  `json:"dead_letters"` // queue of the batches that failed
	Archive     *Archive                `json:"archive"`      // bucket of the archive
	Alarms      Part[[]Alarm]           `json:"alarms"`       // the alarms of the stack
}

// A Stack is the CloudFormation stack that owns the parts.
type Stack struct {
	Name    string    `json:"stack_name"`
	ID      string    `json:"stack_id"`
	Status  string    `json:"status"` // CREATE_COMPLETE for instance
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created_at"`
	// Updated is zero if the stack was never updated.
	Updated time.Time `json:"updated_at,omitzero"`
	// Version is that of the program that deployed the stack, "" if no tag says so.
	Version   string           `json:"version,omitempty"`
	Protected bool             `json:"termination_protection"` // CloudFormation refuses to delete it
	Resources Part[[]Resource] `json:"resources"`              // resources of the stack
	// Next is what to do about the status, "" if it is well.
	Next string `json:"hint,omitempty"`
	// Events are those of the last operation; absent if it succeeded.
	Events  Part[[]Event]     `json:"events"`
	Outputs map[string]string `json:"outputs"`

	Parameters map[string]string `json:"-"`
}

// A Resource is one resource of a stack.
type Resource struct {
	LogicalID  string `json:"logical_id"`
	PhysicalID string `json:"physical_id"`
	Type       string `json:"type"` // AWS::DynamoDB::Table for instance
	Status     string `json:"status"`
	Reason     string `json:"reason,omitempty"`
}

// An Event is a step of an operation on the stack.
type Event struct {
	Time      time.Time `json:"timestamp"`
	LogicalID string    `json:"logical_id"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason,omitempty"`
}

// Versions are those of the programs that use the table.
type Versions struct {
	Client    string `json:"client_version"` // as which this program presents itself
	Recorded  bool   `json:"recorded"`       // the table has a version record
	Schema    string `json:"schema_version,omitempty"`
	ClientMin string `json:"client_min_version,omitempty"` // the oldest client that the table accepts
	Lambda    string `json:"lambda_version,omitempty"`     // of the deployed aggregator
	// Incompatible says why this client cannot use the table, "" if it can.
	Incompatible string `json:"incompatible,omitempty"`
	// Outdated says that the deployed aggregator is older than this client.
	Outdated bool `json:"lambda_outdated"`
}

// A Namespace is a namespace of the table.
type Namespace struct {
	Name string `json:"namespace"`
	ID   string `json:"namespace_id"`
}

// A Function is a function of the stack with what it did of late.
type Function struct {
	Name string     `json:"function_name"` // name of the function
	Code Part[Code] `json:"code"`          // code and settings
	// Mapping is absent on a function that no stream calls.
	Mapping  Part[Mapping]  `json:"mapping"`
	Activity Part[Activity] `json:"activity"` // what it did in the last hour
	// LastError is absent if there was no error in [ErrorWindow].
	LastError Part[LogLine] `json:"last_error"`
}

// Code is what a function runs, and whether it can.
type Code struct {
	Runtime      string    `json:"runtime"`              // runtime of AWS Lambda
	Architecture string    `json:"architecture"`         // architecture, as AWS Lambda names it
	MemoryMB     int32     `json:"memory_mb"`            // memory, in MB
	TimeoutS     int32     `json:"timeout_seconds"`      // time limit of a call
	SHA256       string    `json:"code_sha256"`          // base64, as Lambda tells it
	Modified     time.Time `json:"modified_at,omitzero"` // when code or settings changed
	State        string    `json:"state"`                // Active, Pending, Inactive, Failed
	Update       string    `json:"update_status"`        // Successful, InProgress, Failed
	Reason       string    `json:"reason,omitempty"`
	LogGroup     string    `json:"log_group"` // name of the log group

	Has stack.Function `json:"-"` // for the comparison with the stack
}

// A Mapping is the event source mapping that passes the table's stream to the function.
type Mapping struct {
	ID     string `json:"mapping_id"`  // ID of the event source mapping
	State  string `json:"state"`       // Enabled, Disabled, Creating and so on
	Result string `json:"last_result"` // of the last call, "OK" for instance
	Reason string `json:"reason,omitempty"`
}

// Activity is what the metrics of a function say. A figure without data is nil: a function
// that nobody called has none.
type Activity struct {
	// IteratorAge is the age of the records at the last call, in milliseconds, and
	// IteratorAgeMax the highest; both of the last [AgeWindow].
	IteratorAge    *float64 `json:"iterator_age_ms"`
	IteratorAgeMax *float64 `json:"iterator_age_max_ms"` // the highest age
	// The sums are of the last [SumWindow].
	Calls     float64 `json:"calls"`
	Errors    float64 `json:"errors"`    // calls that failed
	Throttles float64 `json:"throttles"` // calls that were throttled
	// Failed and Poisoned are records: those that were or will be delivered again, and
	// those that cannot be read. The Python package does not count them.
	Failed   float64 `json:"failed_records"`
	Poisoned float64 `json:"poisoned_records"`
}

// The windows of figures.
const (
	AgeWindow   = 15 * time.Minute
	SumWindow   = time.Hour
	ErrorWindow = 24 * time.Hour
)

// A LogLine is a line of a function's log, shortened.
type LogLine struct {
	Time time.Time `json:"timestamp"`
	Text string    `json:"text"` // the line
}

// A Queue is the queue of what the aggregator gave up on. A message stands for a batch of
// records.
type Queue struct {
	URL    string       `json:"url"`    // URL of the queue
	Counts Part[Counts] `json:"counts"` // numbers of messages
	// Oldest is absent if the queue is empty, or no metric tells.
	Oldest Part[Oldest] `json:"oldest"`
}

// Counts are messages of a queue. SQS counts approximately.
type Counts struct {
	Visible  int `json:"visible"`   // messages that wait
	InFlight int `json:"in_flight"` // received, and not deleted yet
}

// Oldest is the age of the oldest message of a queue.
type Oldest struct {
	Seconds float64 `json:"age_seconds"` // age of the oldest message
}

// An Archive is the bucket of expired audit events.
type Archive struct {
	Bucket    string       `json:"bucket"`    // name of the bucket
	Exists    Part[bool]   `json:"exists"`    // whether the bucket exists
	Lifecycle Part[[]Rule] `json:"lifecycle"` // rules of the bucket
}

// A Rule is a rule of a bucket's lifecycle.
type Rule struct {
	ID      string `json:"rule_id"` // name of the rule
	Enabled bool   `json:"enabled"` // whether it works
	Prefix  string `json:"prefix"`  // "" is the whole bucket
	// To is the storage class to which objects move after Days, "" if they do not.
	To   string `json:"storage_class,omitempty"`
	Days int32  `json:"days,omitempty"` // age at which an object moves
	// ExpireDays is the age at which objects are deleted; 0 is never.
	ExpireDays int32 `json:"expire_days,omitempty"`
}

// An Alarm is an alarm of the stack.
type Alarm struct {
	Name  string `json:"name"`  // name of the alarm
	State string `json:"state"` // OK, ALARM, INSUFFICIENT_DATA, or MISSING if it was deleted
	// Reason is CloudWatch's for the state.
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"changed_at,omitzero"` // when it came into this state
	// Acts says that the alarm tells somebody: it has an action, and actions are enabled.
	Acts bool `json:"acts"`
}

// The states of an [Alarm].
const (
	AlarmOK      = "OK"
	AlarmActive  = "ALARM"
	AlarmNoData  = "INSUFFICIENT_DATA"
	AlarmMissing = "MISSING"
)
