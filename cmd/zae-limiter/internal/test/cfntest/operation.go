package cfntest

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// A task is one step of an operation: begin at its start, end when its time has passed. A
// text from end is the resource that failed, or the reason for which the operation did.
type task struct {
	begin func(at time.Time) // nil takes no time
	end   func(at time.Time) (failed string)
}

// An operation is the work that runs on a stack.
type operation struct {
	token string
	at    time.Time // when the current task began
	begun bool
	step  time.Duration
	queue []task
	// failed turns the operation around after a failure, or ends it.
	failed func(at time.Time, what string)
}

// advance does what is due by an instant.
func (o *operation) advance(now time.Time) {
	for len(o.queue) > 0 {
		t, due := o.queue[0], o.at
		if t.begin != nil {
			if due = o.at.Add(o.step); !o.begun {
				t.begin(o.at)
				o.begun = true
			}
		}
		if due.After(now) {
			return
		}
		o.at, o.begun, o.queue = due, false, o.queue[1:]
		if what := t.end(due); what != "" {
			o.failed(due, what)
		}
	}
}

// run starts an operation.
func (s *stack) run(status types.StackStatus, token string, tasks []task, failed func(at time.Time, what string)) {
	at := s.cloud.o.Now()
	s.op = &operation{token: token, at: at, step: s.cloud.o.Step, queue: tasks, failed: failed}
	s.turn(at, status, "User Initiated", token)
}

// stop ends the operation with a status.
func (s *stack) stop(at time.Time, status types.StackStatus, reason string) {
	token := s.op.token
	s.op = nil
	s.turn(at, status, reason, token)
}

// then is a task that takes no time.
func then(do func(at time.Time)) task {
	return task{end: func(at time.Time) string { do(at); return "" }}
}

// does is the task that does something to a resource, CREATE for instance, from a form of it to another.
// Events call what returns to its old form an UPDATE.
func (s *stack) does(verb string, was, r resource, do func() (reason string)) task {
	status := func(suffix string) types.ResourceStatus {
		return types.ResourceStatus(strings.Replace(verb, "ROLLBACK", "UPDATE", 1) + suffix)
	}
	return task{
		begin: func(at time.Time) { s.change(at, was, status("_IN_PROGRESS"), "") },
		end: func(at time.Time) string {
			reason := s.cloud.fail[verb+" "+r.ID]
			if reason == "" {
				reason = do()
			}
			if reason != "" {
				s.change(at, was, status("_FAILED"), reason)
				return r.ID
			}
			s.put(r)
			s.change(at, r, status("_COMPLETE"), "")
			return ""
		},
	}
}

// create is the task that makes or imports a resource. The stack has it from the beginning.
func (s *stack) create(verb string, r resource) task {
	t := s.does(verb, r, r, func() string {
		if verb == "IMPORT" {
			return ""
		}
		return s.cloud.make(r)
	})
	begin := t.begin
	t.begin = func(at time.Time) {
		s.put(r)
		begin(at)
	}
	return t
}

// remove is the task that deletes a resource unless it is kept. A resource that could not be
// made belongs to somebody else.
func (s *stack) remove(r resource, keep bool) task {
	gone := func() {
		if s.resources[r.ID].physical == r.physical {
			s.drop(r.ID)
		}
	}
	if keep {
		return then(func(at time.Time) {
			s.change(at, r, types.ResourceStatusDeleteSkipped, "")
			gone()
		})
	}
	t := s.does("DELETE", r, r, func() string {
		if r.status == types.ResourceStatusCreateFailed {
			return ""
		}
		return s.cloud.destroy(r)
	})
	end := t.end
	t.end = func(at time.Time) string {
		had := s.resources[r.ID]
		failed := end(at)
		if failed != "" {
			return failed
		}
		s.resources[r.ID] = had
		gone()
		return ""
	}
	return t
}

