package cfntest

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// A task is one step of an operation: begin at its start, end when its time has passed. A
// text from end is the reason for which the task failed.
type task struct {
	begin func(at time.Time)
	end   func(at time.Time) (reason string)
}

// An operation is the work that runs on a stack.
type operation struct {
	token string
	at    time.Time // when the current task began
	begun bool
	step  time.Duration
	queue []task
	// failed turns the operation around after a failure, or ends it.
	failed func(at time.Time, reason string)
}

// advance does what is due by an instant.
func (o *operation) advance(now time.Time) {
	for len(o.queue) > 0 {
		t := o.queue[0]
		if !o.begun {
			if t.begin != nil {
				t.begin(o.at)
			}
			o.begun = true
		}
		due := o.at.Add(o.step)
		if t.begin == nil {
			due = o.at // only a change of a resource takes time
		}
		if due.After(now) {
			return
		}
		o.at, o.begun, o.queue = due, false, o.queue[1:]
		if reason := t.end(due); reason != "" {
			o.failed(due, reason)
		}
	}
}

// run starts an operation.
func (s *stack) run(token string, tasks []task, failed func(at time.Time, reason string)) {
	s.op = &operation{token: token, at: s.cloud.o.Now(), step: s.cloud.o.Step, queue: tasks, failed: failed}
}

// finish is the task that ends an operation.
func (s *stack) finish(status types.StackStatus, last func()) task {
	return task{end: func(at time.Time) string {
		if last != nil {
			last()
		}
		token := s.op.token
		s.op = nil
		s.turn(at, status, "", token)
		return ""
	}}
}

// then is a task that takes no time.
func then(do func(at time.Time)) task {
	return task{end: func(at time.Time) string { do(at); return "" }}
}

// create is the task that makes a resource.
func (s *stack) create(r resource) task {
	return task{
		begin: func(at time.Time) {
			if _, exists := s.resources[r.id]; !exists {
				r.fresh = true
				s.put(r)
			}
			s.change(at, r, types.ResourceStatusCreateInProgress, "")
		},
		end: func(at time.Time) string {
			reason := s.cloud.fail["CREATE "+r.id]
			if reason == "" {
				reason = s.cloud.make(r)
			}
			if reason != "" {
				s.change(at, r, types.ResourceStatusCreateFailed, reason)
				return r.id
			}
			made := r
			made.fresh = true
			s.put(made)
			s.change(at, made, types.ResourceStatusCreateComplete, "")
			return ""
		},
	}
}

// remove is the task that deletes a resource, by its policy. drop says that the stack then
// has no resource of that ID. A resource whose creation failed was never made: what has its
// name belongs to somebody else.
func (s *stack) remove(r resource, policy string, drop bool) task {
	if policy != "Delete" {
		return then(func(at time.Time) {
			s.change(at, r, types.ResourceStatusDeleteSkipped, "")
			if drop {
				s.drop(r.id)
			}
		})
	}
	return task{
		begin: func(at time.Time) { s.change(at, r, types.ResourceStatusDeleteInProgress, "") },
		end: func(at time.Time) string {
			reason := s.cloud.fail["DELETE "+r.id]
			if reason == "" && r.status != types.ResourceStatusCreateFailed {
				reason = s.cloud.destroy(r)
			}
			if reason != "" {
				s.change(at, r, types.ResourceStatusDeleteFailed, reason)
				return r.id
			}
			s.change(at, r, types.ResourceStatusDeleteComplete, "")
			if drop {
				s.drop(r.id)
			}
			return ""
		},
	}
}

// startCreate makes the resources of a new stack.
func (s *stack) startCreate(f form, wanted []resource, token string) {
	s.form = f
	s.turn(s.cloud.o.Now(), types.StackStatusCreateInProgress, "User Initiated", token)
	var tasks []task
	keep := map[string]bool{}
	for _, r := range wanted {
		keep[r.id] = true
		tasks = append(tasks, s.create(r))
	}
	tasks = append(
		tasks,
		task{end: func(time.Time) string { return s.publish(f, keep) }},
		s.finish(types.StackStatusCreateComplete, s.settle))
	s.run(token, tasks, s.undoCreate)
}

// settle forgets which resources the operation made.
func (s *stack) settle() {
	for id, r := range s.resources {
		r.fresh = false
		s.resources[id] = r
	}
}

// undoCreate is the rollback of a creation.
func (s *stack) undoCreate(at time.Time, reason string) {
	s.turn(at, types.StackStatusRollbackInProgress, because(s, "create", reason), s.op.token)
	var tasks []task
	for _, id := range slices.Backward(s.order) {
		tasks = append(tasks, s.unmake(s.resources[id]))
	}
	s.op.queue = append(tasks, s.finish(types.StackStatusRollbackComplete, nil))
	s.op.failed = s.giveUp(types.StackStatusRollbackFailed)
}

// unmake is the task that removes what the operation that is rolled back made.
func (s *stack) unmake(r resource) task {
	policy := r.deletion
	if policy == "RetainExceptOnCreate" || r.status == types.ResourceStatusCreateFailed {
		policy = "Delete"
	}
	return s.remove(r, policy, true)
}

// because is the reason for which a stack turns around.
func because(s *stack, verb, reason string) string {
	if _, isResource := s.resources[reason]; isResource {
		return "The following resource(s) failed to " + verb + ": [" + reason + "]. "
	}
	return reason
}

// giveUp ends an operation in a failed state.
func (s *stack) giveUp(status types.StackStatus) func(time.Time, string) {
	return func(at time.Time, reason string) {
		s.op.queue = nil
		token := s.op.token
		s.op = nil
		s.turn(at, status, "The following resource(s) failed: ["+reason+"]. ", token)
	}
}

// startDelete deletes a stack. Resources that cannot be deleted do not stop the others.
func (s *stack) startDelete(retain []string, token string) {
	s.turn(s.cloud.o.Now(), types.StackStatusDeleteInProgress, "User Initiated", token)
	var tasks []task
	var stuck []string
	for _, id := range slices.Backward(s.order) {
		r := s.resources[id]
		policy := r.deletion
		if policy == "RetainExceptOnCreate" {
			policy = "Retain"
		}
		if slices.Contains(retain, id) {
			policy = "Retain"
		}
		tasks = append(tasks, s.remove(r, policy, true))
	}
	tasks = append(tasks, task{end: func(at time.Time) string {
		token := s.op.token
		s.op = nil
		if len(stuck) > 0 {
			s.turn(at, types.StackStatusDeleteFailed, "The following resource(s) failed to delete: ["+strings.Join(stuck, ", ")+"]. ", token)
			return ""
		}
		s.exports = nil
		s.turn(at, types.StackStatusDeleteComplete, "", token)
		return ""
	}})
	s.run(token, tasks, func(_ time.Time, id string) { stuck = append(stuck, id) })
}
