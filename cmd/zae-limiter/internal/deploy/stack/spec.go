package stack

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Spec is what a stack is to become.
type Spec struct {
	// Name is the stack's.
	Name string
	// Template is the text of the template, of at most 51,200 bytes. "" keeps the template
	// that the stack has.
	Template string
	// Parameters are the values that the caller sets. Other parameters keep the value of an
	// existing stack. Those that it does not have get the template's default.
	Parameters map[string]string
	// Tags are added to the tags of an existing stack. They replace tags of the same key.
	Tags map[string]string
	// AllowReplacement names the resources with data that the change may remove or replace,
	// by their logical IDs.
	AllowReplacement []string
}

// Limits of CloudFormation.
const (
	maxTemplate = 51_200
	maxTags     = 50
)

// Validate checks what needs no request.
func (s Spec) Validate() error {
	switch {
	case s.Name == "":
		return &store.ValidationError{Field: "stack name", Reason: "give a name"}
	case len(s.Template) > maxTemplate:
		return &store.ValidationError{
			Field: "template", Value: s.Template, Reason: "CloudFormation accepts 51,200 bytes, shorten it by " + strconv.Itoa(len(s.Template)-maxTemplate),
		}
	}
	return nil
}

// parameters are the values to send for the template's parameters.
func (m *Manager) parameters(ctx context.Context, s Spec, live *Stack) ([]types.Parameter, error) {
	of := &cloudformation.GetTemplateSummaryInput{TemplateBody: &s.Template}
	if s.Template == "" {
		of = &cloudformation.GetTemplateSummaryInput{StackName: &s.Name}
	}
	summary, err := ask(ctx, m, m.cf.GetTemplateSummary, of)
	if err != nil {
		return nil, translate("read the template of stack "+s.Name, err)
	}
	var known []string
	for _, p := range summary.Parameters {
		known = append(known, aws.ToString(p.ParameterKey))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
		if !slices.Contains(known, name) {
			return nil, &store.ValidationError{Field: "parameter", Value: name, Reason: "the template has no such parameter, use one of " + strings.Join(known, ", ")}
		}
	}
	var send []types.Parameter
	for _, name := range known {
		value, set := s.Parameters[name]
		_, kept := live.Parameters[name]
		switch {
		case set:
			send = append(send, types.Parameter{ParameterKey: aws.String(name), ParameterValue: aws.String(value)})
		case kept:
			send = append(send, types.Parameter{ParameterKey: aws.String(name), UsePreviousValue: aws.Bool(true)})
		}
	}
	return send, nil
}

// tags are the tags to send: those of the stack, and over them those of the spec. Tags that
// begin with aws: belong to AWS and cannot be sent.
func (s Spec) tags(live *Stack) ([]types.Tag, error) {
	all := maps.Clone(live.Tags)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, s.Tags)
	maps.DeleteFunc(all, func(key, _ string) bool { return strings.HasPrefix(key, "aws:") })
	if len(all) > maxTags {
		return nil, &store.ValidationError{
			Field: "tags", Value: strconv.Itoa(len(all)),
			Reason: "a stack has at most 50 tags, those it has already included: set fewer, or remove some from the stack",
		}
	}
	var send []types.Tag
	for _, key := range slices.Sorted(maps.Keys(all)) {
		send = append(send, types.Tag{Key: aws.String(key), Value: aws.String(all[key])})
	}
	return send, nil
}
