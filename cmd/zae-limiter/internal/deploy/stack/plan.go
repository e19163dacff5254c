package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Plan is a change set that CloudFormation has computed and nobody has executed.
type Plan struct {
	Stack   string
	StackID string
	// Creates says that the stack has no resources yet.
	Creates bool
	// Continues says that the plan is the second part of a deployment: it adds the functions
	// to a stack that the first part made.
	Continues bool
	// Changes are in CloudFormation's order. There are none if the stack is as it should be.
	Changes []Change
	// Later says what the deployment does after this plan and why it is not planned yet; ""
	// if this plan is all.
	Later string

	changeSet string // its ARN; "" if there is nothing to execute
	shell     bool   // this plan made the empty stack that the change set is in
}

// Empty reports whether there is nothing to execute.
func (p *Plan) Empty() bool { return p.changeSet == "" }

// Plan asks CloudFormation for the changes that bring a stack to a spec. The result waits to
// be executed or discarded. For a stack that does not exist, CloudFormation makes an empty
// one in the state REVIEW_IN_PROGRESS.
//
// Plan fails with a [*StateError] if the state of the stack allows no change, and with a
// [*ReplacementError] if the change would lose data. It fails with a [*ChangeSetError] if
// CloudFormation cannot compute the change. It then leaves no change set.
func (m *Manager) Plan(ctx context.Context, s Spec) (*Plan, error) { return m.plan(ctx, s, nil) }

// plan is [Manager.Plan], or with imports the plan to import these resources.
func (m *Manager) plan(ctx context.Context, s Spec, imports []types.ResourceToImport) (*Plan, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	const looks = 2 // a second look finds a stack that somebody made after the first
	var refused error
	for range looks {
		p, err := m.propose(ctx, s, imports)
		if codeOf(err) != "ValidationError" && codeOf(err) != "AlreadyExistsException" {
			return p, err
		}
		refused = err
	}
	return nil, refused
}

// propose makes one change set from one look at the stack.
func (m *Manager) propose(ctx context.Context, s Spec, imports []types.ResourceToImport) (*Plan, error) {
	live, err := m.Find(ctx, s.Name)
	absent := errors.Is(err, store.ErrNotFound)
	switch {
	case absent && s.Template != "":
		live = &Stack{Name: s.Name, Status: string(types.StackStatusReviewInProgress)}
	case err != nil:
		return nil, err
	}
	creates, err := checkChangeable(live)
	if err != nil {
		return nil, err
	}
	in, err := m.changeSetInput(ctx, s, live, creates)
	if err != nil {
		return nil, err
	}
	if len(imports) > 0 {
		in.ChangeSetType, in.ResourcesToImport = types.ChangeSetTypeImport, imports
	}
	out, err := ask(ctx, m, m.cf.CreateChangeSet, in)
	if err != nil {
		return nil, translate("plan stack "+s.Name, err)
	}
	p := &Plan{Stack: s.Name, StackID: aws.ToString(out.StackId), Creates: creates || len(imports) > 0, changeSet: aws.ToString(out.Id), shell: absent}
	if err := m.complete(ctx, p); err != nil {
		return nil, m.discarded(ctx, p, err)
	}
	if err := checkDataLoss(s.Name, p.Changes, s.AllowReplacement); err != nil {
		return nil, m.discarded(ctx, p, err)
	}
	return p, nil
}

func (m *Manager) changeSetInput(ctx context.Context, s Spec, live *Stack, creates bool) (*cloudformation.CreateChangeSetInput, error) {
	parameters, err := m.parameters(ctx, s, live)
	if err != nil {
		return nil, err
	}
	tags, err := s.tags(live)
	if err != nil {
		return nil, err
	}
	token := newToken()
	in := &cloudformation.CreateChangeSetInput{
		StackName: &s.Name, ChangeSetName: &token, ClientToken: &token, ChangeSetType: types.ChangeSetTypeUpdate,
		Parameters: parameters, Tags: tags,
		Capabilities: []types.Capability{types.CapabilityCapabilityNamedIam},
	}
	if creates {
		in.ChangeSetType = types.ChangeSetTypeCreate
	}
	if s.Template == "" {
		in.UsePreviousTemplate = aws.Bool(true)
	} else {
		in.TemplateBody = &s.Template
	}
	return in, nil
}

