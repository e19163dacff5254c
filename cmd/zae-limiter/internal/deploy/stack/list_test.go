package stack_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
)

// names are the user names of a listing.
func names(l stack.Listing) []string {
	var all []string
	for _, s := range l.Stacks {
		all = append(all, s.UserName())
	}
	return all
}

// stacks makes five stacks, of which two are limiters'.
func (w *world) stacks() {
	for name, tags := range map[string]map[string]string{
		"blue":         {stack.TagManagedBy: stack.ManagedBy, stack.TagName: "limits"},
		"ZAEL-legacy":  nil,
		"other":        {"team": "payments"},
		"load":         {stack.TagManagedBy: stack.ManagedBy, stack.TagType: "load-test"},
		"foreign-kind": {stack.TagManagedBy: "somebody"},
	} {
		s := w.spec()
		s.Name, s.Tags = name, tags
		if _, err := w.Execute(w.Context(), w.plan(s), nil); err != nil {
			w.Fatal(err)
		}
	}
}

func TestAListHasTaggedAndLegacyStacks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stacks()
		l, err := w.List(w.Context())
		if diff := cmp.Diff([]string{"legacy", "limits"}, names(l)); err != nil || l.Problem != nil || diff != "" {
			w.Errorf("error %v, problem %v (-want +got):\n%s", err, l.Problem, diff)
		}
		if _, err := w.Delete(w.Context(), stack.Deletion{Name: "blue"}); err != nil {
			w.Fatal(err)
		}
		if l, err := w.List(w.Context()); err != nil || !slices.Equal(names(l), []string{"legacy"}) {
			w.Errorf("after a deletion: %v, error %v", names(l), err)
		}
	})
}

func TestAListSaysWhichWayFailed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stacks()
		w.cloud.Fault(func(op string) cfntest.Fault {
			if op == "GetResources" {
				return cfntest.Fault{Before: errLost}
			}
			return cfntest.Fault{}
		})
		l, err := w.List(w.Context())
		if err != nil || !errors.Is(l.Problem, errLost) || len(l.Stacks) != 2 {
			w.Errorf("%v, problem %v, error %v", names(l), l.Problem, err)
		}
		w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{Before: errLost} })
		if _, err := w.List(w.Context()); !errors.Is(err, errLost) {
			w.Errorf("both ways: error %v", err)
		}
	})
}

func TestTagDriftHasOnlyWantedTags(t *testing.T) {
	t.Parallel()
	s := &stack.Stack{Tags: map[string]string{"team": "payments", stack.TagName: "old"}}
	got := s.TagDrift(map[string]string{stack.TagName: "limits", stack.TagManagedBy: stack.ManagedBy})
	want := []stack.TagDrift{{stack.TagManagedBy, "", stack.ManagedBy}, {stack.TagName, "old", "limits"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// DynamoDB Local and the embedded engine answer requests for stacks with errors of their own.
// The next step is the same for every operation.
func TestAServerWithoutStacksIsNamed(t *testing.T) {
	for _, code := range []string{"UnknownError", "InvalidAction", "UnknownOperationException"} {
		t.Run(code, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{Before: &smithy.GenericAPIError{Code: code}} })
				_, listed := w.List(w.Context())
				_, deployed := w.Deploy(w.Context(), w.rollout())
				_, deleted := w.Delete(w.Context(), stack.Deletion{Name: "limits"})
				_, turned := w.Rollback(w.Context(), stack.Rollback{Name: "limits"})
				for i, err := range []error{listed, deployed, deleted, turned} {
					if !errors.Is(err, stack.ErrNoStacks) || !strings.Contains(err.Error(), "zae-limiter table create") {
						w.Errorf("call %d: error %v", i, err)
					}
				}
				if found := health.FindStack(w.Context(), w, "limits", 0); !found.Absent() {
					w.Errorf("health finds %+v", found)
				}
			})
		})
	}
}