// start starts the operation of a change set.
func (s *stack) start(cs *changeSet, token string) {
	old, oldForm, verb := maps.Clone(s.resources), s.form, "CREATE"
	var tasks, cleanup []task
	if cs.kind == types.ChangeSetTypeImport {
		verb = "IMPORT"
	}
	retag := !reflect.DeepEqual(cs.form.tags, s.form.tags)
	keep := map[string]bool{}
	for _, r := range cs.wanted {
		keep[r.ID] = true
		was, exists := old[r.ID]
		switch {
		case !exists:
			tasks = append(tasks, s.create(verb, r))
		case len(details(was, r, retag)) == 0:
			r.status = was.status
			tasks = append(tasks, then(func(time.Time) { s.put(r) }))
		default:
			tasks = append(tasks, s.does("UPDATE", was, r, func() string { return s.alter(was, r) }))
			if was.physical != r.physical {
				cleanup = append(cleanup, s.remove(was, was.UpdateReplacePolicy == "Retain"))
			}
		}
	}
	for _, id := range slices.Backward(s.order) {
		if r := old[id]; !keep[id] { // what cannot be deleted is left to its owner, outside the stack
			cleanup = append(cleanup, s.remove(r, r.Retained()), then(func(time.Time) { s.drop(id) }))
		}
	}
	tasks = append(tasks, task{end: func(time.Time) string { return s.cloud.fail["OUTPUTS "+s.name] }}, then(func(time.Time) { s.form = cs.form }))
	if cs.kind != types.ChangeSetTypeUpdate {
		s.form = cs.form
		tasks = append(tasks, then(func(at time.Time) { s.stop(at, types.StackStatus(verb+"_COMPLETE"), "") }))
		s.form.outputs = nil
		s.run(types.StackStatus(verb+"_IN_PROGRESS"), token, tasks, func(at time.Time, what string) { s.undoCreate(at, verb, what) })
		return
	}
	tasks = append(tasks, then(func(at time.Time) {
		s.turn(at, types.StackStatusUpdateCompleteCleanupInProgress, "", token)
		s.op.failed = func(time.Time, string) {} // what cannot be cleaned up stays behind
	}))
	tasks = append(append(tasks, cleanup...), then(func(at time.Time) { s.stop(at, types.StackStatusUpdateComplete, "") }))
	s.updated = s.cloud.o.Now()
	s.run(types.StackStatusUpdateInProgress, token, tasks, func(at time.Time, what string) {
		s.turn(at, types.StackStatusUpdateRollbackInProgress, s.because("update", what), token)
		s.restore(old, oldForm, nil)
	})
}

// alter changes one resource. A text is the reason for which it cannot.
func (s *stack) alter(was, r resource) string {
	switch {
	case was.physical != r.physical:
		return s.cloud.make(r)
	case slices.ContainsFunc(details(was, r, false), func(d types.ResourceChangeDetail) bool {
		return d.Target.RequiresRecreation != types.RequiresRecreationNever
	}):
		return "CloudFormation cannot update a stack when a custom-named resource requires replacing. Rename " + r.physical + " and update the stack again."
	}
	return s.cloud.remake(r)
}

// because is the reason for which a stack turns around.
func (s *stack) because(verb, what string) string {
	if _, isResource := s.resources[what]; isResource {
		return "The following resource(s) failed to " + verb + ": [" + what + "]. "
	}
	return what
}

// undoCreate is the rollback of a creation, or of an import, which leaves what it took.
func (s *stack) undoCreate(at time.Time, verb, what string) {
	status := types.StackStatus(strings.TrimPrefix(verb+"_", "CREATE_") + "ROLLBACK")
	s.turn(at, status+"_IN_PROGRESS", s.because(strings.ToLower(verb), what), s.op.token)
	s.op.queue = nil
	for _, id := range slices.Backward(s.order) {
		if verb == "IMPORT" {
			s.op.queue = append(s.op.queue, then(func(time.Time) { s.drop(id) }))
		} else {
			s.op.queue = append(s.op.queue, s.unmake(s.resources[id]))
		}
	}
	s.op.queue = append(s.op.queue, then(func(at time.Time) { s.stop(at, status+"_COMPLETE", "") }))
	s.op.failed = s.giveUp(status + "_FAILED")
}

// unmake is the task that removes what the operation that is rolled back made.
func (s *stack) unmake(r resource) task {
	return s.remove(r, r.DeletionPolicy == "Retain" && r.status != types.ResourceStatusCreateFailed)
}

// giveUp ends an operation in a failed state.
func (s *stack) giveUp(status types.StackStatus) func(time.Time, string) {
	return func(at time.Time, what string) {
		s.op.queue = nil
		s.stop(at, status, "The following resource(s) failed: ["+what+"]. ")
	}
}

