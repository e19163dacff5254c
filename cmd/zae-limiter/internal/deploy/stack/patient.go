package stack

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/smithy-go"
)

// maxAttempts is how often a request to CloudFormation is sent. The pauses between the attempts
// double, from [Options.Poll]: with the defaults they take 30 s.
const maxAttempts = 5

// A patient repeats requests to CloudFormation that were throttled, failed in the service, or
// got no answer in time. Each may be repeated: it reads, or a token or its name makes the
// second one harmless. A service that has never answered is not slow, but not there: the first
// failure ends.
type patient struct {
	cf       CloudFormation
	m        *Manager
	answered atomic.Bool
}

// ask sends a request, again if that may help.
func ask[In, Out any](
	ctx context.Context, p *patient, in In, options []func(*cloudformation.Options),
	call func(context.Context, In, ...func(*cloudformation.Options)) (Out, error),
) (out Out, err error) {
	pace := p.m.newPause()
	for attempt := 1; ; attempt++ {
		within, cancel := context.WithTimeout(ctx, p.m.o.CallTimeout)
		out, err = call(within, in, options...)
		cancel()
		if err == nil || codeOf(err) != "" {
			p.answered.Store(true)
		}
		if err == nil || attempt == maxAttempts || !p.isPassing(ctx, err) {
			return out, err
		}
		if pace.wait(ctx) != nil {
			return out, err
		}
		pace.slower()
	}
}

// isPassing reports whether an error may be gone at the next attempt.
func (p *patient) isPassing(ctx context.Context, err error) bool {
	api := smithy.APIError(nil)
	switch {
	case ctx.Err() != nil:
		return false
	case !errors.As(err, &api):
		return p.answered.Load()
	}
	return slices.Contains(throttled, api.ErrorCode()) || api.ErrorFault() == smithy.FaultServer && !slices.Contains(unknown, api.ErrorCode())
}

func (p *patient) DescribeStacks(ctx context.Context, in *cloudformation.DescribeStacksInput, o ...func(*cloudformation.Options)) (*cloudformation.DescribeStacksOutput, error) {
	return ask(ctx, p, in, o, p.cf.DescribeStacks)
}

func (p *patient) DescribeStackEvents(ctx context.Context, in *cloudformation.DescribeStackEventsInput, o ...func(*cloudformation.Options)) (*cloudformation.DescribeStackEventsOutput, error) {
	return ask(ctx, p, in, o, p.cf.DescribeStackEvents)
}

func (p *patient) DescribeStackResources(ctx context.Context, in *cloudformation.DescribeStackResourcesInput, o ...func(*cloudformation.Options)) (*cloudformation.DescribeStackResourcesOutput, error) {
	return ask(ctx, p, in, o, p.cf.DescribeStackResources)
}

func (p *patient) GetTemplate(ctx context.Context, in *cloudformation.GetTemplateInput, o ...func(*cloudformation.Options)) (*cloudformation.GetTemplateOutput, error) {
	return ask(ctx, p, in, o, p.cf.GetTemplate)
}

func (p *patient) GetTemplateSummary(ctx context.Context, in *cloudformation.GetTemplateSummaryInput, o ...func(*cloudformation.Options)) (*cloudformation.GetTemplateSummaryOutput, error) {
	return ask(ctx, p, in, o, p.cf.GetTemplateSummary)
}

func (p *patient) DeleteStack(ctx context.Context, in *cloudformation.DeleteStackInput, o ...func(*cloudformation.Options)) (*cloudformation.DeleteStackOutput, error) {
	return ask(ctx, p, in, o, p.cf.DeleteStack)
}

func (p *patient) CreateChangeSet(ctx context.Context, in *cloudformation.CreateChangeSetInput, o ...func(*cloudformation.Options)) (*cloudformation.CreateChangeSetOutput, error) {
	return ask(ctx, p, in, o, p.cf.CreateChangeSet)
}

func (p *patient) DescribeChangeSet(ctx context.Context, in *cloudformation.DescribeChangeSetInput, o ...func(*cloudformation.Options)) (*cloudformation.DescribeChangeSetOutput, error) {
	return ask(ctx, p, in, o, p.cf.DescribeChangeSet)
}

func (p *patient) ExecuteChangeSet(ctx context.Context, in *cloudformation.ExecuteChangeSetInput, o ...func(*cloudformation.Options)) (*cloudformation.ExecuteChangeSetOutput, error) {
	return ask(ctx, p, in, o, p.cf.ExecuteChangeSet)
}

func (p *patient) DeleteChangeSet(ctx context.Context, in *cloudformation.DeleteChangeSetInput, o ...func(*cloudformation.Options)) (*cloudformation.DeleteChangeSetOutput, error) {
	return ask(ctx, p, in, o, p.cf.DeleteChangeSet)
}

func (p *patient) ListChangeSets(ctx context.Context, in *cloudformation.ListChangeSetsInput, o ...func(*cloudformation.Options)) (*cloudformation.ListChangeSetsOutput, error) {
	return ask(ctx, p, in, o, p.cf.ListChangeSets)
}

func (p *patient) CancelUpdateStack(ctx context.Context, in *cloudformation.CancelUpdateStackInput, o ...func(*cloudformation.Options)) (*cloudformation.CancelUpdateStackOutput, error) {
	return ask(ctx, p, in, o, p.cf.CancelUpdateStack)
}

func (p *patient) ContinueUpdateRollback(ctx context.Context, in *cloudformation.ContinueUpdateRollbackInput, o ...func(*cloudformation.Options)) (*cloudformation.ContinueUpdateRollbackOutput, error) {
	return ask(ctx, p, in, o, p.cf.ContinueUpdateRollback)
}
