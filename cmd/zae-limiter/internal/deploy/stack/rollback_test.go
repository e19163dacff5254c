package stack_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/store"
)

// stuck brings the stack to UPDATE_ROLLBACK_FAILED: neither the mapping can change nor the
// aggregator return.
func (w *world) stuck() {
	w.Helper()
	w.deploy(w.rollout())
	w.cloud.Fail("UPDATE", "Mapping", "the batch is too large")
	w.cloud.Fail("ROLLBACK", "Aggregator", "its code is gone")
	s := w.spec("Memory=512")
	s.Template = strings.Replace(s.Template, "StartingPosition: TRIM_HORIZON\n", "StartingPosition: TRIM_HORIZON\n      BatchSize: 200\n", 1)
	if _, err := w.Execute(w.Context(), w.plan(s), nil); !errors.Is(err, stack.ErrFailed) {
		w.Fatalf("error %v", err)
	}
	if got := w.status(); got != "UPDATE_ROLLBACK_FAILED" {
		w.Fatalf("status %s", got)
	}
	w.cloud.Fail("UPDATE", "Mapping", "")
}

func TestARollbackThatFailedIsContinued(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stuck()
		_, err := w.Plan(w.Context(), w.spec("Memory=1024"))
		if !errors.Is(err, stack.ErrBlocked) || !strings.Contains(err.Error(), "zae-limiter rollback -n limits") {
			w.Errorf("a plan before: error %v", err)
		}
		failure := (*stack.FailedError)(nil)
		if _, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits"}); !errors.As(err, &failure) || failure.Cause.LogicalID != "Aggregator" {
			w.Errorf("before the cause is corrected: error %v", err)
		}
		w.cloud.Fail("ROLLBACK", "Aggregator", "")
		s, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits"})
		if err != nil || s.Status != "UPDATE_ROLLBACK_COMPLETE" || s.Parameters["Memory"] != "256" {
			w.Fatalf("stack %+v, error %v", s, err)
		}
		if out := w.deploy(w.rollout("Memory=1024")); out.Stack.Parameters["Memory"] != "1024" {
			w.Errorf("a deployment afterwards: %+v", out.Stack)
		}
	})
}

func TestARollbackLeavesAResourceOnRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stuck()
		if _, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits", Skip: []string{"Role"}}); err == nil || w.status() != "UPDATE_ROLLBACK_FAILED" {
			w.Errorf("to skip a resource that did not fail: error %v, status %s", err, w.status())
		}
		s, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits", Skip: []string{"Aggregator"}})
		if err != nil || s.Status != "UPDATE_ROLLBACK_COMPLETE" {
			w.Errorf("stack %+v, error %v", s, err)
		}
	})
}

func TestALostAnswerToARollbackIsNoFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stuck()
		w.cloud.Fail("ROLLBACK", "Aggregator", "")
		w.cloud.Fault(once("ContinueUpdateRollback", cfntest.Fault{After: errLost}))
		if s, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits"}); err != nil || s.Status != "UPDATE_ROLLBACK_COMPLETE" {
			w.Errorf("stack %+v, error %v", s, err)
		}
	})
}

func TestARollbackThatWasNotSentIsAFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stuck()
		w.cloud.Fault(always("ContinueUpdateRollback", cfntest.Fault{Before: errLost}))
		if _, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits"}); !errors.Is(err, store.ErrUnavailable) {
			w.Errorf("error %v", err)
		}
	})
}

// One deployer's update runs, and another operator cancels it.
func TestARunningUpdateIsCancelled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		p := w.plan(w.spec("Memory=512"))
		if _, err := w.Start(w.Context(), p); err != nil {
			w.Fatal(err)
		}
		s, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits"})
		if err != nil || s.Status != "UPDATE_ROLLBACK_COMPLETE" || s.Parameters["Memory"] != "256" {
			w.Errorf("stack %+v, error %v", s, err)
		}
		out := w.deploy(w.rollout("Memory=512"))
		if out.Stack.Parameters["Memory"] != "512" || len(out.Changes) != 1 {
			w.Errorf("a deployment afterwards: %+v", out)
		}
	})
}

// The update ends between the look at the stack and the request to cancel it.
func TestAnUpdateThatEndedIsNotCancelled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		p := w.plan(w.spec("Memory=512"))
		if _, err := w.Start(w.Context(), p); err != nil {
			w.Fatal(err)
		}
		w.cloud.Fault(func(op string) cfntest.Fault {
			if op == "CancelUpdateStack" {
				_, _ = w.Follow(context.WithoutCancel(w.Context()), "limits", nil)
			}
			return cfntest.Fault{}
		})
		if _, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits"}); !errors.Is(err, stack.ErrFailed) || w.status() != "UPDATE_COMPLETE" {
			w.Errorf("error %v, status %s", err, w.status())
		}
	})
}

func TestThereMustBeSomethingToRollBack(t *testing.T) {
	inWorld(t, func(w *world) {
		if _, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits"}); !errors.Is(err, store.ErrNotFound) {
			w.Errorf("without a stack: error %v", err)
		}
		w.deploy(w.rollout())
		if _, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits"}); !errors.Is(err, stack.ErrBlocked) || !strings.Contains(err.Error(), "nothing to roll back") {
			w.Errorf("after a deployment: error %v", err)
		}
		p := w.plan(w.spec("Memory=512"))
		if _, err := w.Start(w.Context(), p); err != nil {
			w.Fatal(err)
		}
		if _, err := w.Rollback(w.Context(), stack.Rollback{Name: "limits", Skip: []string{"Role"}}); !errors.Is(err, store.ErrInvalid) {
			w.Errorf("to skip in a running update: error %v", err)
		}
	})
}
