package stack_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/store"
)

// A deployment goes on although every second request to CloudFormation fails once, and is not
// started if CloudFormation never answers.
func TestASlowCloudFormationIsAskedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		for name, passing := range map[string]error{
			"throttled": cfntest.Throttled(), "no answer": errLost,
			"a failure of the service": &smithy.GenericAPIError{Code: "InternalFailure", Message: "try again", Fault: smithy.FaultServer},
		} {
			w := w.fresh()
			n, asked := 0, []string{"DescribeStacks", "DescribeStackResources", "GetTemplateSummary", "CreateChangeSet", "DescribeChangeSet", "ExecuteChangeSet"}
			w.cloud.Fault(func(op string) cfntest.Fault {
				if n++; n%2 == 0 && slices.Contains(asked, op) {
					return cfntest.Fault{Before: passing}
				}
				return cfntest.Fault{}
			})
			if out, err := w.Deploy(w.Context(), w.rollout()); err != nil || out.Stack.Outputs["AggregatorFunctionName"] == "" {
				w.Errorf("%s: %v", name, err)
			}
		}
		w.cloud.Asked()
		w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{Before: errLost} })
		if _, err := w.Deploy(w.Context(), w.rollout()); !errors.Is(err, store.ErrUnavailable) || len(w.cloud.Asked()) != 1 {
			w.Errorf("nobody answers: %v", err)
		}
	})
}

// CloudFormation does not see that somebody changed the code of a function by hand.
func TestCodeThatSomebodyChangedIsPutBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(w.rollout())
		if out := w.deploy(w.rollout()); len(out.Repaired) > 0 {
			w.Errorf("repaired %v without a need", out.Repaired)
		}
		w.cloud.ChangeFunction("limits-aggregator", func(f *lambda.GetFunctionConfigurationOutput) { f.CodeSha256 = aws.String("bm90IG91cnM=") })
		out := w.deploy(w.rollout())
		if len(out.Changes) > 0 || len(out.Repaired) != 1 || out.Repaired[0] != "limits-aggregator" {
			w.Errorf("changes %v, repaired %v", out.Changes, out.Repaired)
		}
		w.cloud.Asked()
		if out := w.deploy(stack.Rollout{Spec: w.spec(), Code: code}); len(out.Repaired) > 0 {
			w.Errorf("repaired again: %v", out.Repaired)
		}
	})
}