// restore fills the running operation with the rollback of an update: changed resources return to their
// old form, but for those to skip, and made ones are deleted. A rollback that fails can be continued.
func (s *stack) restore(old map[string]resource, oldForm form, skip []string) {
	s.proceed = func(skip []string) { s.restore(old, oldForm, skip) }
	s.op.failed, s.op.queue = s.giveUp(types.StackStatusUpdateRollbackFailed), nil
	var made []task
	for _, id := range s.order {
		was, had := old[id]
		now := s.resources[id]
		switch {
		case !had:
			made = append([]task{s.unmake(now)}, made...)
		case reflect.DeepEqual(was.values, now.values) && now.status != types.ResourceStatusUpdateFailed:
		case slices.Contains(skip, id):
			s.op.queue = append(s.op.queue, then(func(at time.Time) { s.change(at, now, types.ResourceStatusUpdateComplete, "") }))
		default:
			s.op.queue = append(s.op.queue, s.does("ROLLBACK", now, was, func() string {
				if now.physical != was.physical {
					return s.cloud.destroy(now)
				}
				return ""
			}))
		}
	}
	s.op.queue = append(s.op.queue, then(func(at time.Time) {
		s.form, s.proceed = oldForm, nil
		s.turn(at, types.StackStatusUpdateRollbackCompleteCleanupInProgress, "", s.op.token)
		s.op.failed = func(time.Time, string) {}
	}))
	s.op.queue = append(append(s.op.queue, made...), then(func(at time.Time) { s.stop(at, types.StackStatusUpdateRollbackComplete, "") }))
}

// startDelete deletes a stack. Resources that cannot be deleted do not stop the others.
func (s *stack) startDelete(retain []string, token string) {
	var tasks []task
	var stuck []string
	for _, id := range slices.Backward(s.order) {
		r := s.resources[id]
		tasks = append(tasks, s.remove(r, r.Retained() || slices.Contains(retain, id)))
	}
	tasks = append(tasks, then(func(at time.Time) {
		if len(stuck) > 0 {
			s.stop(at, types.StackStatusDeleteFailed, "The following resource(s) failed to delete: ["+strings.Join(stuck, ", ")+"]. ")
			return
		}
		s.stop(at, types.StackStatusDeleteComplete, "")
	}))
	s.run(types.StackStatusDeleteInProgress, token, tasks, func(_ time.Time, id string) { stuck = append(stuck, id) })
}

// CancelUpdateStack turns a running update around.
func (c *Cloud) CancelUpdateStack(_ context.Context, in *cloudformation.CancelUpdateStackInput, _ ...func(*cloudformation.Options)) (*cloudformation.CancelUpdateStackOutput, error) {
	return once(c, "CancelUpdateStack", in.ClientRequestToken, func() (*cloudformation.CancelUpdateStackOutput, error) {
		s, err := c.stack(in.StackName)
		switch {
		case err != nil:
			return nil, err
		case s.status != string(types.StackStatusUpdateInProgress):
			return nil, invalid("CancelUpdateStack cannot be called from current stack status")
		}
		at := c.o.Now()
		s.op.token, s.op.at, s.op.begun = aws.ToString(in.ClientRequestToken), at, false
		for _, id := range s.order { // the resource that is under way keeps its old form
			switch r := s.resources[id]; r.status {
			case types.ResourceStatusCreateInProgress:
				s.change(at, r, types.ResourceStatusCreateFailed, "Resource creation cancelled")
			case types.ResourceStatusUpdateInProgress:
				s.change(at, r, types.ResourceStatusUpdateFailed, "Resource update cancelled")
			default:
			}
		}
		s.op.failed(at, "User Initiated")
		return &cloudformation.CancelUpdateStackOutput{}, nil
	})
}

// ContinueUpdateRollback continues a rollback that failed.
func (c *Cloud) ContinueUpdateRollback(_ context.Context, in *cloudformation.ContinueUpdateRollbackInput, _ ...func(*cloudformation.Options)) (*cloudformation.ContinueUpdateRollbackOutput, error) {
	return once(c, "ContinueUpdateRollback", in.ClientRequestToken, func() (*cloudformation.ContinueUpdateRollbackOutput, error) {
		s, err := c.stack(in.StackName)
		switch {
		case err != nil:
			return nil, err
		case s.proceed == nil || s.status != string(types.StackStatusUpdateRollbackFailed):
			return nil, invalid("Stack:%s is in %s state and can not continue rollback.", s.id, s.status)
		case slices.ContainsFunc(in.ResourcesToSkip, func(id string) bool { return s.resources[id].status != types.ResourceStatusUpdateFailed }):
			return nil, invalid("The following resources cannot be skipped, because they are not in the UPDATE_FAILED state: %v", in.ResourcesToSkip)
		}
		s.run(types.StackStatusUpdateRollbackInProgress, aws.ToString(in.ClientRequestToken), nil, nil)
		s.proceed(in.ResourcesToSkip)
		return &cloudformation.ContinueUpdateRollbackOutput{}, nil
	})
}
