package cfntest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

const stackType = "AWS::CloudFormation::Stack"

// A form is what a stack is made from.
type form struct {
	template   *template
	parameters map[string]string
	tags       map[string]string
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
	outputs          map[string]string
	exports          map[string]string // values by name
	events           []types.StackEvent
	changeSets       []*changeSet
	tokens           map[string]bool
	op               *operation
	// proceed fills an operation with what remains of a rollback that failed, nil if there is
	// nothing to continue.
	proceed func(skip []string)
}

func (c *Cloud) newStack(name string) *stack {
	s := &stack{
		cloud: c, name: name, created: c.o.Now(), resources: map[string]resource{}, tokens: map[string]bool{},
		id: fmt.Sprintf("arn:aws:cloudformation:%s:%s:stack/%s/%s", Region, Account, name, "00000000-0000-0000-0000-00000000000"+c.next()),
	}
	c.stacks = append(c.stacks, s)
	return s
}

// running reports whether an operation runs.
func (s *stack) running() bool { return s.op != nil }

// turn gives the stack a status, with its event.
func (s *stack) turn(at time.Time, status types.StackStatus, reason, token string) {
	s.status, s.reason = string(status), reason
	s.event(at, s.name, s.id, stackType, types.ResourceStatus(status), reason, token)
}

// change gives a resource a status, with its event.
func (s *stack) change(at time.Time, r resource, status types.ResourceStatus, reason string) {
	if has, ok := s.resources[r.id]; ok && has.physical == r.physical {
		has.status, has.reason = status, reason
		s.resources[r.id] = has
	}
	token := ""
	if s.op != nil {
		token = s.op.token
	}
	s.event(at, r.id, r.physical, r.kind, status, reason, token)
}

func (s *stack) event(at time.Time, id, physical, kind string, status types.ResourceStatus, reason, token string) {
	e := types.StackEvent{
		StackId: &s.id, StackName: &s.name, EventId: aws.String(fmt.Sprintf("%s-%s-%d", id, status, len(s.events))), Timestamp: &at,
		LogicalResourceId: &id, PhysicalResourceId: &physical, ResourceType: &kind, ResourceStatus: status,
	}
	if reason != "" {
		e.ResourceStatusReason = &reason
	}
	if token != "" {
		e.ClientRequestToken = &token
	}
	s.events = append(s.events, e)
}

// put adds a resource or replaces its form.
func (s *stack) put(r resource) {
	if _, ok := s.resources[r.id]; !ok {
		s.order = append(s.order, r.id)
	}
	s.resources[r.id] = r
}

func (s *stack) drop(id string) {
	delete(s.resources, id)
	s.order = slices.DeleteFunc(s.order, func(o string) bool { return o == id })
}

// publish works out outputs and exports, which see only the resources to keep. A text is the
// reason for which it fails.
func (s *stack) publish(f form, keep map[string]bool) (reason string) {
	outputs, exports := map[string]string{}, map[string]string{}
	seen := maps.Clone(s.resources)
	maps.DeleteFunc(seen, func(id string, _ resource) bool { return !keep[id] })
	sc := &scope{template: f.template, stack: s, parameters: f.parameters, physical: seen}
	for _, id := range slices.Sorted(maps.Keys(f.template.outputs)) {
		value, export, skip, err := sc.output(f.template.outputs[id])
		switch {
		case err != nil:
			return message(err)
		case skip:
			continue
		case export != "" && strings.TrimSpace(value) == "":
			return fmt.Sprintf("Cannot export output %s. Exported values must not be empty or whitespace-only.", id)
		case export != "" && s.cloud.exporter(export, s) != "":
			return fmt.Sprintf("Export with name %s is already exported by stack %s. Rename the export or delete the other one.", export, s.cloud.exporter(export, s))
		}
		outputs[id] = value
		if export != "" {
			exports[export] = value
		}
	}
	s.outputs, s.exports = outputs, exports
	return ""
}

// output evaluates one output. skip says that its condition does not hold.
func (s *scope) output(v any) (value, export string, skip bool, err error) {
	o, _ := v.(map[string]any)
	if name, ok := o["Condition"].(string); ok {
		holds, err := s.condition(name)
		if err != nil || !holds {
			return "", "", true, err
		}
	}
	result, err := s.eval(o["Value"])
	if err != nil {
		return "", "", false, err
	}
	value, ok := result.(string)
	if !ok {
		return "", "", false, invalid("Template format error: Output value must be a string")
	}
	if e, ok := o["Export"].(map[string]any); ok {
		name, err := s.eval(e["Name"])
		if err != nil {
			return "", "", false, err
		}
		export, _ = name.(string)
	}
	return value, export, false, nil
}

// exporter is the other stack that has an export of a name.
func (c *Cloud) exporter(name string, but *stack) string {
	for _, s := range c.stacks {
		if _, ok := s.exports[name]; ok && s != but {
			return s.name
		}
	}
	return ""
}
