package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// Execute executes a plan and waits for the end. It calls progress, which may be nil, with
// each event once and in order. It returns the stack as it is then; an empty plan changes
// nothing.
//
// Execute fails with [ErrStale] if another change came first, and with [ErrBusy] if an
// operation runs on the stack. It fails with a [*FailedError] if its own operation fails, and
// with an [*InterruptedError] if the caller stops waiting.
func (m *Manager) Execute(ctx context.Context, p *Plan, progress func(Event)) (*Stack, error) {
	if p.Empty() {
		return m.Find(ctx, p.StackID)
	}
	last, err := m.Start(ctx, p)
	if err != nil {
		return nil, err
	}
	return m.follow(ctx, p.Stack, p.StackID, last, progress)
}

// Start starts a plan and does not wait. The mark is for the events that follow.
func (m *Manager) Start(ctx context.Context, p *Plan) (Mark, error) {
	last, err := m.lastEvent(ctx, p.StackID)
	if err != nil {
		return Mark{}, err
	}
	token := newToken()
	_, err = ask(ctx, m, m.cf.ExecuteChangeSet, &cloudformation.ExecuteChangeSetInput{
		ChangeSetName: &p.changeSet, StackName: &p.StackID, ClientRequestToken: &token,
	})
	if err != nil {
		err = m.unlessExecuted(ctx, p, err)
	}
	return last, err
}

// unlessExecuted finds out what became of an execution that was answered with an error. The
// answer may be lost, or belong to a repetition of a request that was carried out. Only this
// call executes this change set, so the change set tells.
func (m *Manager) unlessExecuted(ctx context.Context, p *Plan, failure error) error {
	op := "execute the plan of stack " + p.Stack
	out, err := ask(ctx, m, m.cf.DescribeChangeSet, &cloudformation.DescribeChangeSetInput{ChangeSetName: &p.changeSet, StackName: &p.StackID})
	if absent := (*types.ChangeSetNotFoundException)(nil); errors.As(err, &absent) {
		return fmt.Errorf("%s: %w: another deployment came first, deploy again", op, ErrStale)
	}
	if err != nil {
		// The execution may run or not.
		return m.interrupted(p.Stack, translate(op, failure))
	}
	switch out.ExecutionStatus {
	case types.ExecutionStatusExecuteInProgress, types.ExecutionStatusExecuteComplete, types.ExecutionStatusExecuteFailed:
		return nil
	case types.ExecutionStatusObsolete:
		return fmt.Errorf("%s: %w: another deployment came first, deploy again", op, ErrStale)
	default: // it is still available, so it was not executed
	}
	if live, err := m.Find(ctx, p.StackID); err == nil && live.Running() {
		return stateError(live)
	}
	return translate(op, failure)
}
