package stack_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// stepTime is how long the cloud takes for a change of one resource.
const stepTime = 7 * time.Second

// A world is one account with a manager, in a bubble.
type world struct {
	*testing.T
	*stack.Manager
	cloud    *cfntest.Cloud
	engine   *dynamolite.DB
	template string
}

// inWorld runs a test in a bubble, where waiting takes no time.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	text, err := os.ReadFile("testdata/limiter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		engine := dynamolite.New(dynamolite.Options{})
		defer engine.Close()
		cloud := cfntest.New(cfntest.Options{Now: time.Now, Step: stepTime, LateChangeSets: true, Tables: engine, Page: 3})
		w := &world{T: t, cloud: cloud, engine: engine, template: string(text)}
		w.Manager = w.manager()
		test(w)
	})
}

// fresh is another, empty account.
func (w *world) fresh() *world {
	w.Helper()
	engine := dynamolite.New(dynamolite.Options{})
	w.Cleanup(func() { _ = engine.Close() })
	cloud := cfntest.New(cfntest.Options{Now: time.Now, Step: stepTime, LateChangeSets: true, Tables: engine, Page: 3})
	other := &world{T: w.T, cloud: cloud, engine: engine, template: w.template}
	other.Manager = other.manager()
	return other
}

// manager is another deployer in the same account.
func (w *world) manager() *stack.Manager {
	w.Helper()
	m, err := stack.New(stack.Options{Clients: stack.Clients{
		CloudFormation: w.cloud, Buckets: w.cloud, Functions: w.cloud, Tagging: w.cloud, Database: w.engine,
	}})
	if err != nil {
		w.Fatal(err)
	}
	return m
}

// spec is a stack named limits with parameters, given as NAME=VALUE.
func (w *world) spec(parameters ...string) stack.Spec {
	s := stack.Spec{Name: "limits", Template: w.template, Parameters: map[string]string{}, Tags: map[string]string{
		stack.TagManagedBy: stack.ManagedBy, stack.TagName: "limits", stack.TagType: stack.TypeLimiter,
	}}
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		s.Parameters[name] = value
	}
	return s
}

var code = &stack.Code{Key: "functions/0123.zip", Zip: []byte("a zip")}

func (w *world) rollout(parameters ...string) stack.Rollout {
	return stack.Rollout{Spec: w.spec(parameters...), Code: code}
}

// deploy deploys, and fails the test if that fails.
func (w *world) deploy(r stack.Rollout) stack.Outcome {
	w.Helper()
	out, err := w.Deploy(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// plan plans, and fails the test if that fails.
func (w *world) plan(s stack.Spec) *stack.Plan {
	w.Helper()
	p, err := w.Plan(w.Context(), s)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// status is the status of the stack, "" if there is none.
func (w *world) status() string {
	w.Helper()
	s, err := w.Find(w.Context(), "limits")
	if err != nil {
		return ""
	}
	return s.Status
}

// count is how often an operation is in a list.
func count(ops []string, op string) (n int) {
	for _, o := range ops {
		if o == op {
			n++
		}
	}
	return n
}

// errLost is the error of a connection that ended.
var errLost = errors.New("connection reset by peer")

// once makes one request fail, the first of an operation.
func once(op string, f cfntest.Fault) func(string) cfntest.Fault {
	done := false
	return func(asked string) cfntest.Fault {
		if asked != op || done {
			return cfntest.Fault{}
		}
		done = true
		return f
	}
}

// always makes every request of an operation fail.
func always(op string, f cfntest.Fault) func(string) cfntest.Fault {
	return func(asked string) cfntest.Fault {
		if asked != op {
			return cfntest.Fault{}
		}
		return f
	}
}

// lambda is the version of the aggregator in the table's record.
func (w *world) lambda() string {
	w.Helper()
	v, _, err := dynamo.ReadVersion(context.WithoutCancel(w.Context()), dynamo.Options{API: w.engine, Table: "limits"})
	if err != nil {
		w.Fatal(err)
	}
	return v.Lambda
}
