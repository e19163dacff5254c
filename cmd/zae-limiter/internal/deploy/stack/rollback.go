package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Rollback says which stack returns to the state before its last update.
type Rollback struct {
	// Name is the stack's name, or its ID.
	Name string
	// Skip names resources that stay as they are, by their logical IDs. CloudFormation
	// accepts this only for resources that failed to return.
	Skip []string
	// Background returns when CloudFormation has begun.
	Background bool
	// Progress is called with each event once and in order; it may be nil.
	Progress func(Event)
}

// Rollback returns a stack to the state before its last update: it cancels a running update,
// or continues a rollback that failed. It returns the stack as it is then.
//
// It fails with [store.ErrNotFound] if there is no stack, and with a [*StateError] if
// there is nothing to roll back. A [*FailedError] says that the rollback failed, or that
// the update ended before CloudFormation could cancel it.
func (m *Manager) Rollback(ctx context.Context, r Rollback) (*Stack, error) {
	s, err := m.Find(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	turn, err := m.turnBack(s, r.Skip)
	if err != nil {
		return nil, err
	}
	last, err := m.lastEvent(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	if err := turn(ctx); err != nil {
		if err = m.unlessTurned(ctx, s, translate("roll back stack "+s.Name, err)); err != nil {
			return nil, err
		}
	}
	if r.Background {
		return m.Find(ctx, s.ID)
	}
	_, err = m.follow(ctx, s.Name, s.ID, last, r.Progress)
	failure := (*FailedError)(nil)
	if errors.As(err, &failure) && failure.Status == string(types.StackStatusUpdateRollbackComplete) {
		return m.Find(ctx, s.ID)
	}
	return nil, fmt.Errorf("roll back stack %s: %w", s.Name, err)
}

// turnBack is the request that fits the state of a stack.
func (m *Manager) turnBack(s *Stack, skip []string) (func(context.Context) error, error) {
	token := newToken()
	switch types.StackStatus(s.Status) {
	case types.StackStatusUpdateRollbackFailed:
		return func(ctx context.Context) error {
			_, err := ask(ctx, m, m.cf.ContinueUpdateRollback, &cloudformation.ContinueUpdateRollbackInput{StackName: &s.ID, ResourcesToSkip: skip, ClientRequestToken: &token})
			return err
		}, nil
	case types.StackStatusUpdateInProgress:
		if len(skip) > 0 {
			return nil, &store.ValidationError{Field: "skip", Value: strings.Join(skip, ","), Reason: "CloudFormation skips resources only of a rollback that failed, this stack is " + s.Status}
		}
		return func(ctx context.Context) error {
			_, err := ask(ctx, m, m.cf.CancelUpdateStack, &cloudformation.CancelUpdateStackInput{StackName: &s.ID, ClientRequestToken: &token})
			return err
		}, nil
	default:
	}
	if s.Running() {
		return nil, stateError(s)
	}
	if problem := s.Problem(); problem != nil && !s.rolledBack() {
		return nil, problem
	}
	return nil, &StateError{Stack: s.Name, Status: s.Status, Means: "no update runs, and no rollback failed", Next: "there is nothing to roll back"}
}

// rolledBack reports whether the last operation was undone.
func (s *Stack) rolledBack() bool {
	return slices.Contains([]types.StackStatus{types.StackStatusUpdateRollbackComplete, types.StackStatusImportRollbackComplete}, types.StackStatus(s.Status))
}

// unlessTurned finds out what became of a request that was answered with an error: the answer
// may be lost.
func (m *Manager) unlessTurned(ctx context.Context, s *Stack, failure error) error {
	live, err := m.Find(ctx, s.ID)
	switch {
	case err != nil:
		return failure
	case live.Status == string(types.StackStatusUpdateComplete), live.Status == string(types.StackStatusUpdateCompleteCleanupInProgress):
		return &FailedError{Stack: s.Name, Status: live.Status, Next: "the update ended before it could be cancelled: to undo it, deploy with the former options"}
	case live.Running() && strings.HasPrefix(live.Status, "UPDATE_ROLLBACK"):
		return nil
	}
	return failure
}