// complete waits until the change set is computed, and reads its changes. A change set
// without changes is discarded.
func (m *Manager) complete(ctx context.Context, p *Plan) error {
	for pace := m.newPause(); ; {
		out, err := ask(ctx, m, m.cf.DescribeChangeSet, &cloudformation.DescribeChangeSetInput{ChangeSetName: &p.changeSet, StackName: &p.StackID})
		err = translate("plan stack "+p.Stack, err)
		switch {
		case err != nil:
			return err
		case out.Status == types.ChangeSetStatusCreateComplete:
			return m.readChanges(ctx, p, out)
		case out.Status == types.ChangeSetStatusFailed && isNoChange(aws.ToString(out.StatusReason)):
			return m.Discard(ctx, p)
		case out.Status == types.ChangeSetStatusFailed:
			return &ChangeSetError{p.Stack, aws.ToString(out.StatusReason)}
		default: // it is under way
		}
		if err := pace.wait(ctx); err != nil {
			return fmt.Errorf("plan stack %s: %w", p.Stack, err)
		}
	}
}

// isNoChange reports whether a change set failed because there is nothing to change. Only
// the text says so.
func isNoChange(reason string) bool {
	return strings.Contains(reason, "didn't contain changes") || strings.Contains(reason, "No updates are to be performed")
}

// readChanges collects the pages of a computed change set.
func (m *Manager) readChanges(ctx context.Context, p *Plan, page *cloudformation.DescribeChangeSetOutput) error {
	for {
		for _, c := range page.Changes {
			if c.ResourceChange != nil {
				p.Changes = append(p.Changes, changeOf(c.ResourceChange))
			}
		}
		if page.NextToken == nil {
			return nil
		}
		var err error
		page, err = ask(ctx, m, m.cf.DescribeChangeSet, &cloudformation.DescribeChangeSetInput{
			ChangeSetName: &p.changeSet, StackName: &p.StackID, NextToken: page.NextToken,
		})
		if err != nil {
			return translate("plan stack "+p.Stack, err)
		}
	}
}

// discarded discards a plan after an error, also if the caller has stopped waiting. It
// returns that error, with the one of the discarding if there is one.
func (m *Manager) discarded(ctx context.Context, p *Plan, err error) error {
	return errors.Join(err, m.Discard(context.WithoutCancel(ctx), p))
}

// Discard deletes the change set of a plan. It also deletes the empty stack that the plan
// made, if no other change set is in it.
func (m *Manager) Discard(ctx context.Context, p *Plan) error {
	if p.Empty() {
		return nil
	}
	op := "discard the plan of stack " + p.Stack
	if _, err := ask(ctx, m, m.cf.DeleteChangeSet, &cloudformation.DeleteChangeSetInput{ChangeSetName: &p.changeSet, StackName: &p.StackID}); err != nil {
		return translate(op, err)
	}
	p.changeSet = ""
	if !p.shell {
		return nil
	}
	live, err := m.Find(ctx, p.StackID)
	if err != nil || live.Status != string(types.StackStatusReviewInProgress) {
		return err
	}
	others, err := ask(ctx, m, m.cf.ListChangeSets, &cloudformation.ListChangeSetsInput{StackName: &p.StackID})
	if err != nil || len(others.Summaries) > 0 {
		return translate(op, err)
	}
	_, err = ask(ctx, m, m.cf.DeleteStack, &cloudformation.DeleteStackInput{StackName: &p.StackID})
	return translate(op, err)
}
