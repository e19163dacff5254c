package stack_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/store"
)

// lines are events as text.
func lines(events []stack.Event) []string {
	var all []string
	for _, e := range events {
		text := e.LogicalID + " " + e.Status
		if e.Took > 0 {
			text += " " + e.Took.String()
		}
		all = append(all, text)
	}
	return all
}

func TestProgressHasEachEventOnceInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		var events []stack.Event
		if _, err := w.Execute(w.Context(), w.plan(w.spec("Memory=512")), func(e stack.Event) { events = append(events, e) }); err != nil {
			w.Fatal(err)
		}
		want := []string{
			"limits UPDATE_IN_PROGRESS",
			"Aggregator UPDATE_IN_PROGRESS", "Aggregator UPDATE_COMPLETE 7s",
			"limits UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "limits UPDATE_COMPLETE 7s",
		}
		if diff := cmp.Diff(want, lines(events)); diff != "" {
			w.Errorf("events (-want +got):\n%s", diff)
		}
		s, _ := w.Find(w.Context(), "limits")
		last, err := w.LastOperation(w.Context(), s)
		if diff := cmp.Diff(want, lines(last)); err != nil || diff != "" {
			w.Errorf("the last operation (-want +got):\n%s%v", diff, err)
		}
	})
}

func TestAFailureNamesItsFirstCause(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.Fail("CREATE", "Role", "the name is taken")
		_, err := w.Deploy(w.Context(), w.rollout())
		failure := (*stack.FailedError)(nil)
		if !errors.As(err, &failure) {
			w.Fatalf("error %v", err)
		}
		if c := failure.Cause; c.LogicalID != "Role" || c.Reason != "the name is taken" || c.Took != stepTime || len(failure.Events) == 0 {
			w.Errorf("cause %+v of %d events", c, len(failure.Events))
		}
		if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "Role (AWS::IAM::Role) CREATE_FAILED: the name is taken") {
			w.Errorf("error %q", text)
		}
		if _, err := w.engine.DescribeTable(w.Context(), tableInput()); err == nil {
			w.Error("the failed creation left its table")
		}
	})
}

// CloudFormation exports no empty value, for instance. No resource fails: the stack itself says why.
func TestAFailureOfTheStackItselfIsTheCause(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.Fail("OUTPUTS", "limits", "Cannot export output Note. Exported values must not be empty or whitespace-only.")
		_, err := w.Execute(w.Context(), w.plan(w.spec()), nil)
		failure := (*stack.FailedError)(nil)
		if !errors.As(err, &failure) || !strings.Contains(failure.Cause.Reason, "Cannot export output Note") {
			w.Errorf("error %v", err)
		}
	})
}

func TestThrottledLooksNeverEndTheWait(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan(w.spec())
		looks, throttled := 0, 0
		w.cloud.Fault(func(op string) cfntest.Fault {
			if op != "DescribeStackEvents" {
				return cfntest.Fault{}
			}
			if looks++; looks > 1 && looks < 25 {
				throttled++
				return cfntest.Fault{Before: cfntest.Throttled()}
			}
			return cfntest.Fault{}
		})
		began := time.Now()
		s, err := w.Execute(w.Context(), p, nil)
		if err != nil || s.Status != "CREATE_COMPLETE" || throttled != 23 {
			w.Fatalf("stack %+v after %d throttled looks, error %v", s, throttled, err)
		}
		if took := time.Since(began); took < 10*time.Minute {
			w.Errorf("it did not look less often: %v for %d looks", took, looks)
		}
	})
}

func TestExpiredCredentialsEndTheWaitNotTheOperation(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan(w.spec())
		looks := 0
		w.cloud.Fault(func(op string) cfntest.Fault {
			if op == "DescribeStackEvents" {
				if looks++; looks > 2 {
					return cfntest.Fault{Before: cfntest.Expired()}
				}
			}
			return cfntest.Fault{}
		})
		_, err := w.Execute(w.Context(), p, nil)
		interrupted := (*stack.InterruptedError)(nil)
		if !errors.As(err, &interrupted) || !errors.Is(err, store.ErrAccessDenied) || !strings.Contains(err.Error(), "credentials have expired") {
			w.Fatalf("error %v", err)
		}
		w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{} })
		if s, err := w.Follow(w.Context(), "limits", nil); err != nil || s.Status != "CREATE_COMPLETE" {
			w.Errorf("afterwards: stack %+v, error %v", s, err)
		}
	})
}

func TestAnInterruptLeavesTheOperationAndSaysHowToFollow(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan(w.spec())
		ctx, cancel := context.WithCancel(w.Context())
		_, err := w.Execute(ctx, p, func(stack.Event) { cancel() })
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "zae-limiter status --watch -n limits") {
			w.Fatalf("error %v", err)
		}
		var events []stack.Event
		s, err := w.Follow(w.Context(), "limits", func(e stack.Event) { events = append(events, e) })
		if err != nil || s.Status != "CREATE_COMPLETE" {
			w.Fatalf("stack %+v, error %v", s, err)
		}
		if got := lines(events); got[0] != "limits CREATE_IN_PROGRESS" || got[len(got)-1] != "limits CREATE_COMPLETE 28s" {
			w.Errorf("events %q", got)
		}
	})
}

func TestALostAnswerToTheExecutionIsNoFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan(w.spec())
		w.cloud.Fault(once("ExecuteChangeSet", cfntest.Fault{After: errLost}))
		if s, err := w.Execute(w.Context(), p, nil); err != nil || s.Status != "CREATE_COMPLETE" {
			w.Errorf("stack %+v, error %v", s, err)
		}
	})
}

func TestARequestThatWasNotSentIsAFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan(w.spec())
		w.cloud.Fault(always("ExecuteChangeSet", cfntest.Fault{Before: errLost}))
		if _, err := w.Execute(w.Context(), p, nil); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errLost) {
			w.Errorf("error %v", err)
		}
		if got := w.status(); got != "REVIEW_IN_PROGRESS" {
			w.Errorf("status %q", got)
		}
	})
}

// Two deployers plan. One executes; the other's plan is obsolete and changes nothing.
func TestOfTwoDeployersOneWins(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		first, second := w.plan(w.spec("Memory=512")), w.plan(w.spec("Memory=1024"))
		if _, err := w.Execute(w.Context(), first, nil); err != nil {
			w.Fatal(err)
		}
		if _, err := w.Execute(w.Context(), second, nil); !errors.Is(err, stack.ErrStale) {
			w.Errorf("error %v", err)
		}
		if s, _ := w.Find(w.Context(), "limits"); s.Parameters["Memory"] != "512" {
			w.Errorf("parameters %v", s.Parameters)
		}
	})
}

func TestTwoDeployersAtOnceBothEndWithAWorkingStack(t *testing.T) {
	inWorld(t, func(w *world) {
		results := make(chan error)
		for range 2 {
			m := w.manager()
			go func() {
				var err error
				for range 10 {
					if _, err = m.Deploy(w.Context(), w.rollout()); err == nil {
						break
					}
					if !errors.Is(err, stack.ErrStale) && !errors.Is(err, stack.ErrBusy) {
						break
					}
					time.Sleep(time.Minute)
				}
				results <- err
			}()
		}
		for range 2 {
			if err := <-results; err != nil {
				w.Error(err)
			}
		}
		if s, err := w.Find(w.Context(), "limits"); err != nil || s.Outputs["AggregatorFunctionName"] == "" {
			w.Errorf("stack %+v, error %v", s, err)
		}
	})
}
