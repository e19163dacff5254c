package cfntest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// CancelUpdateStack turns a running update around.
func (c *Cloud) CancelUpdateStack(_ context.Context, in *cloudformation.CancelUpdateStackInput, _ ...func(*cloudformation.Options)) (*cloudformation.CancelUpdateStackOutput, error) {
	return call(c, "CancelUpdateStack", func() (*cloudformation.CancelUpdateStackOutput, error) {
		s, err := c.stack(in.StackName)
		switch {
		case err != nil:
			return nil, err
		case s.tokens[aws.ToString(in.ClientRequestToken)]:
			return &cloudformation.CancelUpdateStackOutput{}, nil
		case s.status != string(types.StackStatusUpdateInProgress):
			return nil, invalid("CancelUpdateStack cannot be called from current stack status")
		}
		s.remember(in.ClientRequestToken)
		s.cancel(c.o.Now(), aws.ToString(in.ClientRequestToken))
		return &cloudformation.CancelUpdateStackOutput{}, nil
	})
}

// cancel turns the running operation around at an instant. The resource that is under way
// keeps its old form.
func (s *stack) cancel(at time.Time, token string) {
	s.op.token, s.op.queue, s.op.at, s.op.begun = token, nil, at, false
	for _, id := range s.order {
		switch r := s.resources[id]; r.status {
		case types.ResourceStatusCreateInProgress:
			s.change(at, r, types.ResourceStatusCreateFailed, "Resource creation cancelled")
		case types.ResourceStatusUpdateInProgress:
			s.change(at, r, types.ResourceStatusUpdateFailed, "Resource update cancelled")
		default:
		}
	}
	s.op.failed(at, "User Initiated")
}

// ContinueUpdateRollback continues a rollback that failed.
func (c *Cloud) ContinueUpdateRollback(_ context.Context, in *cloudformation.ContinueUpdateRollbackInput, _ ...func(*cloudformation.Options)) (*cloudformation.ContinueUpdateRollbackOutput, error) {
	return call(c, "ContinueUpdateRollback", func() (*cloudformation.ContinueUpdateRollbackOutput, error) {
		s, err := c.stack(in.StackName)
		switch {
		case err != nil:
			return nil, err
		case s.tokens[aws.ToString(in.ClientRequestToken)]:
			return &cloudformation.ContinueUpdateRollbackOutput{}, nil
		case s.status != string(types.StackStatusUpdateRollbackFailed):
			return nil, invalid("Stack:%s is in %s state and can not continue rollback.", s.id, s.status)
		}
		whole := slices.DeleteFunc(slices.Clone(in.ResourcesToSkip), func(id string) bool {
			return s.resources[id].status == types.ResourceStatusUpdateFailed
		})
		if len(whole) > 0 {
			return nil, invalid("The following resources cannot be skipped, because they are not in the UPDATE_FAILED state: [%s]", strings.Join(whole, ", "))
		}
		s.remember(in.ClientRequestToken)
		s.run(aws.ToString(in.ClientRequestToken), nil, nil)
		s.turn(c.o.Now(), types.StackStatusUpdateRollbackInProgress, "User Initiated", s.op.token)
		s.proceed(in.ResourcesToSkip)
		return &cloudformation.ContinueUpdateRollbackOutput{}, nil
	})
}

// remember makes a repetition of a request harmless.
func (s *stack) remember(token *string) {
	if t := aws.ToString(token); t != "" {
		s.tokens[t] = true
	}
}
