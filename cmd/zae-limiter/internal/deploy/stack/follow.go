package stack

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// An Event is a step of an operation on a stack.
type Event struct {
	ID         string
	Time       time.Time
	LogicalID  string // of the resource; the stack's name for the stack itself
	PhysicalID string
	Type       string
	Status     string
	Reason     string // may be ""
	// Took is the time since the resource began to change. It is 0 until the change ends.
	Took time.Duration
}

// ofStack reports whether the event is of the stack itself.
func (e Event) ofStack(id string) bool { return e.Type == typeStack && e.PhysicalID == id }

// A Mark is a place in the events of a stack.
type Mark struct{ event string }

// maxUnanswered is how many looks in sequence may go unanswered before the wait ends.
const maxUnanswered = 10

// lastEvent marks the newest event of a stack.
func (m *Manager) lastEvent(ctx context.Context, id string) (Mark, error) {
	out, err := ask(ctx, m, m.cf.DescribeStackEvents, &cloudformation.DescribeStackEventsInput{StackName: &id})
	if err != nil {
		return Mark{}, translate("read the events of stack "+id, err)
	}
	if len(out.StackEvents) == 0 {
		return Mark{}, nil
	}
	return Mark{aws.ToString(out.StackEvents[0].EventId)}, nil
}

// eventsUntil returns the events in order up to the newest, from the first for which until
// is false for all later ones. It looks at pages, newest first.
func eventsUntil(ctx context.Context, look look, id string, until func(Event) bool) ([]Event, error) {
	var events []Event
	for in := (&cloudformation.DescribeStackEventsInput{StackName: &id}); ; {
		page, err := look(ctx, in)
		if err != nil {
			return nil, translate("read the events of stack "+id, err)
		}
		for _, e := range page.StackEvents {
			event := eventOf(e)
			if until(event) {
				slices.Reverse(events)
				return events, nil
			}
			events = append(events, event)
		}
		if in.NextToken = page.NextToken; in.NextToken == nil {
			slices.Reverse(events)
			return events, nil
		}
	}
}

// A look is a request for a page of events.
type look func(context.Context, *cloudformation.DescribeStackEventsInput, ...func(*cloudformation.Options)) (*cloudformation.DescribeStackEventsOutput, error)

// patiently is a look that is repeated if that may help.
func (m *Manager) patiently(ctx context.Context, in *cloudformation.DescribeStackEventsInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeStackEventsOutput, error) {
	return ask(ctx, m, m.cf.DescribeStackEvents, in)
}

func eventOf(e types.StackEvent) Event {
	return Event{
		ID: aws.ToString(e.EventId), Time: aws.ToTime(e.Timestamp), LogicalID: aws.ToString(e.LogicalResourceId),
		PhysicalID: aws.ToString(e.PhysicalResourceId), Type: aws.ToString(e.ResourceType),
		Status: string(e.ResourceStatus), Reason: aws.ToString(e.ResourceStatusReason),
	}
}

// LastOperation returns the events of the operation on a stack that was started last, in
// order.
func (m *Manager) LastOperation(ctx context.Context, s *Stack) ([]Event, error) {
	started := false
	events, err := eventsUntil(ctx, m.patiently, s.ID, func(e Event) bool {
		if started {
			return true
		}
		started = starts(e, s.ID)
		return false
	})
	t := timer{}
	for i := range events {
		t.add(&events[i])
	}
	return events, err
}

// starts reports whether an event is the first of an operation.
func starts(e Event, stack string) bool {
	if !e.ofStack(stack) {
		return false
	}
	switch types.StackStatus(e.Status) {
	case types.StackStatusCreateInProgress, types.StackStatusUpdateInProgress, types.StackStatusDeleteInProgress,
		types.StackStatusReviewInProgress, types.StackStatusImportInProgress:
		return true
	case types.StackStatusUpdateRollbackInProgress, types.StackStatusRollbackInProgress:
		return e.Reason == "User Initiated" // a continued rollback
	default:
		return false
	}
}

// Follow follows the operation that runs on a stack to its end, as [Manager.Execute] does.
// It begins with the operation's first event. If none runs, it shows the events of the last
// one.
func (m *Manager) Follow(ctx context.Context, name string, progress func(Event)) (*Stack, error) {
	s, err := m.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	if s.Status == string(types.StackStatusReviewInProgress) {
		return s, nil // nothing runs, and nothing ever ran
	}
	var before Mark
	started := false
	if _, err := eventsUntil(ctx, m.patiently, s.ID, func(e Event) bool {
		if started {
			before = Mark{e.ID}
			return true
		}
		started = starts(e, s.ID)
		return false
	}); err != nil {
		return nil, err
	}
	return m.follow(ctx, s.Name, s.ID, before, progress)
}

// follow shows the events after a mark until one of them ends the stack's operation.
func (m *Manager) follow(ctx context.Context, name, id string, after Mark, progress func(Event)) (*Stack, error) {
	var all []Event
	took, pace, unanswered := timer{}, m.newPause(), 0
	for {
		// This loop has patience of its own.
		events, err := eventsUntil(ctx, m.cf.DescribeStackEvents, id, func(e Event) bool { return e.ID == after.event })
		switch {
		case errors.Is(err, store.ErrThrottled):
			pace.slower()
		case errors.Is(err, store.ErrUnavailable) && unanswered < maxUnanswered:
			unanswered++
			pace.slower()
		case err != nil:
			return nil, m.interrupted(name, err)
		default:
			unanswered = 0
			pace.steady()
		}
		for i := range events {
			after = Mark{events[i].ID}
			took.add(&events[i])
			all = append(all, events[i])
			if progress != nil {
				progress(events[i])
			}
			if events[i].ofStack(id) && isEnd(events[i].Status) {
				return m.ended(ctx, name, id, events[i].Status, all)
			}
		}
		if err := pace.wait(ctx); err != nil {
			return nil, m.interrupted(name, err)
		}
	}
}

// interrupted is the error for a caller who stops waiting.
func (m *Manager) interrupted(name string, err error) error {
	return &InterruptedError{name, err, adviseOn(m.o.Type, name, "follow it with zae-limiter status --watch -n NAME")}
}

// ended returns the stack after an operation, or the error that the operation ended with.
func (m *Manager) ended(ctx context.Context, name, id, status string, events []Event) (*Stack, error) {
	if isSuccess(status) {
		return m.Find(ctx, id)
	}
	return nil, &FailedError{name, status, FirstCause(events), events, m.nextAfter(name, status)}
}

// FirstCause is the event that made an operation fail: the first failure of a resource that
// is not the mere consequence of another. If no resource failed, it is the stack's own event
// that says why it turns back. It is zero if there is none.
func FirstCause(events []Event) Event {
	for _, e := range events {
		if strings.HasSuffix(e.Status, failed) && e.Type != typeStack && !strings.Contains(e.Reason, "cancelled") {
			return e
		}
	}
	for _, e := range events {
		if e.Type == typeStack && (strings.Contains(e.Status, "ROLLBACK") || strings.HasSuffix(e.Status, failed)) && e.Reason != "" {
			return e
		}
	}
	return Event{}
}

// A timer knows when each resource began to change.
type timer map[string]time.Time

// add sets the duration of an event that ends a change.
func (t timer) add(e *Event) {
	began, running := t[e.LogicalID]
	switch {
	case !isEnd(e.Status) && !running:
		t[e.LogicalID] = e.Time
	case isEnd(e.Status) && running:
		e.Took = e.Time.Sub(began)
		delete(t, e.LogicalID)
	}
}
