package cfntest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	taggingtypes "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/template"
)

// A form is what a stack is made from.
type form struct {
	body             string
	template         *template.Template
	parameters, tags map[string]string
	outputs          map[string]string
}

// A resource is a resource with its properties evaluated.
type resource struct {
	template.Resource
	physical string
	values   map[string]any // the properties
	status   types.ResourceStatus
	reason   string
}

// A stack is a stack with its history.
type stack struct {
	cloud            *Cloud
	name, id         string
	status, reason   string
	created, updated time.Time
	protected        bool
	form             form
	resources        map[string]resource
	order            []string // of the resources, as they were made
	events           []types.StackEvent
	changeSets       []*changeSet
	op               *operation
	// proceed fills an operation with what remains of a rollback that failed, nil if there is
	// nothing to continue.
	proceed func(skip []string)
}

func (c *Cloud) newStack(name string) *stack {
	s := &stack{
		cloud: c, name: name, created: c.o.Now(), resources: map[string]resource{},
		id: fmt.Sprintf("arn:aws:cloudformation:%s:%s:stack/%s/%s", Region, Account, name, "00000000-0000-0000-0000-00000000000"+c.next()),
	}
	c.stacks = append(c.stacks, s)
	return s
}

// turn gives the stack a status, with its event.
func (s *stack) turn(at time.Time, status types.StackStatus, reason, token string) {
	s.status, s.reason = string(status), reason
	s.event(at, s.name, s.id, "AWS::CloudFormation::Stack", types.ResourceStatus(status), reason, token)
}

// change gives a resource a status, with its event.
func (s *stack) change(at time.Time, r resource, status types.ResourceStatus, reason string) {
	if has, ok := s.resources[r.ID]; ok && has.physical == r.physical {
		has.status, has.reason = status, reason
		s.resources[r.ID] = has
	}
	s.event(at, r.ID, r.physical, r.Type, status, reason, s.op.token)
}

// optional is a text, nil for none.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (s *stack) event(at time.Time, id, physical, kind string, status types.ResourceStatus, reason, token string) {
	s.events = append(s.events, types.StackEvent{
		StackId: &s.id, StackName: &s.name, EventId: aws.String(fmt.Sprintf("%s-%s-%d", id, status, len(s.events))), Timestamp: &at,
		LogicalResourceId: &id, PhysicalResourceId: &physical, ResourceType: &kind, ResourceStatus: status,
		ResourceStatusReason: optional(reason), ClientRequestToken: optional(token),
	})
}

// put adds a resource or replaces its form.
func (s *stack) put(r resource) {
	if _, ok := s.resources[r.ID]; !ok {
		s.order = append(s.order, r.ID)
	}
	s.resources[r.ID] = r
}

func (s *stack) drop(id string) {
	delete(s.resources, id)
	s.order = slices.DeleteFunc(s.order, func(o string) bool { return o == id })
}

// stack finds a stack, or fails as AWS does.
func (c *Cloud) stack(name *string) (*stack, error) {
	if s := c.live(aws.ToString(name)); s != nil {
		return s, nil
	}
	return nil, invalid("Stack with id %s does not exist", aws.ToString(name))
}

// DescribeStacks shows one stack, or pages of all that are not deleted.
func (c *Cloud) DescribeStacks(_ context.Context, in *cloudformation.DescribeStacksInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeStacksOutput, error) {
	return call(c, "DescribeStacks", func() (*cloudformation.DescribeStacksOutput, error) {
		if in.StackName != nil {
			s, err := c.stack(in.StackName)
			if err != nil {
				return nil, err
			}
			return &cloudformation.DescribeStacksOutput{Stacks: []types.Stack{s.describe()}}, nil
		}
		var all []types.Stack
		for _, s := range c.stacks {
			if s.status != string(types.StackStatusDeleteComplete) {
				all = append(all, s.describe())
			}
		}
		part, next, err := page(all, c.o.Page, in.NextToken)
		return &cloudformation.DescribeStacksOutput{Stacks: part, NextToken: next}, err
	})
}

func (s *stack) describe() types.Stack {
	d := types.Stack{
		StackId: &s.id, StackName: &s.name, StackStatus: types.StackStatus(s.status), CreationTime: aws.Time(s.created),
		EnableTerminationProtection: aws.Bool(s.protected), StackStatusReason: optional(s.reason),
	}
	if !s.updated.IsZero() {
		d.LastUpdatedTime = aws.Time(s.updated)
	}
	for _, k := range slices.Sorted(maps.Keys(s.form.parameters)) {
		d.Parameters = append(d.Parameters, types.Parameter{ParameterKey: &k, ParameterValue: aws.String(s.form.parameters[k])})
	}
	for _, k := range slices.Sorted(maps.Keys(s.form.outputs)) {
		d.Outputs = append(d.Outputs, types.Output{OutputKey: &k, OutputValue: aws.String(s.form.outputs[k])})
	}
	for _, k := range slices.Sorted(maps.Keys(s.form.tags)) {
		d.Tags = append(d.Tags, types.Tag{Key: &k, Value: aws.String(s.form.tags[k])})
	}
	return d
}

