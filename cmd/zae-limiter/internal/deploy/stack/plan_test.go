package stack_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestAPlanKeepsParametersAndTagsThatTheCallerDoesNotSet(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.rollout("Memory=512", "Note=kept")
		first.Tags["team"] = "payments"
		w.deploy(first)
		out := w.deploy(w.rollout("Archive=true", "Memory=1024"))
		if p := out.Stack.Parameters; p["Memory"] != "1024" || p["Note"] != "kept" {
			w.Errorf("parameters %v", p)
		}
		if tags := out.Stack.Tags; tags["team"] != "payments" || tags[stack.TagManagedBy] != stack.ManagedBy {
			w.Errorf("tags %v", tags)
		}
	})
}

func TestAPlanWithoutChangesIsEmptyAndLeavesNoChangeSet(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		p := w.plan(w.spec())
		if !p.Empty() || len(p.Changes) > 0 {
			w.Errorf("plan %+v", p)
		}
		w.cloud.Asked()
		if s, err := w.Execute(w.Context(), p, nil); err != nil || s.Status != "UPDATE_COMPLETE" {
			w.Errorf("stack %+v, error %v", s, err)
		}
		if asked := w.cloud.Asked(); count(asked, "ExecuteChangeSet") > 0 {
			w.Errorf("requests %v", asked)
		}
	})
}

func TestAChangeThatLosesDataIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		for _, c := range []struct{ change, resource, says string }{
			{"LocalIndexes=true", stack.TableID, "replaces it, because of LocalSecondaryIndexes"},
			{"GSI2Projection=ALL", stack.TableID, "may replace it, because of GlobalSecondaryIndexes"},
			{"Archive=false", stack.ArchiveID, "remove AuditArchiveBucket"},
		} {
			_, err := w.Plan(w.Context(), w.spec(c.change))
			refused := (*stack.ReplacementError)(nil)
			if !errors.As(err, &refused) || !errors.Is(err, stack.ErrDataLoss) || refused.Changes[0].LogicalID != c.resource {
				w.Fatalf("%s: error %v", c.change, err)
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "--allow-replacement "+c.resource) {
				w.Errorf("%s: error %v", c.change, err)
			}
			if advised := strings.Contains(err.Error(), "deploy a stack of another name"); advised != (c.resource == stack.TableID) {
				w.Errorf("%s: error %v", c.change, err)
			}
			allowed := w.spec(c.change)
			allowed.AllowReplacement = []string{c.resource}
			if err := w.Discard(w.Context(), w.plan(allowed)); err != nil {
				w.Errorf("%s, allowed: %v", c.change, err)
			}
		}
		if p := w.plan(w.spec()); !p.Empty() {
			w.Errorf("the refused plans changed something: %+v", p.Changes)
		}
	})
}

func TestABadSpecIsRefusedBeforeAChangeSet(t *testing.T) {
	inWorld(t, func(w *world) {
		unknown, long, tagged := w.spec("Memori=512"), w.spec(), w.spec()
		long.Template += "# " + strings.Repeat("x", 51_200)
		for i := range 50 {
			tagged.Tags[fmt.Sprintf("tag-%d", i)] = "x"
		}
		for field, s := range map[string]stack.Spec{"parameter": unknown, "template": long, "tags": tagged, "stack name": {}} {
			_, err := w.Plan(w.Context(), s)
			if invalid := (*store.ValidationError)(nil); !errors.As(err, &invalid) || invalid.Field != field {
				w.Errorf("%s: error %v", field, err)
			}
		}
		if asked := w.cloud.Asked(); count(asked, "CreateChangeSet") > 0 {
			w.Errorf("requests %v", asked)
		}
		w.cloud.Fault(always("CreateChangeSet", cfntest.Fault{Before: &smithy.GenericAPIError{Code: "ValidationError", Message: "Parameter 'Memory' must be a number not less than 128"}}))
		if _, err := w.Plan(w.Context(), w.spec("Memory=1")); err == nil || !strings.Contains(err.Error(), "Memory") || w.status() != "" {
			w.Errorf("out of range: error %v", err)
		}
	})
}

func TestAChangeSetThatCannotBeMadeLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.spec()
		s.Template = strings.Replace(s.Template, "!GetAtt Role.Arn", "!Ref Mapping", 1)
		s.Parameters["CodeKey"] = "x"
		_, err := w.Plan(w.Context(), s)
		failure := (*stack.ChangeSetError)(nil)
		if !errors.As(err, &failure) || !strings.Contains(failure.Reason, "Circular dependency") {
			w.Errorf("error %v", err)
		}
		if got := w.status(); got != "" {
			w.Errorf("a stack is left, %s", got)
		}
	})
}

// Each state that allows no change has its error, with the next step.
func TestEveryStateHasItsNextStep(t *testing.T) {
	type setting struct {
		name string
		make func(w *world)
		is   error
		next string
	}
	failing := func(w *world, parameters ...string) {
		_, err := w.Deploy(w.Context(), w.rollout(parameters...))
		if !errors.Is(err, stack.ErrFailed) {
			w.Fatalf("error %v", err)
		}
	}
	for _, s := range []setting{
		{"ROLLBACK_COMPLETE", func(w *world) {
			w.cloud.Fail("CREATE", "Role", "no")
			failing(w)
		}, stack.ErrBlocked, "zae-limiter delete -n limits"},
		{"ROLLBACK_FAILED", func(w *world) {
			w.cloud.Fail("CREATE", "Role", "no")
			w.cloud.Fail("DELETE", "FunctionCodeBucket", "no")
			failing(w)
		}, stack.ErrBlocked, "zae-limiter status -n limits"},
		{"UPDATE_ROLLBACK_FAILED", func(w *world) {
			w.deploy(w.rollout())
			w.cloud.Fail("UPDATE", "Aggregator", "no")
			w.cloud.Fail("ROLLBACK", "Aggregator", "no")
			failing(w, "Memory=512")
		}, stack.ErrBlocked, "zae-limiter rollback -n limits"},
		{"DELETE_FAILED", func(w *world) {
			w.deploy(w.rollout())
			w.cloud.Fail("DELETE", "Role", "no")
			if _, err := w.Delete(w.Context(), stack.Deletion{Name: "limits"}); !errors.Is(err, stack.ErrFailed) {
				w.Fatalf("error %v", err)
			}
		}, stack.ErrBlocked, "--retain RESOURCE"},
		{"UPDATE_IN_PROGRESS", func(w *world) {
			w.deploy(w.rollout())
			if _, err := w.Start(w.Context(), w.plan(w.spec("Memory=512"))); err != nil {
				w.Fatal(err)
			}
		}, stack.ErrBusy, "zae-limiter status --watch -n limits"},
	} {
		t.Run(s.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				s.make(w)
				_, err := w.Plan(w.Context(), w.spec("Memory=128"))
				state := (*stack.StateError)(nil)
				if !errors.As(err, &state) || state.Status != s.name || !errors.Is(err, s.is) || !strings.Contains(err.Error(), s.next) {
					w.Errorf("error %v", err)
				}
			})
		})
	}
}

func TestAStackInReviewIsFilled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan(w.spec()) // its maker crashed
		if got := w.status(); got != string(types.StackStatusReviewInProgress) {
			w.Fatalf("status %q", got)
		}
		if out := w.deploy(w.rollout()); out.Stack.Status != "UPDATE_COMPLETE" {
			w.Errorf("stack %+v", out.Stack)
		}
	})
}

// The second look finds a stack that somebody else deployed after the first.
func TestAStackMadeMeanwhileIsUpdated(t *testing.T) {
	inWorld(t, func(w *world) {
		done := false
		w.cloud.Fault(func(op string) cfntest.Fault {
			if op == "CreateChangeSet" && !done {
				done = true
				if _, err := w.manager().Deploy(context.Background(), w.rollout()); err != nil {
					w.Error(err)
				}
			}
			return cfntest.Fault{}
		})
		if p := w.plan(w.spec("Memory=512")); p.Creates || len(p.Changes) != 1 {
			w.Errorf("plan %+v", p)
		}
	})
}

func TestADiscardKeepsAStackWithAnotherChangeSet(t *testing.T) {
	inWorld(t, func(w *world) {
		mine := w.plan(w.spec())
		theirs, err := w.manager().Plan(w.Context(), w.spec("Memory=512"))
		if err != nil {
			w.Fatal(err)
		}
		if err := w.Discard(w.Context(), mine); err != nil {
			w.Fatal(err)
		}
		if _, err := w.Execute(w.Context(), theirs, nil); err != nil {
			w.Errorf("the other plan: %v", err)
		}
	})
}
