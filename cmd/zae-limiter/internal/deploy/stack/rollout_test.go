package stack_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestAFirstDeploymentMakesTheTableThenTheFunctions(t *testing.T) {
	inWorld(t, func(w *world) {
		var plans [][]string
		r := w.rollout()
		r.Approve = func(_ context.Context, p *stack.Plan) error {
			var ids []string
			for _, c := range p.Changes {
				ids = append(ids, c.Action+" "+c.LogicalID)
			}
			slices.Sort(ids)
			plans = append(plans, ids)
			if p.Continues != (len(plans) == 2) {
				w.Errorf("plan %d: Continues is %v", len(plans), p.Continues)
			}
			return nil
		}
		out := w.deploy(r)
		want := [][]string{
			{"Add AuditArchiveBucket", "Add FunctionCodeBucket", "Add RateLimitsTable", "Add Role"},
			{"Add Aggregator", "Add Mapping"},
		}
		if diff := cmp.Diff(want, plans); diff != "" {
			w.Errorf("plans (-want +got):\n%s", diff)
		}
		if out.Stack.Status != "UPDATE_COMPLETE" || out.Stack.Outputs["AggregatorFunctionName"] != "limits-aggregator" {
			w.Errorf("the stack is %+v", out.Stack)
		}
		if got := w.cloud.Objects(out.Stack.Outputs["CodeBucketName"]); !slices.Equal(got, []string{code.Key}) {
			w.Errorf("the code bucket has %v", got)
		}
		if got := w.lambda(); got != dynamo.ClientVersion {
			w.Errorf("the version record has aggregator %q", got)
		}
		if _, err := dynamo.Open(w.Context(), dynamo.Options{API: w.engine, Table: "limits"}); err != nil {
			w.Errorf("a client cannot use the table: %v", err)
		}
	})
}

func TestDeployingAgainChangesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		w.cloud.Asked()
		out := w.deploy(w.rollout())
		asked := w.cloud.Asked()
		if len(out.Changes) > 0 || count(asked, "ExecuteChangeSet") > 0 || count(asked, "PutObject") > 0 {
			w.Errorf("changes %v, requests %v", out.Changes, asked)
		}
	})
}

// A crash at any request of a first deployment: the next deployment completes it.
func TestADeploymentThatWasCutShortIsResumed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		requests := len(w.cloud.Asked())
		for at := 1; at < requests; at += 3 {
			w := w.fresh()
			ctx, crash := context.WithCancel(w.Context())
			n := 0
			w.cloud.Fault(func(string) cfntest.Fault {
				if n++; n == at {
					crash()
				}
				if n >= at {
					return cfntest.Fault{Before: context.Canceled}
				}
				return cfntest.Fault{}
			})
			if _, err := w.Deploy(ctx, w.rollout()); err == nil {
				w.Fatalf("crash at request %d: no error", at)
			}
			w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{} })
			if _, err := w.Follow(w.Context(), "limits", nil); err != nil && !errors.Is(err, store.ErrNotFound) {
				w.Fatalf("crash at request %d: %v", at, err)
			}
			if out, err := w.Deploy(w.Context(), w.rollout()); err != nil || out.Stack.Outputs["AggregatorFunctionName"] == "" {
				w.Fatalf("after a crash at request %d: %v, stack %+v", at, err, out.Stack)
			}
		}
	})
}

func TestNewCodeIsOneChangeSet(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		w.cloud.Asked()
		r := w.rollout()
		r.Code = &stack.Code{Key: "functions/4567.zip", Zip: []byte("another zip")}
		out := w.deploy(r)
		if len(out.Changes) != 1 || out.Changes[0].LogicalID != "Aggregator" || out.Changes[0].Replacement != "False" {
			w.Errorf("changes %+v", out.Changes)
		}
		if asked := w.cloud.Asked(); count(asked, "CreateChangeSet") != 1 || count(asked, "PutObject") != 1 {
			w.Errorf("requests %v", asked)
		}
	})
}

func TestOnlyTheCodeIsChanged(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout("Memory=512"))
		r := stack.Rollout{Spec: stack.Spec{Name: "limits"}, Code: &stack.Code{Key: "functions/4567.zip", Zip: []byte("another zip")}}
		out := w.deploy(r)
		if len(out.Changes) != 1 || out.Stack.Parameters["Memory"] != "512" {
			w.Errorf("changes %+v, parameters %v", out.Changes, out.Stack.Parameters)
		}
	})
}

func TestACodeUpdateThatFailsRollsBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		w.cloud.Fail("UPDATE", "Aggregator", "the runtime is not supported")
		r := w.rollout()
		r.Code = &stack.Code{Key: "functions/4567.zip", Zip: []byte("another zip")}
		_, err := w.Deploy(w.Context(), r)
		failure := (*stack.FailedError)(nil)
		if !errors.As(err, &failure) || failure.Status != "UPDATE_ROLLBACK_COMPLETE" || failure.Cause.LogicalID != "Aggregator" {
			w.Fatalf("error %v", err)
		}
		s, _ := w.Find(w.Context(), "limits")
		if s.Parameters["CodeKey"] != code.Key {
			w.Errorf("the code key is %q afterwards", s.Parameters["CodeKey"])
		}
	})
}

