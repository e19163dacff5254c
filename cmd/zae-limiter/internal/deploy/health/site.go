package health

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/store"
)

// Logical IDs and outputs of the template. Stacks of the Python package have the same.
const (
	aggregatorID                        = "AggregatorFunction"
	provisionerID                       = "ProvisionerFunction"
	aggregatorLogsID, provisionerLogsID = "AggregatorLogGroup", "ProvisionerLogGroup"

	queueID   = "AggregatorDLQ"
	alarmType = "AWS::CloudWatch::Alarm"
)

// A Site says where the parts of a limiter are. A part that is "" does not exist.
type Site struct {
	Aggregator, Provisioner string   // names of functions
	DeadLetters             string   // URL of the queue
	Archive                 string   // name of the bucket
	Alarms                  []string // names
}

func (s *Site) hasFunctions() bool { return s.Aggregator != "" || s.Provisioner != "" }

func (s *Site) hasMetrics() bool {
	return s.hasFunctions() || s.DeadLetters != "" || len(s.Alarms) > 0
}

// Site finds the parts of a stack. The resources tell. Where they could not be read, the
// outputs do, which name fewer alarms.
func (s *Stack) Site() Site {
	if s.Resources.Value == nil {
		return siteOfOutputs(s.Outputs)
	}
	byID := map[string]string{}
	site := Site{}
	for _, r := range *s.Resources.Value {
		if r.Status == "DELETE_COMPLETE" || r.PhysicalID == "" {
			continue
		}
		byID[r.LogicalID] = r.PhysicalID
		if r.Type == alarmType {
			site.Alarms = append(site.Alarms, r.PhysicalID)
		}
	}
	site.Aggregator, site.Provisioner = byID[aggregatorID], byID[provisionerID]
	site.DeadLetters, site.Archive = cmp.Or(s.Outputs[stack.OutputQueue], byID[queueID]), byID[stack.ArchiveID]
	return site
}

// unfinished are the functions for which the stack has a log group, and no code yet: its
// deployment was interrupted after the first of two change sets.
func (s *Stack) unfinished() (functions []string) {
	if s.Resources.Value == nil {
		return nil
	}
	has := map[string]bool{}
	for _, r := range *s.Resources.Value {
		has[r.LogicalID] = r.Status != "DELETE_COMPLETE"
	}
	for _, f := range []struct{ logs, function string }{{aggregatorLogsID, aggregatorID}, {provisionerLogsID, provisionerID}} {
		if has[f.logs] && !has[f.function] {
			functions = append(functions, f.function)
		}
	}
	return functions
}

func siteOfOutputs(outputs map[string]string) Site {
	site := Site{
		Aggregator: outputs[stack.OutputAggregator], Provisioner: outputs[stack.OutputProvisioner],
		DeadLetters: outputs[stack.OutputQueue], Archive: outputs[stack.OutputArchive],
	}
	for name, value := range outputs {
		if strings.HasSuffix(name, "AlarmName") {
			site.Alarms = append(site.Alarms, value)
		}
	}
	return site
}

// Table is the name of the stack's table.
func (s *Stack) Table() string { return cmp.Or(s.Outputs[stack.OutputTable], s.Name) }

// A Stacks reads stacks. *[stack.Manager] implements it.
type Stacks interface {
	Find(ctx context.Context, name string) (*stack.Stack, error)
	Resources(ctx context.Context, name string) ([]stack.Resource, error)
	LastOperation(context.Context, *stack.Stack) ([]stack.Event, error)
}

// FindStack reads a stack with its resources, and with the events of an operation that runs
// or did not succeed, all within a time limit; 0 is [DefaultTimeout]. A stack that does not
// exist is absent, also because the server has no stacks.
func FindStack(ctx context.Context, from Stacks, name string, limit time.Duration) Part[Stack] {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(limit, DefaultTimeout))
	defer cancel()
	s, err := from.Find(ctx, name)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, stack.ErrNoStacks) {
		return Part[Stack]{}
	}
	if err != nil {
		return Failed[Stack]("cloudformation:DescribeStacks", err)
	}
	out := Stack{
		Name: s.Name, ID: s.ID, Status: s.Status, Reason: oneLine(s.Reason), Next: nextOf(s), Created: s.Created.UTC(), Updated: s.Updated.UTC(),
		Version: s.Tags[stack.TagVersion], Protected: s.Protected, Outputs: s.Outputs, Parameters: s.Parameters, Resources: resourcesOf(ctx, from, s),
	}
	if !s.Healthy() {
		out.Events = eventsOf(ctx, from, s)
	}
	return Read(out)
}

// nextOf is what to do about a stack that is not in order.
func nextOf(s *stack.Stack) string {
	if e := (*stack.StateError)(nil); errors.As(s.Problem(), &e) {
		return e.Next
	}
	return ""
}

func resourcesOf(ctx context.Context, from Stacks, s *stack.Stack) Part[[]Resource] {
	all, err := from.Resources(ctx, s.ID)
	if err != nil {
		return Failed[[]Resource]("cloudformation:DescribeStackResources", err)
	}
	out := make([]Resource, len(all))
	for i, r := range all {
		r.Reason = oneLine(r.Reason)
		out[i] = Resource(r)
	}
	return Read(out)
}

func eventsOf(ctx context.Context, from Stacks, s *stack.Stack) Part[[]Event] {
	all, err := from.LastOperation(ctx, s)
	if err != nil {
		return Failed[[]Event]("cloudformation:DescribeStackEvents", err)
	}
	out := make([]Event, len(all))
	for i, e := range all {
		out[i] = Event{e.Time.UTC(), e.LogicalID, e.Status, oneLine(e.Reason)}
	}
	return Read(out)
}
