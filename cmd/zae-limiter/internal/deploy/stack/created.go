package stack

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/template"
)

// scope is what the functions in the template of a spec see, before there is a stack.
func (s Spec) scope() (*template.Scope, error) {
	t, err := template.Parse(s.Template)
	if err != nil {
		return nil, fmt.Errorf("read the template of stack %s: %w", s.Name, err)
	}
	return &template.Scope{Template: t, Name: s.Name, Values: s.Parameters}, nil
}

// created are the resources that a new stack of a spec would have, as changes, in the order of
// the template. CloudFormation lists changes only of a stack that exists.
func created(s Spec) ([]Change, error) {
	of, err := s.scope()
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, r := range of.Resources {
		if of.Holds(r.Condition) {
			changes = append(changes, Change{Action: string(types.ChangeActionAdd), LogicalID: r.ID, Type: r.Type})
		}
	}
	if err := of.Err(); err != nil {
		return nil, fmt.Errorf("read the resources of stack %s: %w", s.Name, err)
	}
	return changes, nil
}
