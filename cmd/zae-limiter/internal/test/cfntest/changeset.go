package cfntest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// A changeSet is a computed change, which was made from the stack as it was then.
type changeSet struct {
	id, name, token   string
	kind              types.ChangeSetType
	status            types.ChangeSetStatus
	reason            string
	execution         types.ExecutionStatus
	form              form
	wanted            []resource
	changes           []types.Change
	imports           []types.ResourceToImport
	seen              bool // somebody has looked at it
	executionRequests map[string]bool
}

var changeSetName = regexp.MustCompile(`^[a-zA-Z][-a-zA-Z0-9]{0,127}$`)

const maxTags = 50

// noChange is AWS's reason for a change set without changes.
const noChange = "The submitted information didn't contain changes. Submit different information to create a change set."

// CreateChangeSet computes a change set.
func (c *Cloud) CreateChangeSet(_ context.Context, in *cloudformation.CreateChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.CreateChangeSetOutput, error) {
	return call(c, "CreateChangeSet", func() (*cloudformation.CreateChangeSetOutput, error) { //nolint:contextcheck // what is in the account does not hang on a request
		name := aws.ToString(in.ChangeSetName)
		if !changeSetName.MatchString(name) {
			return nil, invalid("1 validation error detected: Value '%s' at 'changeSetName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z][-a-zA-Z0-9]*", name)
		}
		s := c.live(aws.ToString(in.StackName))
		switch cs := s.changeSet(name); {
		case cs != nil && cs.token != "" && cs.token == aws.ToString(in.ClientToken):
			return &cloudformation.CreateChangeSetOutput{Id: &cs.id, StackId: &s.id}, nil
		case cs != nil:
			return nil, &types.AlreadyExistsException{Message: aws.String("ChangeSet " + name + " already exists")}
		}
		if err := c.changeable(in, s); err != nil {
			return nil, err
		}
		f, err := c.requestedForm(in, s)
		if err != nil {
			return nil, err
		}
		if err := importable(in, f.template); err != nil {
			return nil, err
		}
		if s == nil {
			s = c.newStack(aws.ToString(in.StackName))
			s.turn(c.o.Now(), types.StackStatusReviewInProgress, "User Initiated", "")
		}
		cs := &changeSet{
			name: name, token: aws.ToString(in.ClientToken), kind: in.ChangeSetType, form: f, imports: in.ResourcesToImport, executionRequests: map[string]bool{},
			id: fmt.Sprintf("arn:aws:cloudformation:%s:%s:changeSet/%s/%s", Region, Account, name, c.next()),
		}
		s.changeSets = append(s.changeSets, cs)
		s.compute(cs)
		return &cloudformation.CreateChangeSetOutput{Id: &cs.id, StackId: &s.id}, nil
	})
}

// changeSet is the change set of a name, nil if there is none.
func (s *stack) changeSet(name string) *changeSet {
	if s == nil {
		return nil
	}
	for _, cs := range s.changeSets {
		if cs.name == name {
			return cs
		}
	}
	return nil
}

// changeable refuses a change set that the state of the stack does not allow.
func (c *Cloud) changeable(in *cloudformation.CreateChangeSetInput, s *stack) error {
	name := aws.ToString(in.StackName)
	switch {
	case in.ChangeSetType == types.ChangeSetTypeCreate && s != nil && s.status != string(types.StackStatusReviewInProgress):
		return invalid("Stack [%s] already exists and cannot be created again with the changeSet [%s].", name, aws.ToString(in.ChangeSetName))
	case in.ChangeSetType == types.ChangeSetTypeCreate,
		in.ChangeSetType == types.ChangeSetTypeImport && (s == nil || s.status == string(types.StackStatusReviewInProgress)):
		return nil
	case s == nil:
		return invalid("Stack [%s] does not exist", name)
	}
	switch types.StackStatus(s.status) {
	case types.StackStatusCreateComplete, types.StackStatusUpdateComplete, types.StackStatusUpdateRollbackComplete,
		types.StackStatusUpdateFailed, types.StackStatusImportComplete, types.StackStatusImportRollbackComplete:
		return nil
	default:
		return invalid("Stack:%s is in %s state and can not be updated.", s.id, s.status)
	}
}

