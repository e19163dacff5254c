package cfntest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"
)

// Account and Region are where the stacks are.
const (
	Account = "123456789012"
	Region  = "eu-central-1"
)

// Tables makes the tables of stacks. The embedded engine implements it.
type Tables interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DeleteTable(context.Context, *dynamodb.DeleteTableInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

// Options configure a [Cloud].
type Options struct {
	// Now is the clock; a nil clock stands still.
	Now func() time.Time
	// Step is how long a change of one resource takes. With 0, an operation ends at once.
	Step time.Duration
	// LateChangeSets makes the first look at each change set find it under way.
	LateChangeSets bool
	// Tables makes the tables of stacks; nil makes none.
	Tables Tables
	// Page is the number of entries in an answer that has pages; 0 is 100.
	Page int
}

// A Fault is what goes wrong with one request. An error in Before answers it instead of the
// service. An error in After replaces the answer of a request that was carried out.
type Fault struct{ Before, After error }

// A Cloud is one account in one region. It is safe for concurrent use.
type Cloud struct {
	mu        sync.Mutex
	o         Options
	stacks    []*stack // deleted ones, too
	exists    map[string]bool
	buckets   map[string]map[string][]byte
	mappings  map[string]string // state by function
	functions map[string]*lambda.GetFunctionConfigurationOutput
	fail      map[string]string // reasons by "ACTION LogicalID"
	fault     func(op string) Fault
	asked     []string
	serial    int
	answers   map[string]any // of requests with a token, so that a repetition changes nothing
	task      string         // status of the tasks of ECS
	agent     string         // status of the agent of Session Manager in them
}

// New returns an empty cloud.
func New(o Options) *Cloud {
	if o.Now == nil {
		o.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	}
	if o.Page == 0 {
		o.Page = 100
	}
	return &Cloud{
		o: o, exists: map[string]bool{}, buckets: map[string]map[string][]byte{},
		mappings: map[string]string{}, functions: map[string]*lambda.GetFunctionConfigurationOutput{}, fail: map[string]string{}, answers: map[string]any{},
		fault: func(string) Fault { return Fault{} }, task: "RUNNING", agent: "RUNNING",
	}
}

// Fail makes each CREATE, UPDATE, DELETE, IMPORT or ROLLBACK of a resource fail with a reason; ""
// stops that. ROLLBACK is the return of a resource to its old form. OUTPUTS of a stack's name makes
// its operations fail when the resources are done.
func (c *Cloud) Fail(action, logicalID, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reason == "" {
		delete(c.fail, action+" "+logicalID)
		return
	}
	c.fail[action+" "+logicalID] = reason
}

// Fault sets what goes wrong with requests, by their operation's name.
func (c *Cloud) Fault(f func(op string) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// Asked returns the operations since the last call, in order.
func (c *Cloud) Asked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

// SetMapping sets the state of the event source mapping of a function.
func (c *Cloud) SetMapping(function, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mappings[function] = state
}

// SetStep changes how long a change of one resource takes, for operations that start later.
func (c *Cloud) SetStep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o.Step = d
}

// Protect switches the termination protection of a stack.
func (c *Cloud) Protect(name string, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.live(name); s != nil {
		s.protected = on
	}
}

// SetStatus gives a stack a status, as if an operation of another program had led to it.
func (c *Cloud) SetStatus(name string, status types.StackStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.live(name); s != nil {
		s.turn(c.o.Now(), status, "by another program", "")
	}
}

// Exists reports whether there is a thing of a type with a physical name, in a stack or
// left by one. It does not know the tables of [Options.Tables].
func (c *Cloud) Exists(resourceType, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	return c.exists[resourceType+" "+name]
}

// Properties returns the properties of a resource of a stack, with the functions in them
// resolved. They are nil if the stack has no such resource.
func (c *Cloud) Properties(stackName, logicalID string) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	if s := c.live(stackName); s != nil {
		return s.resources[logicalID].values
	}
	return nil
}

// call runs one request: it does what was due, and applies the fault.
func call[Out any](c *Cloud, op string, do func() (*Out, error)) (*Out, error) {
	c.mu.Lock()
	fault := c.fault
	c.asked = append(c.asked, op)
	c.mu.Unlock()
	f := fault(op)
	if f.Before != nil {
		return nil, f.Before
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	out, err := do()
	c.advance()
	if f.After != nil {
		return nil, f.After
	}
	return out, err
}

// once runs a request with a token, or repeats the answer to that token.
func once[Out any](c *Cloud, op string, token *string, do func() (*Out, error)) (*Out, error) {
	return call(c, op, func() (*Out, error) {
		key := op + " " + aws.ToString(token)
		if known, ok := c.answers[key].(*Out); ok && token != nil {
			return known, nil
		}
		out, err := do()
		if err == nil {
			c.answers[key] = out
		}
		return out, err
	})
}

// advance does everything that was due by now.
func (c *Cloud) advance() {
	now := c.o.Now()
	for _, s := range c.stacks {
		if s.op != nil {
			s.op.advance(now)
		}
	}
}

// live is the stack of a name that is not deleted, or that of an ID.
func (c *Cloud) live(name string) *stack {
	for _, s := range c.stacks {
		if s.id == name || s.name == name && s.status != string(types.StackStatusDeleteComplete) {
			return s
		}
	}
	return nil
}

// next is a number that is used once.
func (c *Cloud) next() string {
	c.serial++
	return strconv.Itoa(c.serial)
}

// invalid is the error that CloudFormation answers for most mistakes.
func invalid(format string, args ...any) error {
	return &smithy.GenericAPIError{Code: "ValidationError", Message: fmt.Sprintf(format, args...), Fault: smithy.FaultClient}
}

// Throttled is the answer to too many requests.
func Throttled() error {
	return &smithy.GenericAPIError{Code: "Throttling", Message: "Rate exceeded", Fault: smithy.FaultClient}
}

// Expired is the answer to credentials that have expired.
func Expired() error {
	return &smithy.GenericAPIError{Code: "ExpiredToken", Message: "The security token included in the request is expired", Fault: smithy.FaultClient}
}

// page cuts a page out of a list. The token is the index at which the page begins.
func page[T any](all []T, size int, token *string) (part []T, next *string, err error) {
	from := 0
	if token != nil {
		if from, err = strconv.Atoi(*token); err != nil || from > len(all) {
			return nil, nil, invalid("Invalid nextToken")
		}
	}
	to := min(from+size, len(all))
	if to < len(all) {
		next = aws.String(strconv.Itoa(to))
	}
	return all[from:to], next, nil
}
