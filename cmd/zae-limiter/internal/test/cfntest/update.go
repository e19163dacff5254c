package cfntest

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// startUpdate brings the resources of a stack to another form. It makes and changes first
// and deletes last, so that a failure can return to the old form.
func (s *stack) startUpdate(f form, wanted []resource, token string) {
	old, oldForm := maps.Clone(s.resources), s.form
	s.updated = s.cloud.o.Now()
	s.turn(s.updated, types.StackStatusUpdateInProgress, "User Initiated", token)
	retag := !reflect.DeepEqual(f.tags, oldForm.tags)
	var tasks, cleanup []task
	keep := map[string]bool{}
	for _, r := range wanted {
		keep[r.id] = true
		was, exists := old[r.id]
		switch changes := details(was, r); {
		case !exists:
			tasks = append(tasks, s.create(r))
		case len(changes) == 0 && !retag:
			r.status = was.status
			tasks = append(tasks, then(func(time.Time) { s.put(r) }))
		default:
			tasks = append(tasks, s.update(was, r))
			if was.physical != r.physical {
				cleanup = append(cleanup, s.remove(was, was.replaceUpdate, false))
			}
		}
	}
	for _, id := range slices.Backward(s.order) {
		if !keep[id] {
			// What cannot be deleted is left to its owner, outside the stack.
			cleanup = append(cleanup, s.remove(old[id], retainOnDelete(old[id].deletion), true), then(func(time.Time) { s.drop(id) }))
		}
	}
	tasks = append(
		tasks,
		task{end: func(time.Time) string { return s.publish(f, keep) }},
		then(func(at time.Time) {
			s.form = f
			s.turn(at, types.StackStatusUpdateCompleteCleanupInProgress, "", s.op.token)
			s.op.failed = func(time.Time, string) {} // what cannot be cleaned up stays behind
		}))
	tasks = append(append(tasks, cleanup...), s.finish(types.StackStatusUpdateComplete, s.settle))
	s.run(token, tasks, func(at time.Time, reason string) { s.undoUpdate(at, reason, old, oldForm) })
}

func retainOnDelete(policy string) string {
	if policy == "RetainExceptOnCreate" {
		return "Retain"
	}
	return policy
}

// update is the task that changes a resource or makes its replacement.
func (s *stack) update(was, r resource) task {
	return task{
		begin: func(at time.Time) {
			reason := ""
			if was.physical != r.physical {
				reason = "Requested update requires the creation of a new physical resource; hence creating one."
			}
			s.change(at, was, types.ResourceStatusUpdateInProgress, reason)
		},
		end: func(at time.Time) string {
			if reason := s.alter(was, r); reason != "" {
				s.change(at, was, types.ResourceStatusUpdateFailed, reason)
				return r.id
			}
			s.put(r)
			s.change(at, r, types.ResourceStatusUpdateComplete, "")
			return ""
		},
	}
}

// alter changes one resource. A text is the reason for which it cannot.
func (s *stack) alter(was, r resource) string {
	changes := details(was, r)
	switch {
	case s.cloud.fail["UPDATE "+r.id] != "":
		return s.cloud.fail["UPDATE "+r.id]
	case replacement(changes) == types.ReplacementTrue && was.physical == r.physical:
		return "CloudFormation cannot update a stack when a custom-named resource requires replacing. Rename " + r.physical + " and update the stack again."
	case was.physical != r.physical:
		return s.cloud.make(r)
	case r.kind == "AWS::DynamoDB::Table" && reshapes(was.values["GlobalSecondaryIndexes"], r.values["GlobalSecondaryIndexes"]):
		return "Cannot update GSI's properties other than Provisioned Throughput and Contributor Insights Specification. You can create a new GSI with a different name."
	case r.kind == "AWS::DynamoDB::Table" && indexChanges(was, r) > 1:
		return "Cannot perform more than one GSI creation or deletion in a single update"
	}
	return s.cloud.remake(r)
}

// indexChanges is the number of global indexes that are added or removed.
func indexChanges(was, r resource) int {
	before, after := keyed(was.values["GlobalSecondaryIndexes"], "IndexName"), keyed(r.values["GlobalSecondaryIndexes"], "IndexName")
	n := 0
	for name := range before {
		if _, ok := after[name]; !ok {
			n++
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			n++
		}
	}
	return n
}

// undoUpdate is the rollback of an update: changed resources return to their old form, and
// made ones are deleted.
func (s *stack) undoUpdate(at time.Time, reason string, old map[string]resource, oldForm form) {
	s.turn(at, types.StackStatusUpdateRollbackInProgress, because(s, "update", reason), s.op.token)
	s.restore(old, oldForm, nil)
}

// restore fills the running operation with the rollback of an update. A rollback that fails
// can be continued, without the resources to skip.
func (s *stack) restore(old map[string]resource, oldForm form, skip []string) {
	s.proceed = func(skip []string) { s.restore(old, oldForm, skip) }
	s.op.failed = s.giveUp(types.StackStatusUpdateRollbackFailed)
	s.op.queue = append(s.restoring(old, skip), then(func(at time.Time) {
		s.form, s.proceed = oldForm, nil
		s.turn(at, types.StackStatusUpdateRollbackCompleteCleanupInProgress, "", s.op.token)
		s.op.failed = func(time.Time, string) {}
		var tasks []task
		for _, id := range slices.Backward(s.order) {
			if _, had := old[id]; !had {
				tasks = append(tasks, s.unmake(s.resources[id]))
			}
		}
		s.op.queue = append(tasks, s.finish(types.StackStatusUpdateRollbackComplete, nil))
	}))
}

// restoring are the tasks that return changed resources to their old form. A skipped one
// only counts as returned.
func (s *stack) restoring(old map[string]resource, skip []string) []task {
	var tasks []task
	for _, id := range s.order {
		was, had := old[id]
		now := s.resources[id]
		if !had || reflect.DeepEqual(was.values, now.values) && now.status != types.ResourceStatusUpdateFailed {
			continue
		}
		if slices.Contains(skip, id) {
			tasks = append(tasks, then(func(at time.Time) { s.change(at, now, types.ResourceStatusUpdateComplete, "") }))
			continue
		}
		tasks = append(tasks, task{
			begin: func(at time.Time) { s.change(at, now, types.ResourceStatusUpdateInProgress, "") },
			end: func(at time.Time) string {
				if reason := s.cloud.fail["ROLLBACK "+id]; reason != "" {
					s.change(at, now, types.ResourceStatusUpdateFailed, reason)
					return id
				}
				if now.physical != was.physical {
					s.cloud.destroy(now)
				}
				s.put(was)
				s.change(at, was, types.ResourceStatusUpdateComplete, "")
				return ""
			},
		})
	}
	return tasks
}