func TestADeploymentThatDoesNotWaitSaysWhatRemains(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.rollout()
		r.Background = true
		out := w.deploy(r)
		if out.Stack.Status != "CREATE_IN_PROGRESS" || len(out.Remaining) != 5 || !strings.Contains(out.Remaining[0], "upload the code") {
			w.Errorf("stack %s, remaining %q", out.Stack.Status, out.Remaining)
		}
		if _, err := w.Follow(w.Context(), "limits", nil); err != nil {
			w.Fatal(err)
		}
		if out := w.deploy(w.rollout()); len(out.Remaining) > 0 || w.lambda() == "" {
			w.Errorf("remaining %q", out.Remaining)
		}
	})
}

func TestADeclinedPlanLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		no := errors.New("no")
		r := w.rollout()
		r.Approve = func(context.Context, *stack.Plan) error { return no }
		if _, err := w.Deploy(w.Context(), r); !errors.Is(err, no) {
			w.Fatalf("error %v", err)
		}
		if got := w.status(); got != "" {
			w.Errorf("a stack is left, %s", got)
		}
	})
}

func TestTheMappingIsAwaited(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.SetMapping("limits-aggregator", "Creating")
		looks := 0
		w.cloud.Fault(func(op string) cfntest.Fault {
			if op == "ListEventSourceMappings" {
				switch looks++; looks {
				case 2:
					return cfntest.Fault{Before: cfntest.Throttled()}
				case 4:
					w.cloud.SetMapping("limits-aggregator", "Enabled")
				}
			}
			return cfntest.Fault{}
		})
		w.deploy(w.rollout())
		if looks != 4 {
			w.Errorf("%d looks", looks)
		}
		w.cloud.SetMapping("limits-aggregator", "Disabled")
		if _, err := w.Deploy(w.Context(), w.rollout()); !errors.Is(err, store.ErrDisabled) {
			w.Errorf("disabled: error %v", err)
		}
		w.cloud.SetMapping("limits-aggregator", "Creating")
		if _, err := w.Deploy(w.Context(), w.rollout()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Creating") {
			w.Errorf("never enabled: error %v", err)
		}
	})
}

func TestOlderCodeIsNotDeployed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		if _, err := dynamo.RaiseVersions(w.Context(), dynamo.Options{API: w.engine, Table: "limits"}, dynamo.Versions{Lambda: "0.99.0"}); err != nil {
			w.Fatal(err)
		}
		w.cloud.Asked()
		if _, err := w.Deploy(w.Context(), w.rollout("Memory=512")); !errors.Is(err, store.ErrIncompatible) {
			w.Errorf("error %v", err)
		}
		if asked := w.cloud.Asked(); count(asked, "CreateChangeSet") > 0 {
			w.Errorf("requests %v", asked)
		}
	})
}

// The Python package's stacks have an output CodeBucketName, which is the archive. The code
// of the functions goes there only if the caller names it.
func TestAnAdoptedStackGetsItsOwnCodeBucket(t *testing.T) {
	inWorld(t, func(w *world) {
		peers := w.spec("GSI2Projection=ALL", "LocalIndexes=true")
		peers.Template = strings.Replace(peers.Template, "  FunctionCodeBucket:\n    Type: AWS::S3::Bucket\n", "", 1)
		peers.Template = strings.Replace(peers.Template, "{Value: !Ref FunctionCodeBucket,", "{Value: !Ref AuditArchiveBucket,", 1)
		peers.Template = strings.Replace(peers.Template, "Code: {S3Bucket: !Ref FunctionCodeBucket, S3Key: !Ref CodeKey}", "Code: {ZipFile: raise}", 1)
		peers.Parameters["CodeKey"] = "inline"
		p := w.plan(peers)
		made, err := w.Execute(w.Context(), p, nil)
		if err != nil {
			w.Fatal(err)
		}
		if _, err := w.Deploy(w.Context(), w.rollout("GSI2Projection=KEYS_ONLY", "LocalIndexes=false")); !errors.Is(err, stack.ErrDataLoss) {
			w.Fatalf("without what the table has: error %v", err)
		}
		out := w.deploy(w.rollout())
		for _, c := range out.Changes {
			if c.LogicalID == stack.TableID || c.LogicalID == stack.ArchiveID {
				w.Errorf("change %+v", c)
			}
		}
		if got := w.cloud.Objects(made.Outputs["CodeBucketName"]); len(got) > 0 {
			w.Errorf("the archive has %v", got)
		}
		if out.Stack.Outputs["AggregatorFunctionName"] == "" {
			w.Errorf("outputs %v", out.Stack.Outputs)
		}
	})
}