// requestedForm checks the template, parameters, tags and capabilities of a request.
func (c *Cloud) requestedForm(in *cloudformation.CreateChangeSetInput, s *stack) (f form, err error) {
	switch {
	case aws.ToBool(in.UsePreviousTemplate) && in.TemplateBody == nil && s != nil && s.form.template != nil:
		f.template = s.form.template
	case aws.ToBool(in.UsePreviousTemplate) || in.TemplateBody == nil:
		return f, invalid("Either Template URL or Template Body must be specified.")
	default:
		if f.template, err = parse(*in.TemplateBody); err != nil {
			return f, err
		}
	}
	var previous map[string]string
	if s != nil {
		previous = s.form.parameters
	}
	if f.parameters, err = f.template.resolve(in.Parameters, previous); err != nil {
		return f, err
	}
	if f.tags, err = tagsOf(in.Tags); err != nil {
		return f, err
	}
	for _, r := range f.template.resources {
		if strings.HasPrefix(r.kind, "AWS::IAM::") && !slices.Contains(in.Capabilities, types.CapabilityCapabilityNamedIam) {
			return f, &types.InsufficientCapabilitiesException{Message: aws.String("Requires capabilities : [CAPABILITY_NAMED_IAM]")}
		}
	}
	return f, nil
}

