package stack

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

const (
	inProgress = "_IN_PROGRESS"
	failed     = "_FAILED"
)

// advice says what a status means and what to do about it.
type advice struct{ means, next string }

// adviceFor has the states in which a stack cannot be changed, besides those in which an
// operation runs. NAME stands for the stack.
var adviceFor = map[types.StackStatus]advice{
	types.StackStatusCreateFailed: {
		"the first deployment failed",
		"delete it with zae-limiter delete -n NAME, then deploy again",
	},
	types.StackStatusRollbackComplete: {
		"the first deployment failed, and CloudFormation removed what it had made",
		"delete it with zae-limiter delete -n NAME, then deploy again",
	},
	types.StackStatusRollbackFailed: {
		"the first deployment failed, and CloudFormation could not remove what it had made",
		"see zae-limiter status -n NAME for the resource, then delete the stack with zae-limiter delete -n NAME",
	},
	types.StackStatusUpdateRollbackFailed: {
		"an update failed, and so did the return to the state before it",
		"see zae-limiter status -n NAME for the resource, correct it, then run zae-limiter rollback -n NAME, or with --skip RESOURCE to leave it as it is",
	},
	types.StackStatusDeleteFailed: {
		"a deletion failed",
		"see zae-limiter status -n NAME for the resource, then delete again with zae-limiter delete -n NAME, or with --retain RESOURCE to leave it",
	},
	types.StackStatusImportRollbackFailed: {
		"an import of resources failed, and so did the return to the state before it",
		"repair it in the CloudFormation console",
	},
}

// stateError is the error for a status that does not allow a change.
func stateError(s *Stack) error {
	e := &StateError{Stack: s.Name, Status: s.Status, Reason: s.Reason}
	a, ok := adviceFor[types.StackStatus(s.Status)]
	if !ok {
		a = advice{"an operation is running", "wait for it with zae-limiter status --watch -n NAME, then try again"}
	}
	e.Means, e.Next = a.means, adviseOn(s.Tags[TagType], s.Name, a.next)
	return e
}

// Problem is a [*StateError] that says what is wrong with a stack and what to do. It is nil while an operation runs,
// and if the last one did what it was asked.
func (s *Stack) Problem() error {
	if s.Running() || s.Healthy() {
		return nil
	}
	if _, known := adviceFor[types.StackStatus(s.Status)]; known {
		return stateError(s)
	}
	a := unblocked(types.StackStatus(s.Status))
	return &StateError{Stack: s.Name, Status: s.Status, Reason: s.Reason, Means: a.means, Next: adviseOn(s.Tags[TagType], s.Name, a.next)}
}

// unblocked is the advice for a status that is not in order, and allows a change.
func unblocked(status types.StackStatus) advice {
	const again = "correct the cause, which the events name, and deploy again"
	switch status {
	case types.StackStatusReviewInProgress:
		return advice{"it is empty, nobody executed its change set", "deploy it with zae-limiter deploy -n NAME"}
	case types.StackStatusUpdateFailed:
		return advice{
			"an update stopped half-way, because it ran without rollback",
			again + "; or undo it with aws cloudformation rollback-stack --stack-name NAME",
		}
	case types.StackStatusImportRollbackComplete:
		return advice{"the last import of resources failed, and the stack works as before it", again}
	default:
		return advice{"the last update failed, and the stack works as before it", again}
	}
}

// checkChangeable fails unless a change set can be made for a stack. creates says that the
// stack is an empty shell, which a change set of the type CREATE fills.
func checkChangeable(s *Stack) (creates bool, err error) {
	if s.Status == string(types.StackStatusReviewInProgress) {
		return true, nil
	}
	_, blocked := adviceFor[types.StackStatus(s.Status)]
	if blocked || s.Running() {
		return false, stateError(s)
	}
	return false, nil
}

// loadTestCommands are the commands on a stack for load tests, by those on a limiter's.
var loadTestCommands = strings.NewReplacer(
	"zae-limiter delete -n NAME", "zae-limiter loadtest delete -n LIMITER",
	"zae-limiter deploy -n NAME", "zae-limiter loadtest deploy -n LIMITER",
	"zae-limiter status --watch -n NAME", "zae-limiter loadtest list",
	"zae-limiter status -n NAME", "aws cloudformation describe-stack-events --stack-name NAME",
)

// adviseOn puts the name of a stack into an advice. The stacks for load tests have commands
// of their own, which take the name of the limiter.
func adviseOn(kind, name, next string) string {
	if kind == TypeLoadTest {
		next = strings.ReplaceAll(loadTestCommands.Replace(next), "LIMITER", strings.TrimSuffix(name, LoadSuffix))
	}
	return strings.ReplaceAll(next, "NAME", name)
}

// nextAfter is the advice for the status in which an operation left a stack.
func (m *Manager) nextAfter(name, status string) string {
	if a, ok := adviceFor[types.StackStatus(status)]; ok {
		return adviseOn(m.o.Type, name, a.next)
	}
	return "correct the cause and try again"
}

// isRunning reports whether an operation runs on a stack with a status. A stack in review is
// empty, and nothing runs on it.
func isRunning(status string) bool {
	return strings.HasSuffix(status, inProgress) && status != string(types.StackStatusReviewInProgress)
}

// isEnd reports whether a status ends an operation.
func isEnd(status string) bool { return !strings.HasSuffix(status, inProgress) }

// isSuccess reports whether a status is the end of an operation that did what it was asked.
func isSuccess(status string) bool {
	switch types.StackStatus(status) {
	case types.StackStatusCreateComplete, types.StackStatusUpdateComplete, types.StackStatusDeleteComplete, types.StackStatusImportComplete:
		return true
	default:
		return false
	}
}
