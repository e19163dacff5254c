package stack_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/store"
)

func tableInput() *dynamodb.DescribeTableInput {
	return &dynamodb.DescribeTableInput{TableName: aws.String("limits")}
}

// fill deploys, and puts objects into both buckets. It returns the name of the archive.
func (w *world) fill() (archive string) {
	w.Helper()
	w.deploy(w.rollout())
	resources, err := w.Resources(w.Context(), "limits")
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range resources {
		for i := range 5 {
			if r.Type == "AWS::S3::Bucket" {
				w.cloud.Store(r.PhysicalID, fmt.Sprintf("object-%d", i), nil)
			}
		}
		if r.LogicalID == stack.ArchiveID {
			archive = r.PhysicalID
		}
	}
	return archive
}

func TestADeletionKeepsTableAndArchive(t *testing.T) {
	inWorld(t, func(w *world) {
		archive := w.fill()
		left, err := w.Delete(w.Context(), stack.Deletion{Name: "limits"})
		if err != nil {
			w.Fatal(err)
		}
		var kept []string
		for _, r := range left.Kept {
			kept = append(kept, r.LogicalID)
		}
		if !slices.Equal(kept, []string{stack.ArchiveID, stack.TableID}) {
			w.Errorf("kept %v", kept)
		}
		if _, err := w.engine.DescribeTable(w.Context(), tableInput()); err != nil {
			w.Errorf("the table: %v", err)
		}
		if got := w.cloud.Objects(archive); len(got) != 5 {
			w.Errorf("the archive has %v", got)
		}
		if got := w.status(); got != "" {
			w.Errorf("the stack is %s", got)
		}
	})
}

func TestADeletionOfDataLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		archive := w.fill()
		left, err := w.Delete(w.Context(), stack.Deletion{Name: "limits", Data: true})
		if err != nil || len(left.Kept) > 0 {
			w.Fatalf("kept %v, error %v", left.Kept, err)
		}
		if _, err := w.engine.DescribeTable(w.Context(), tableInput()); err == nil {
			w.Error("the table is still there")
		}
		if w.cloud.Exists("AWS::S3::Bucket", archive) {
			w.Error("the archive is still there")
		}
		w.deploy(w.rollout())
	})
}

// A crash after the data was deleted and before the stack was: the repetition completes it.
func TestADeletionIsRepeatable(t *testing.T) {
	inWorld(t, func(w *world) {
		w.fill()
		w.cloud.Fault(always("DeleteStack", cfntest.Fault{Before: errLost}))
		if _, err := w.Delete(w.Context(), stack.Deletion{Name: "limits", Data: true}); !errors.Is(err, errLost) {
			w.Fatalf("error %v", err)
		}
		w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{} })
		if _, err := w.Delete(w.Context(), stack.Deletion{Name: "limits", Data: true}); err != nil {
			w.Fatal(err)
		}
		if _, err := w.Delete(w.Context(), stack.Deletion{Name: "limits"}); !errors.Is(err, store.ErrNotFound) {
			w.Errorf("a third time: error %v", err)
		}
	})
}

func TestAProtectionIsFoundBeforeAnythingIsDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		parameters []string
		data       bool
		prepare    func(w *world)
		next       string
	}{
		"table":       {[]string{"Protection=true"}, true, func(*world) {}, "--no-deletion-protection"},
		"termination": {nil, false, func(w *world) { w.cloud.Protect("limits", true) }, "update-termination-protection"},
		"no Retain": {nil, false, func(w *world) {
			s := w.spec()
			s.Template = strings.ReplaceAll(s.Template, "    DeletionPolicy: RetainExceptOnCreate\n", "")
			s.Parameters["Memory"] = "512"
			if _, err := w.Execute(w.Context(), w.plan(s), nil); err != nil {
				w.Fatal(err)
			}
		}, "zae-limiter upgrade -n limits"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.deploy(w.rollout(c.parameters...))
				c.prepare(w)
				w.cloud.Asked()
				_, err := w.Delete(w.Context(), stack.Deletion{Name: "limits", Data: c.data})
				if !errors.Is(err, stack.ErrProtected) || !strings.Contains(err.Error(), c.next) {
					w.Errorf("error %v", err)
				}
				for _, op := range w.cloud.Asked() {
					if strings.HasPrefix(op, "Delete") {
						w.Errorf("request %s", op)
					}
				}
			})
		})
	}
}

func TestADeletionThatFailedCanLeaveAResource(t *testing.T) {
	inWorld(t, func(w *world) {
		w.fill()
		retain := stack.Deletion{Name: "limits", Retain: []string{"Role"}}
		if _, err := w.Delete(w.Context(), retain); !errors.Is(err, store.ErrInvalid) {
			w.Fatalf("a stack that did not fail: error %v", err)
		}
		w.cloud.Fail("DELETE", "Role", "it is attached to something")
		_, err := w.Delete(w.Context(), stack.Deletion{Name: "limits"})
		failure := (*stack.FailedError)(nil)
		if !errors.As(err, &failure) || failure.Status != "DELETE_FAILED" || failure.Cause.LogicalID != "Role" {
			w.Fatalf("error %v", err)
		}
		if _, err := w.Delete(w.Context(), retain); err != nil {
			w.Fatal(err)
		}
		if !w.cloud.Exists("AWS::IAM::Role", "limits-aggr") {
			w.Error("the role was deleted")
		}
	})
}

func TestAStackThatChangesIsNotDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		if _, err := w.Start(w.Context(), w.plan(w.spec("Memory=512"))); err != nil {
			w.Fatal(err)
		}
		if _, err := w.Delete(w.Context(), stack.Deletion{Name: "limits"}); !errors.Is(err, stack.ErrBusy) {
			w.Errorf("error %v", err)
		}
	})
}
