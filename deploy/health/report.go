package health

import (
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

// A Report is the state of a limiter at one instant.
type Report struct {
	At       time.Time `json:"at"`
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"findings"`

	Stack Part[Stack] `json:"stack"`
	// Table has no JSON form here: programs show a table everywhere in the same form.
	Table       Part[admin.Description] `json:"-"`
	Versions    Part[Versions]          `json:"versions"`
	Namespaces  Part[[]Namespace]       `json:"namespaces"`
	Aggregator  *Function               `json:"aggregator"`  // nil without one
	Provisioner *Function               `json:"provisioner"` // nil without one
	DeadLetters *Queue                  `json:"dead_letters"`
	Archive     *Archive                `json:"archive"`
	Alarms      Part[[]Alarm]           `json:"alarms"`
}

// A Stack is the CloudFormation stack that owns the parts.
type Stack struct {
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Status  string    `json:"status"` // CREATE_COMPLETE for instance
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created"`
	// Updated is zero if the stack was never updated.
	Updated time.Time `json:"updated,omitzero"`
	// Version is that of the program that deployed the stack, "" if no tag says so.
	Version   string           `json:"version,omitempty"`
	Protected bool             `json:"termination_protection"`
	Resources Part[[]Resource] `json:"resources"`
	// Next is what to do about the status, "" if it is well.
	Next string `json:"next,omitempty"`
	// Events are those of the last operation; absent if it succeeded.
	Events  Part[[]Event]     `json:"events"`
	Outputs map[string]string `json:"outputs"`
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
	Time      time.Time `json:"time"`
	LogicalID string    `json:"logical_id"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason,omitempty"`
}

// Versions are those of the programs that use the table.
type Versions struct {
	Client    string `json:"client"` // as which this program presents itself
	Recorded  bool   `json:"recorded"`
	Schema    string `json:"schema,omitempty"`
	ClientMin string `json:"client_min,omitempty"` // the oldest client that the table accepts
	Lambda    string `json:"lambda,omitempty"`     // of the deployed aggregator
	// Incompatible says why this client cannot use the table, "" if it can.
	Incompatible string `json:"incompatible,omitempty"`
	// Outdated says that the deployed aggregator is older than this client.
	Outdated bool `json:"lambda_outdated"`
}

// A Namespace is a namespace of the table.
type Namespace struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// A Function is a function of the stack with what it did of late.
type Function struct {
	Name string     `json:"name"`
	Code Part[Code] `json:"code"`
	// Mapping is absent on a function that no stream calls.
	Mapping  Part[Mapping]  `json:"mapping"`
	Activity Part[Activity] `json:"activity"`
	// LastError is absent if there was no error in [ErrorWindow].
	LastError Part[LogLine] `json:"last_error"`
}

// Code is what a function runs, and whether it can.
type Code struct {
	Runtime      string    `json:"runtime"`
	Architecture string    `json:"architecture"`
	MemoryMB     int32     `json:"memory_mb"`
	TimeoutS     int32     `json:"timeout_s"`
	SHA256       string    `json:"code_sha256"` // base64, as Lambda tells it
	Modified     time.Time `json:"modified,omitzero"`
	State        string    `json:"state"`         // Active, Pending, Inactive, Failed
	Update       string    `json:"update_status"` // Successful, InProgress, Failed
	Reason       string    `json:"reason,omitempty"`
	LogGroup     string    `json:"log_group"`
}

// A Mapping is the event source mapping that passes the table's stream to the function.
type Mapping struct {
	ID     string `json:"id"`
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
	IteratorAgeMax *float64 `json:"iterator_age_max_ms"`
	// The sums are of the last [SumWindow].
	Calls     float64 `json:"calls"`
	Errors    float64 `json:"errors"`
	Throttles float64 `json:"throttles"`
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
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// A Queue is the queue of what the aggregator gave up on. A message stands for a batch of
// records.
type Queue struct {
	URL    string       `json:"url"`
	Counts Part[Counts] `json:"counts"`
	// Oldest is absent if the queue is empty, or no metric tells.
	Oldest Part[Oldest] `json:"oldest"`
}

// Counts are messages of a queue. SQS counts approximately.
type Counts struct {
	Visible  int `json:"visible"`
	InFlight int `json:"in_flight"` // received, and not deleted yet
}

// Oldest is the age of the oldest message of a queue.
type Oldest struct {
	Seconds float64 `json:"seconds"`
}

// An Archive is the bucket of expired audit events.
type Archive struct {
	Bucket    string       `json:"bucket"`
	Exists    Part[bool]   `json:"exists"`
	Lifecycle Part[[]Rule] `json:"lifecycle"`
}

// A Rule is a rule of a bucket's lifecycle.
type Rule struct {
	ID      string `json:"id"`
	Enabled bool   `json:"enabled"`
	Prefix  string `json:"prefix"` // "" is the whole bucket
	// To is the storage class to which objects move after Days, "" if they do not.
	To   string `json:"to,omitempty"`
	Days int32  `json:"days,omitempty"`
	// ExpireDays is the age at which objects are deleted; 0 is never.
	ExpireDays int32 `json:"expire_days,omitempty"`
}

// An Alarm is an alarm of the stack.
type Alarm struct {
	Name  string `json:"name"`
	State string `json:"state"` // OK, ALARM, INSUFFICIENT_DATA, or MISSING if it was deleted
	// Reason is CloudWatch's for the state.
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
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