// DescribeStackEvents shows pages of events, the newest first.
func (c *Cloud) DescribeStackEvents(_ context.Context, in *cloudformation.DescribeStackEventsInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeStackEventsOutput, error) {
	return call(c, "DescribeStackEvents", func() (*cloudformation.DescribeStackEventsOutput, error) {
		s, err := c.stack(in.StackName)
		if err != nil {
			return nil, err
		}
		newest := slices.Clone(s.events)
		slices.Reverse(newest)
		part, next, err := page(newest, c.o.Page, in.NextToken)
		return &cloudformation.DescribeStackEventsOutput{StackEvents: part, NextToken: next}, err
	})
}

// DescribeStackResources shows the resources of a stack.
func (c *Cloud) DescribeStackResources(_ context.Context, in *cloudformation.DescribeStackResourcesInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeStackResourcesOutput, error) {
	return call(c, "DescribeStackResources", func() (*cloudformation.DescribeStackResourcesOutput, error) {
		s, err := c.stack(in.StackName)
		if err != nil {
			return nil, err
		}
		out := &cloudformation.DescribeStackResourcesOutput{}
		for _, id := range s.order {
			r := s.resources[id]
			out.StackResources = append(out.StackResources, types.StackResource{
				StackId: &s.id, StackName: &s.name, LogicalResourceId: &r.ID, PhysicalResourceId: &r.physical,
				ResourceType: &r.Type, ResourceStatus: r.status, ResourceStatusReason: optional(r.reason), Timestamp: aws.Time(c.o.Now()),
			})
		}
		return out, nil
	})
}

// GetTemplate returns the template as it was sent.
func (c *Cloud) GetTemplate(_ context.Context, in *cloudformation.GetTemplateInput, _ ...func(*cloudformation.Options)) (*cloudformation.GetTemplateOutput, error) {
	return call(c, "GetTemplate", func() (*cloudformation.GetTemplateOutput, error) {
		s, err := c.stack(in.StackName)
		if err != nil {
			return nil, err
		}
		return &cloudformation.GetTemplateOutput{TemplateBody: &s.form.body}, nil
	})
}

// GetTemplateSummary shows the parameters of a template.
func (c *Cloud) GetTemplateSummary(_ context.Context, in *cloudformation.GetTemplateSummaryInput, _ ...func(*cloudformation.Options)) (*cloudformation.GetTemplateSummaryOutput, error) {
	return call(c, "GetTemplateSummary", func() (*cloudformation.GetTemplateSummaryOutput, error) {
		t, err := parse(in.TemplateBody)
		if in.StackName != nil {
			s, missing := c.stack(in.StackName)
			if missing != nil || s.form.template == nil {
				return nil, invalid("Stack [%s] has no template", *in.StackName)
			}
			t = s.form.template
		}
		if err != nil {
			return nil, err
		}
		out := &cloudformation.GetTemplateSummaryOutput{}
		for _, name := range slices.Sorted(maps.Keys(t.Section("Parameters"))) {
			out.Parameters = append(out.Parameters, types.ParameterDeclaration{ParameterKey: &name})
		}
		return out, nil
	})
}

// DeleteStack starts to delete a stack. One that does not exist is deleted.
func (c *Cloud) DeleteStack(_ context.Context, in *cloudformation.DeleteStackInput, _ ...func(*cloudformation.Options)) (*cloudformation.DeleteStackOutput, error) {
	return once(c, "DeleteStack", in.ClientRequestToken, func() (*cloudformation.DeleteStackOutput, error) { //nolint:contextcheck // the operation outlives its request
		s := c.live(aws.ToString(in.StackName))
		switch {
		case s == nil, s.status == string(types.StackStatusDeleteComplete):
		case s.protected:
			return nil, invalid("Stack [%s] cannot be deleted while TerminationProtection is enabled", s.name)
		case s.op != nil && s.status != string(types.StackStatusCreateInProgress):
			return nil, invalid("Stack [%s] cannot be deleted while in status %s", s.name, s.status)
		default:
			s.startDelete(in.RetainResources, aws.ToString(in.ClientRequestToken))
		}
		return &cloudformation.DeleteStackOutput{}, nil
	})
}

// GetResources finds stacks by their tags, deleted ones for some time, too.
func (c *Cloud) GetResources(_ context.Context, in *resourcegroupstaggingapi.GetResourcesInput, _ ...func(*resourcegroupstaggingapi.Options)) (*resourcegroupstaggingapi.GetResourcesOutput, error) {
	return call(c, "GetResources", func() (*resourcegroupstaggingapi.GetResourcesOutput, error) {
		var all []taggingtypes.ResourceTagMapping
		for _, s := range c.stacks {
			if !slices.ContainsFunc(in.TagFilters, func(f taggingtypes.TagFilter) bool { return !slices.Contains(f.Values, s.form.tags[*f.Key]) }) {
				all = append(all, taggingtypes.ResourceTagMapping{ResourceARN: &s.id})
			}
		}
		part, next, err := page(all, c.o.Page, optional(aws.ToString(in.PaginationToken)))
		return &resourcegroupstaggingapi.GetResourcesOutput{ResourceTagMappingList: part, PaginationToken: next}, err
	})
}
