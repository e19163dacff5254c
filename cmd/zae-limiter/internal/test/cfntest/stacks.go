package cfntest

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	taggingtypes "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi/types"
)

// find a stack, or fail as AWS does.
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
		EnableTerminationProtection: aws.Bool(s.protected),
	}
	if s.reason != "" {
		d.StackStatusReason = aws.String(s.reason)
	}
	if !s.updated.IsZero() {
		d.LastUpdatedTime = aws.Time(s.updated)
	}
	for _, k := range slices.Sorted(maps.Keys(s.form.parameters)) {
		d.Parameters = append(d.Parameters, types.Parameter{ParameterKey: aws.String(k), ParameterValue: aws.String(s.form.parameters[k])})
	}
	for _, k := range slices.Sorted(maps.Keys(s.outputs)) {
		d.Outputs = append(d.Outputs, types.Output{OutputKey: aws.String(k), OutputValue: aws.String(s.outputs[k])})
	}
	for _, k := range slices.Sorted(maps.Keys(s.form.tags)) {
		d.Tags = append(d.Tags, types.Tag{Key: aws.String(k), Value: aws.String(s.form.tags[k])})
	}
	return d
}

// DescribeStackEvents shows pages of events, the newest first.
func (c *Cloud) DescribeStackEvents(_ context.Context, in *cloudformation.DescribeStackEventsInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeStackEventsOutput, error) {
	return call(c, "DescribeStackEvents", func() (*cloudformation.DescribeStackEventsOutput, error) {
		s, err := c.stack(in.StackName)
		if err != nil {
			return nil, invalid("Stack [%s] does not exist", aws.ToString(in.StackName))
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
			d := types.StackResource{
				StackId: &s.id, StackName: &s.name, LogicalResourceId: &r.id, PhysicalResourceId: &r.physical,
				ResourceType: &r.kind, ResourceStatus: r.status, Timestamp: aws.Time(c.o.Now()),
			}
			if r.reason != "" {
				d.ResourceStatusReason = &r.reason
			}
			out.StackResources = append(out.StackResources, d)
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
		if s.form.template == nil {
			return &cloudformation.GetTemplateOutput{}, nil
		}
		return &cloudformation.GetTemplateOutput{TemplateBody: &s.form.template.body}, nil
	})
}

// GetTemplateSummary shows the parameters of a template.
func (c *Cloud) GetTemplateSummary(_ context.Context, in *cloudformation.GetTemplateSummaryInput, _ ...func(*cloudformation.Options)) (*cloudformation.GetTemplateSummaryOutput, error) {
	return call(c, "GetTemplateSummary", func() (*cloudformation.GetTemplateSummaryOutput, error) {
		t, err := c.summarized(in)
		if err != nil {
			return nil, err
		}
		out := &cloudformation.GetTemplateSummaryOutput{}
		for _, name := range slices.Sorted(maps.Keys(t.parameters)) {
			p := types.ParameterDeclaration{ParameterKey: aws.String(name)}
			if kind, ok := t.property(name, "Type"); ok {
				p.ParameterType = &kind
			}
			if value, ok := t.property(name, "Default"); ok {
				p.DefaultValue = &value
			}
			out.Parameters = append(out.Parameters, p)
		}
		return out, nil
	})
}

func (c *Cloud) summarized(in *cloudformation.GetTemplateSummaryInput) (*template, error) {
	if in.StackName == nil {
		return parse(aws.ToString(in.TemplateBody))
	}
	s, err := c.stack(in.StackName)
	if err == nil && s.form.template == nil {
		err = invalid("Stack [%s] has no template", s.name)
	}
	if err != nil {
		return nil, err
	}
	return s.form.template, nil
}

// DeleteStack starts to delete a stack. One that does not exist is deleted.
func (c *Cloud) DeleteStack(_ context.Context, in *cloudformation.DeleteStackInput, _ ...func(*cloudformation.Options)) (*cloudformation.DeleteStackOutput, error) {
	return call(c, "DeleteStack", func() (*cloudformation.DeleteStackOutput, error) { //nolint:contextcheck // the operation outlives its request
		s := c.live(aws.ToString(in.StackName))
		token := aws.ToString(in.ClientRequestToken)
		switch {
		case s == nil, s.status == string(types.StackStatusDeleteComplete), s.status == string(types.StackStatusDeleteInProgress), s.tokens[token]:
			return &cloudformation.DeleteStackOutput{}, nil
		case s.protected:
			return nil, invalid("Stack [%s] cannot be deleted while TerminationProtection is enabled", s.name)
		case len(in.RetainResources) > 0 && s.status != string(types.StackStatusDeleteFailed):
			return nil, invalid("Invalid operation on stack [%s]. Specify resources to retain only when the stack is in the DELETE_FAILED state.", s.id)
		case s.running() && s.status != string(types.StackStatusCreateInProgress):
			return nil, invalid("Stack [%s] cannot be deleted while in status %s", s.name, s.status)
		}
		s.remember(in.ClientRequestToken)
		s.startDelete(in.RetainResources, token)
		return &cloudformation.DeleteStackOutput{}, nil
	})
}

// GetResources finds stacks by their tags, deleted ones for some time, too.
func (c *Cloud) GetResources(_ context.Context, in *resourcegroupstaggingapi.GetResourcesInput, _ ...func(*resourcegroupstaggingapi.Options)) (*resourcegroupstaggingapi.GetResourcesOutput, error) {
	return call(c, "GetResources", func() (*resourcegroupstaggingapi.GetResourcesOutput, error) {
		var all []taggingtypes.ResourceTagMapping
		for _, s := range c.stacks {
			if slices.Contains(in.ResourceTypeFilters, "cloudformation:stack") && s.tagged(in.TagFilters) {
				all = append(all, taggingtypes.ResourceTagMapping{ResourceARN: &s.id})
			}
		}
		token := in.PaginationToken
		if aws.ToString(token) == "" {
			token = nil
		}
		part, next, err := page(all, c.o.Page, token)
		return &resourcegroupstaggingapi.GetResourcesOutput{ResourceTagMappingList: part, PaginationToken: next}, err
	})
}

func (s *stack) tagged(filters []taggingtypes.TagFilter) bool {
	for _, f := range filters {
		if !slices.Contains(f.Values, s.form.tags[aws.ToString(f.Key)]) {
			return false
		}
	}
	return true
}
