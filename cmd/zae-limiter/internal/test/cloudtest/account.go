// Package cloudtest is a part of an AWS account in memory, for tests: CloudWatch with
// metrics and alarms, the logs, the configuration of Lambda functions and their mappings,
// queues, and buckets. It answers as AWS does, missing permissions and throttling included.
//
// Its rules come from the API references of the services: the codes of errors, the required
// fields, the largest number of names or queries in a request, and the sums of figures by
// period. Answers come in pages of two, so that every reader must turn pages.
package cloudtest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// page is the number of results in one answer.
const page = 2

// An Account has the state that the services answer from. Fill it before the first call, or
// use its methods, which are safe for concurrent use.
type Account struct {
	// Functions are by name.
	Functions map[string]*Function
	Mappings  []lambdatypes.EventSourceMappingConfiguration
	Alarms    []types.MetricAlarm
	// Queues are by URL.
	Queues map[string]Queue
	// Buckets are by name; the rules are those of the lifecycle.
	Buckets map[string][]s3types.LifecycleRule

	mu      sync.Mutex
	samples []sample
	lines   map[string][]line // by log group
	refused map[string]refusal
}

// A Function is the configuration of a function.
type Function struct {
	SHA256, State, Update, Reason string
	MemoryMB, TimeoutS            int32
	Architecture                  lambdatypes.Architecture
	Runtime                       lambdatypes.Runtime
	Handler                       string
	Environment                   map[string]string
	Modified                      time.Time
}

// A Queue has numbers of messages.
type Queue struct{ Visible, InFlight int }

type sample struct {
	namespace, name, dimension, value string
	at                                time.Time
	figure                            float64
}

type line struct {
	at   time.Time
	text string
}

type refusal struct {
	err  error
	hang bool
}

// Measure adds a figure to a metric with one dimension.
func (a *Account) Measure(namespace, name, dimension, value string, at time.Time, figure float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.samples = append(a.samples, sample{namespace, name, dimension, value, at, figure})
}

// Log writes a line to a group, which it makes if missing.
func (a *Account) Log(group string, at time.Time, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lines == nil {
		a.lines = map[string][]line{}
	}
	a.lines[group] = append(a.lines[group], line{at, text})
}

// Deny refuses an action, "cloudwatch:DescribeAlarms" for instance, as IAM does.
func (a *Account) Deny(action string) {
	a.refuse(action, refusal{err: &smithy.GenericAPIError{
		Code: "AccessDenied", Message: "User: arn:aws:iam::123456789012:user/reader is not authorized to perform: " + action, Fault: smithy.FaultClient,
	}})
}

// Throttle refuses an action for its rate.
func (a *Account) Throttle(action string) {
	a.refuse(action, refusal{err: &smithy.GenericAPIError{Code: "ThrottlingException", Message: "Rate exceeded", Fault: smithy.FaultClient}})
}

// Hang leaves an action without an answer.
func (a *Account) Hang(action string) { a.refuse(action, refusal{hang: true}) }

// Fail answers an action with an error.
func (a *Account) Fail(action string, err error) { a.refuse(action, refusal{err: err}) }

func (a *Account) refuse(action string, r refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused == nil {
		a.refused = map[string]refusal{}
	}
	a.refused[action] = r
}

// enter fails as the action is to fail.
func (a *Account) enter(ctx context.Context, action string) error {
	a.mu.Lock()
	r := a.refused[action]
	a.mu.Unlock()
	if r.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if r.err != nil {
		return r.err
	}
	return ctx.Err()
}

func invalid(message string) error {
	return &smithy.GenericAPIError{Code: "ValidationError", Message: message, Fault: smithy.FaultClient}
}

// slice returns a page of all, and the token of the next one.
func slice[T any](all []T, token *string) ([]T, *string, error) {
	from := 0
	if token != nil {
		var err error
		if from, err = strconv.Atoi(*token); err != nil || from >= len(all) {
			return nil, nil, invalid("the token is not valid: " + *token)
		}
	}
	if from+page >= len(all) {
		return all[from:], nil, nil
	}
	return all[from : from+page], aws.String(strconv.Itoa(from + page)), nil
}
