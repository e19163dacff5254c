package loadstack_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/store"
)

// Each shape of the stack is made, found to be as it should be, and deleted.
func TestTheStackIsMadeChangedAndDeleted(t *testing.T) {
	t.Parallel()
	for name, o := range shapes() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if out := w.deploy(o); out.Stack.Status != "CREATE_COMPLETE" || len(out.Changes) == 0 {
					w.Errorf("%s, %d changes", out.Stack.Status, len(out.Changes))
				}
				if out := w.deploy(o); len(out.Changes) > 0 {
					w.Errorf("the same options change %v", out.Changes)
				}
				for _, r := range []string{"Cluster", "MasterService", "WorkerFunction", "OrchestratorFunction", "Schedule"} {
					if w.cloud.Properties("limits-load", r) == nil {
						w.Errorf("the stack has no %s", r)
					}
				}
				left, err := w.Delete(w.Context(), stack.Deletion{Name: "limits-load"})
				if err != nil || len(left.Kept) > 0 {
					w.Errorf("deletion leaves %v: %v", left, err)
				}
			})
		})
	}
}

// What a stack has of its own is in one change set, so a failure leaves nothing behind.
func TestTheFirstDeploymentIsOneChangeSet(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.rollout(least())
		plans := 0
		r.Approve = func(context.Context, *stack.Plan) error { plans++; return nil }
		if _, err := w.Deploy(w.Context(), r); err != nil || plans != 1 {
			w.Errorf("%d plans: %v", plans, err)
		}
		if diff := cmp.Diff([]string{"functions/0.zip"}, w.cloud.Objects("limits-code")); diff != "" {
			w.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

func TestAnUpdateChangesWhatIsAsked(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.deploy(least())
		o, err := loadstack.OptionsOf("limits", first.Stack.Parameters)
		if err != nil {
			w.Fatal(err)
		}
		o.MaxWorkers = 8
		var changed []string
		for _, c := range w.deploy(o).Changes {
			changed = append(changed, fmt.Sprintf("%s %s %s", c.Action, c.LogicalID, c.Replacement))
		}
		slices.Sort(changed)
		if diff := cmp.Diff([]string{"Modify OrchestratorFunction False", "Modify WorkerFunction False"}, changed); diff != "" {
			w.Errorf("changes (-want +got):\n%s", diff)
		}
		o.Off, changed = true, nil
		for _, c := range w.deploy(o).Changes {
			for _, d := range c.Details { // none of these properties replaces its resource
				changed = append(changed, c.LogicalID+" "+d.Name)
			}
		}
		if diff := cmp.Diff([]string{"MasterService DesiredCount", "Schedule State"}, changed); diff != "" {
			w.Errorf("switching it off changes (-want +got):\n%s", diff)
		}
		if got := []any{w.property("MasterService", "DesiredCount"), w.property("Schedule", "State")}; !slices.Equal(got, []any{"0", "DISABLED"}) {
			w.Errorf("switched off, the master and the schedule are %v", got)
		}
	})
}

// A limiter that happens to be called like the stack of another's load tests is no such stack.
func TestOnlyStacksForLoadTestsAreTouched(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.rollout(least())
		r.Tags = map[string]string{stack.TagManagedBy: stack.ManagedBy, stack.TagType: stack.TypeLimiter}
		if _, err := w.Deploy(w.Context(), r); err != nil {
			w.Fatal(err)
		}
		bad := (*store.ValidationError)(nil)
		if _, err := w.Deploy(w.Context(), w.rollout(least())); !errors.As(err, &bad) || !strings.Contains(err.Error(), "not for load tests") {
			w.Errorf("deploy: %v", err)
		}
		if _, err := w.Delete(w.Context(), stack.Deletion{Name: "limits-load"}); !errors.As(err, &bad) {
			w.Errorf("delete: %v", err)
		}
		if l, err := w.List(w.Context()); err != nil || len(l.Stacks) > 0 {
			w.Errorf("list: %v, %v", l.Stacks, err)
		}
	})
}

func TestTheStackIsListed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(least())
		l, err := w.List(w.Context())
		if err != nil || l.Problem != nil || len(l.Stacks) != 1 || l.Stacks[0].Name != "limits-load" || l.Stacks[0].UserName() != "limits" {
			w.Errorf("%+v, %v", l, err)
		}
	})
}

// What failed is named, and so are the commands on a stack for load tests.
func TestAFailureSaysWhatToDo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.Fail("CREATE", "MasterService", "ECS Deployment Circuit Breaker was triggered")
		_, err := w.Deploy(w.Context(), w.rollout(least()))
		if !errors.Is(err, stack.ErrFailed) || !strings.Contains(err.Error(), "Circuit Breaker") || !strings.Contains(err.Error(), "zae-limiter loadtest delete -n limits,") {
			w.Errorf("create: %v", err)
		}
		_, err = w.Deploy(w.Context(), w.rollout(least()))
		if !errors.Is(err, stack.ErrBlocked) || !strings.Contains(err.Error(), "zae-limiter loadtest delete -n limits,") {
			w.Errorf("create again: %v", err)
		}
		if _, err := w.Delete(w.Context(), stack.Deletion{Name: "limits-load"}); err != nil {
			w.Error(err)
		}
		w.cloud.Fail("CREATE", "MasterService", "")
		w.deploy(least())
	})
}