func tagsOf(tags []types.Tag) (map[string]string, error) {
	if len(tags) > maxTags {
		return nil, invalid("1 validation error detected: Value at 'tags' failed to satisfy constraint: Member must have length less than or equal to 50")
	}
	all := map[string]string{}
	for _, t := range tags {
		if strings.HasPrefix(aws.ToString(t.Key), "aws:") {
			return nil, invalid("Tag keys starting with 'aws:' are reserved for system use")
		}
		all[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return all, nil
}

// compute finds what a change set changes.
func (s *stack) compute(cs *changeSet) {
	cs.status, cs.execution = types.ChangeSetStatusFailed, types.ExecutionStatusUnavailable
	sc := &scope{template: cs.form.template, stack: s, parameters: cs.form.parameters, physical: map[string]resource{}, imports: cs.imports}
	wanted, err := sc.plan(s.cloud, s.resources)
	if err != nil {
		cs.reason = message(err)
		return
	}
	if cs.kind == types.ChangeSetTypeImport {
		s.computeImport(cs, wanted)
		return
	}
	retag := cs.kind == types.ChangeSetTypeUpdate && !reflect.DeepEqual(cs.form.tags, s.form.tags)
	for _, r := range wanted {
		was, exists := s.resources[r.id]
		if exists && was.kind != r.kind {
			cs.reason = "Update of resource type is not permitted. The new template modifies resource type of the following resources: [" + r.id + "]"
			return
		}
		if change, ok := changeOf(was, r, exists, retag); ok {
			cs.changes = append(cs.changes, change)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.resources)) {
		if !slices.ContainsFunc(wanted, func(r resource) bool { return r.id == id }) {
			cs.changes = append(cs.changes, removalOf(s.resources[id]))
		}
	}
	if len(cs.changes) == 0 && !retag && reflect.DeepEqual(cs.form.template.outputs, s.outputsDeclared()) {
		cs.reason = noChange
		return
	}
	cs.wanted, cs.status, cs.execution = wanted, types.ChangeSetStatusCreateComplete, types.ExecutionStatusAvailable
}

func (s *stack) outputsDeclared() map[string]any {
	if s.form.template == nil {
		return nil
	}
	return s.form.template.outputs
}

func changeOf(was, r resource, exists, retag bool) (types.Change, bool) {
	change := &types.ResourceChange{LogicalResourceId: &r.id, ResourceType: &r.kind, Action: types.ChangeActionAdd}
	if exists {
		change.Action, change.PhysicalResourceId = types.ChangeActionModify, &was.physical
		change.Details = details(was, r)
		if retag && len(change.Details) == 0 {
			change.Details = append(change.Details, tagsChange())
		}
		if len(change.Details) == 0 {
			return types.Change{}, false
		}
		change.Replacement = replacement(change.Details)
		for _, d := range change.Details {
			if !slices.Contains(change.Scope, d.Target.Attribute) {
				change.Scope = append(change.Scope, d.Target.Attribute)
			}
		}
	}
	return types.Change{Type: types.ChangeTypeResource, ResourceChange: change}, true
}

func removalOf(r resource) types.Change {
	policy := types.PolicyActionDelete
	if retainOnDelete(r.deletion) == "Retain" {
		policy = types.PolicyActionRetain
	}
	return types.Change{Type: types.ChangeTypeResource, ResourceChange: &types.ResourceChange{
		Action: types.ChangeActionRemove, LogicalResourceId: &r.id, PhysicalResourceId: &r.physical, ResourceType: &r.kind, PolicyAction: policy,
	}}
}

// find is the change set of a name or ARN.
func (c *Cloud) find(name, stackName *string) (*stack, *changeSet, error) {
	for _, s := range c.stacks {
		for _, cs := range s.changeSets {
			if cs.id == aws.ToString(name) || cs.name == aws.ToString(name) && (s.name == aws.ToString(stackName) || s.id == aws.ToString(stackName)) {
				return s, cs, nil
			}
		}
	}
	return nil, nil, &types.ChangeSetNotFoundException{Message: aws.String("ChangeSet [" + aws.ToString(name) + "] does not exist")}
}

// DescribeChangeSet shows a change set.
func (c *Cloud) DescribeChangeSet(_ context.Context, in *cloudformation.DescribeChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeChangeSetOutput, error) {
	return call(c, "DescribeChangeSet", func() (*cloudformation.DescribeChangeSetOutput, error) {
		s, cs, err := c.find(in.ChangeSetName, in.StackName)
		if err != nil {
			return nil, err
		}
		out := &cloudformation.DescribeChangeSetOutput{
			ChangeSetId: &cs.id, ChangeSetName: &cs.name, StackId: &s.id, StackName: &s.name,
			Status: types.ChangeSetStatusCreateInProgress, ExecutionStatus: types.ExecutionStatusUnavailable,
		}
		if !cs.seen && c.o.LateChangeSets {
			cs.seen = true
			return out, nil
		}
		out.Status, out.ExecutionStatus = cs.status, cs.execution
		if cs.reason != "" {
			out.StatusReason = &cs.reason
		}
		out.Changes, out.NextToken, err = page(cs.changes, c.o.Page, in.NextToken)
		return out, err
	})
}

// ExecuteChangeSet starts the operation of a change set and makes the others of the stack
// obsolete.
func (c *Cloud) ExecuteChangeSet(_ context.Context, in *cloudformation.ExecuteChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.ExecuteChangeSetOutput, error) {
	return call(c, "ExecuteChangeSet", func() (*cloudformation.ExecuteChangeSetOutput, error) { //nolint:contextcheck // the operation outlives its request
		s, cs, err := c.find(in.ChangeSetName, in.StackName)
		if err != nil {
			return nil, err
		}
		token := aws.ToString(in.ClientRequestToken)
		if token != "" && cs.executionRequests[token] {
			return &cloudformation.ExecuteChangeSetOutput{}, nil
		}
		if cs.execution != types.ExecutionStatusAvailable {
			return nil, &types.InvalidChangeSetStatusException{Message: aws.String(fmt.Sprintf(
				"ChangeSet [%s] cannot be executed in its current execution status of [%s]", cs.id, cs.execution))}
		}
		if s.running() {
			return nil, invalid("Stack:%s is in %s state and can not be updated.", s.id, s.status)
		}
		cs.executionRequests[token] = true
		for _, other := range s.changeSets {
			if other != cs && other.execution == types.ExecutionStatusAvailable {
				other.execution = types.ExecutionStatusObsolete
			}
		}
		cs.execution = types.ExecutionStatusExecuteComplete
		switch cs.kind {
		case types.ChangeSetTypeCreate:
			s.startCreate(cs.form, cs.wanted, token)
		case types.ChangeSetTypeImport:
			s.startImport(cs.form, cs.wanted, token)
		default:
			s.startUpdate(cs.form, cs.wanted, token)
		}
		return &cloudformation.ExecuteChangeSetOutput{}, nil
	})
}

// DeleteChangeSet deletes a change set, and succeeds if it is gone.
func (c *Cloud) DeleteChangeSet(_ context.Context, in *cloudformation.DeleteChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.DeleteChangeSetOutput, error) {
	return call(c, "DeleteChangeSet", func() (*cloudformation.DeleteChangeSetOutput, error) {
		if s, cs, err := c.find(in.ChangeSetName, in.StackName); err == nil {
			s.changeSets = slices.DeleteFunc(s.changeSets, func(other *changeSet) bool { return other == cs })
		}
		return &cloudformation.DeleteChangeSetOutput{}, nil
	})
}

// ListChangeSets lists the change sets of a stack.
func (c *Cloud) ListChangeSets(_ context.Context, in *cloudformation.ListChangeSetsInput, _ ...func(*cloudformation.Options)) (*cloudformation.ListChangeSetsOutput, error) {
	return call(c, "ListChangeSets", func() (*cloudformation.ListChangeSetsOutput, error) {
		s := c.live(aws.ToString(in.StackName))
		if s == nil {
			return nil, invalid("Stack [%s] does not exist", aws.ToString(in.StackName))
		}
		out := &cloudformation.ListChangeSetsOutput{}
		for _, cs := range s.changeSets {
			out.Summaries = append(out.Summaries, types.ChangeSetSummary{ChangeSetId: &cs.id, ChangeSetName: &cs.name, Status: cs.status, ExecutionStatus: cs.execution})
		}
		return out, nil
	})
}
