package stack

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/smithy-go"
)

// maxAttempts is how often a request to CloudFormation is sent. The pauses between the attempts
// double, from [Options.Poll]: with the defaults they take 30 s.
const maxAttempts = 5

// ask sends a request to CloudFormation, and repeats it if it was throttled, failed in the
// service, or got no answer in time. Each may be repeated: it reads, or a token or its name makes
// the second one harmless. A service that has never answered is not slow, but not there: the
// first failure ends.
func ask[In, Out any](
	ctx context.Context, m *Manager, call func(context.Context, In, ...func(*cloudformation.Options)) (Out, error), in In,
) (out Out, err error) {
	pace := m.newPause()
	for attempt := 1; ; attempt++ {
		within, cancel := context.WithTimeout(ctx, m.o.CallTimeout)
		out, err = call(within, in)
		cancel()
		if err == nil || codeOf(err) != "" {
			m.answered.Store(true)
		}
		if err == nil || attempt == maxAttempts || !m.isPassing(ctx, err) {
			return out, err
		}
		if pace.wait(ctx) != nil {
			return out, err
		}
		pace.slower()
	}
}

// isPassing reports whether an error may be gone at the next attempt.
func (m *Manager) isPassing(ctx context.Context, err error) bool {
	api := smithy.APIError(nil)
	switch {
	case ctx.Err() != nil:
		return false
	case !errors.As(err, &api):
		return m.answered.Load()
	}
	return slices.Contains(throttled, api.ErrorCode()) || api.ErrorFault() == smithy.FaultServer && !slices.Contains(unknown, api.ErrorCode())
}
