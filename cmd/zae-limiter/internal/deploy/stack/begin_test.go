package stack_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/store"
)

// elsewhere is the rollout with the code in a bucket that exists.
func (w *world) elsewhere() stack.Rollout {
	w.Helper()
	w.cloud.AddBucket("artefacts")
	r := w.rollout()
	r.Template = strings.ReplaceAll(r.Template, "!Ref FunctionCodeBucket", "artefacts")
	r.Template = strings.Replace(r.Template, "  FunctionCodeBucket:\n    Type: AWS::S3::Bucket\n", "", 1)
	r.Code = &stack.Code{Bucket: "artefacts", Key: code.Key, Zip: code.Zip}
	return r
}

func TestWithABucketThatExistsOneChangeSetIsEnough(t *testing.T) {
	inWorld(t, func(w *world) {
		out := w.deploy(w.elsewhere())
		if asked := w.cloud.Asked(); count(asked, "ExecuteChangeSet") != 1 {
			w.Errorf("requests %v", asked)
		}
		if out.Stack.Status != "CREATE_COMPLETE" || out.Stack.Outputs["AggregatorFunctionName"] == "" || len(w.cloud.Objects("artefacts")) != 1 {
			w.Errorf("stack %+v, objects %v", out.Stack, w.cloud.Objects("artefacts"))
		}
	})
}

func TestABucketThatTheStackGivesUpIsDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		bucket := w.deploy(w.rollout()).Stack.Outputs[stack.OutputCodeBucket]
		r := w.elsewhere()
		out := w.deploy(r)
		if w.cloud.Exists("AWS::S3::Bucket", bucket) || out.Stack.Status != "UPDATE_COMPLETE" {
			w.Errorf("bucket %s is left with %v, stack %+v", bucket, w.cloud.Objects(bucket), out.Stack)
		}
		if asked := w.cloud.Asked(); count(asked, "ExecuteChangeSet") != 3 {
			w.Errorf("requests %v", asked)
		}
	})
}

// A caller that does not wait cannot delete it: it has the code to which a failure would return. The
// next deployment does.
func TestABucketThatADeploymentLeftIsDeletedByTheNext(t *testing.T) {
	inWorld(t, func(w *world) {
		bucket := w.deploy(w.rollout()).Stack.Outputs[stack.OutputCodeBucket]
		r := w.elsewhere()
		r.Background = true
		if out := w.deploy(r); !slices.Contains(out.Remaining, "delete the former bucket of the code") {
			w.Errorf("remaining %q", out.Remaining)
		}
		if _, err := w.Follow(w.Context(), "limits", nil); err != nil {
			w.Fatal(err)
		}
		if !w.cloud.Exists("AWS::S3::Bucket", bucket) {
			w.Fatal("nothing is left to delete")
		}
		w.deploy(w.elsewhere())
		if w.cloud.Exists("AWS::S3::Bucket", bucket) {
			w.Errorf("bucket %s is left with %v", bucket, w.cloud.Objects(bucket))
		}
		w.deploy(w.elsewhere()) // and again, although it is gone
	})
}

// A program that is killed can no longer send anything. Whatever it did before, the next
// deployment completes it.
func TestADeploymentIntoABucketThatWasKilledIsResumed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.elsewhere())
		for at, requests := 0, len(w.cloud.Asked()); at < requests; at += 2 {
			w := w.fresh()
			n := 0
			w.cloud.Fault(func(string) cfntest.Fault {
				if n++; n > at {
					return cfntest.Fault{Before: errLost}
				}
				return cfntest.Fault{}
			})
			if _, err := w.Deploy(w.Context(), w.elsewhere()); err == nil {
				w.Fatalf("killed after request %d: no error", at)
			}
			w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{} })
			if _, err := w.Follow(w.Context(), "limits", nil); err != nil && !errors.Is(err, store.ErrNotFound) {
				w.Fatalf("killed after request %d: %v", at, err)
			}
			if out := w.deploy(w.elsewhere()); out.Stack.Outputs["AggregatorFunctionName"] == "" {
				w.Fatalf("killed after request %d: stack %+v", at, out.Stack)
			}
		}
	})
}

// A session that expires at any request ends the deployment with an error that says so, and
// with new credentials the next deployment completes it.
func TestAnExpiredSessionSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		for at, requests := 0, len(w.cloud.Asked()); at < requests; at += 5 {
			w := w.fresh()
			n := 0
			w.cloud.Fault(func(string) cfntest.Fault {
				if n++; n > at {
					return cfntest.Fault{Before: cfntest.Expired()}
				}
				return cfntest.Fault{}
			})
			_, err := w.Deploy(w.Context(), w.rollout())
			if !errors.Is(err, store.ErrAccessDenied) || !strings.Contains(err.Error(), "credentials have expired") {
				w.Fatalf("after request %d: error %v", at, err)
			}
		}
	})
}

func TestAPreviewIsTheFirstPlanAndLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		preview := func(r stack.Rollout) *stack.Plan {
			w.Helper()
			p, err := w.Preview(w.Context(), r)
			if err != nil {
				w.Fatal(err)
			}
			return p
		}
		if p := preview(w.rollout()); !p.Creates || len(p.Changes) == 0 || !strings.Contains(p.Later, "a second change set adds the functions") {
			w.Errorf("of a new stack: %+v", p)
		}
		if p := preview(w.elsewhere()); p.Later != "" {
			w.Errorf("of a new stack with a bucket that exists: %+v", p)
		}
		if got := w.status(); got != "" {
			w.Errorf("a stack is left, %s", got)
		}
		w.deploy(w.rollout())
		if p := preview(w.rollout("Memory=512")); len(p.Changes) != 1 || p.Later != "" || !p.Empty() {
			w.Errorf("of an update: %+v", p)
		}
		w.cloud.Asked()
		if out := w.deploy(w.rollout("Memory=512")); len(out.Changes) != 1 {
			w.Errorf("changes %+v", out.Changes)
		}
	})
}

// The functions go, because the bucket for their code does not exist yet.
func TestAPlanSaysThatTheFunctionsAreAbsentForATime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.elsewhere())
		p, err := w.Preview(w.Context(), w.rollout())
		if err != nil || !strings.Contains(p.Later, "--code-bucket") {
			w.Errorf("plan %+v, error %v", p, err)
		}
	})
}

func TestATableOutsideTheStackIsFoundBeforeAnythingIsMade(t *testing.T) {
	inWorld(t, func(w *world) {
		if _, err := w.engine.CreateTable(w.Context(), newTable()); err != nil {
			w.Fatal(err)
		}
		if _, err := w.Deploy(w.Context(), w.rollout()); !errors.Is(err, store.ErrExists) || !strings.Contains(err.Error(), "table delete") {
			w.Errorf("error %v", err)
		}
		if asked := w.cloud.Asked(); count(asked, "CreateChangeSet") > 0 {
			w.Errorf("requests %v", asked)
		}
		p := w.plan(w.spec())
		if _, err := w.Deploy(w.Context(), w.rollout()); !errors.Is(err, store.ErrExists) {
			w.Errorf("in an empty stack: error %v", err)
		}
		if _, err := w.Execute(w.Context(), p, nil); !errors.Is(err, stack.ErrFailed) {
			w.Errorf("without the check: error %v", err)
		}
		if _, err := w.engine.DescribeTable(w.Context(), tableInput()); err != nil {
			w.Errorf("the rollback deleted the table of another: %v", err)
		}
	})
}

// Between the look at the stack and the look at the table, another deployer makes both. The
// advice to delete the table would be wrong.
func TestATableThatAnotherDeployerMakesIsNotOutsideTheStack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		w.cloud.Fault(once("DescribeStacks", cfntest.Fault{Before: &smithy.GenericAPIError{Code: "ValidationError", Message: "Stack with id limits does not exist"}}))
		if _, err := w.Deploy(w.Context(), w.rollout()); !errors.Is(err, stack.ErrStale) {
			w.Errorf("error %v", err)
		}
	})
}

func TestAStackOfSomethingElseIsLeftAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		other := stack.Spec{Name: "limits", Template: "Resources: {Queue: {Type: AWS::SQS::Queue}}"}
		if _, err := w.Execute(w.Context(), w.plan(other), nil); err != nil {
			w.Fatal(err)
		}
		w.cloud.Asked()
		for what, do := range map[string]func() error{
			"deploy":  func() error { _, err := w.Deploy(w.Context(), w.rollout()); return err },
			"preview": func() error { _, err := w.Preview(w.Context(), w.rollout()); return err },
			"delete":  func() error { _, err := w.Delete(w.Context(), stack.Deletion{Name: "limits"}); return err },
		} {
			if err := do(); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "not of a limiter") {
				w.Errorf("%s: error %v", what, err)
			}
		}
		if asked := w.cloud.Asked(); count(asked, "CreateChangeSet")+count(asked, "DeleteStack") > 0 {
			w.Errorf("requests %v", asked)
		}
	})
}

// CDK and OpenTofu may deploy the template without the tags.
func TestAStackWithoutTagsIsKnownByItsTable(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.spec()
		s.Tags = nil
		if _, err := w.Execute(w.Context(), w.plan(s), nil); err != nil {
			w.Fatal(err)
		}
		w.deploy(w.rollout())
		if s, _ := w.Find(w.Context(), "limits"); s.Tags[stack.TagManagedBy] != stack.ManagedBy {
			w.Errorf("tags %v", s.Tags)
		}
	})
}

// newTable is a table of the stack's name.
func newTable() *dynamodb.CreateTableInput {
	name, key := "limits", "PK"
	return &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
	}
}
