package stack

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"go.yaml.in/yaml/v4"
)

// created are the resources that a new stack of a spec would have, as changes, in the order of
// the template. CloudFormation lists changes only of a stack, so this evaluates the
// conditions of the template. It knows the functions that a condition may have, but for
// those that need an account.
func created(s Spec) ([]Change, error) {
	t := conditional{name: s.Name, parameters: s.Parameters}
	if err := yaml.Unmarshal([]byte(s.Template), &t); err != nil {
		return nil, fmt.Errorf("read the template of stack %s: %w", s.Name, err)
	}
	var changes []Change
	resources := t.Resources.Content
	for i := 0; i+1 < len(resources); i += 2 {
		var r struct {
			Type      string `yaml:"Type"`
			Condition string `yaml:"Condition"`
		}
		if err := resources[i+1].Decode(&r); err != nil {
			return nil, fmt.Errorf("read resource %s of stack %s: %w", resources[i].Value, s.Name, err)
		}
		holds := true
		if r.Condition != "" {
			var err error
			if holds, err = t.named(r.Condition); err != nil {
				return nil, fmt.Errorf("resource %s of stack %s: %w", resources[i].Value, s.Name, err)
			}
		}
		if holds {
			changes = append(changes, Change{Action: string(types.ChangeActionAdd), LogicalID: resources[i].Value, Type: r.Type})
		}
	}
	return changes, nil
}

// A conditional is the part of a template that says which resources there are.
type conditional struct {
	Parameters map[string]struct {
		Default string `yaml:"Default"`
	} `yaml:"Parameters"`
	Conditions map[string]yaml.Node `yaml:"Conditions"`
	Resources  yaml.Node            `yaml:"Resources"`

	name       string            // of the stack
	parameters map[string]string // values of the spec
}

// resolve evaluates the functions in a value: Ref and If, which are all that the table of a
// limiter has. A value that is AWS::NoValue is nil, and left out of maps and lists.
func (t *conditional) resolve(n *yaml.Node) (any, error) {
	switch {
	case n.Tag == "!If" && len(n.Content) == 3:
		holds, err := t.named(n.Content[0].Value)
		if err != nil {
			return nil, err
		}
		if holds {
			return t.resolve(n.Content[1])
		}
		return t.resolve(n.Content[2])
	case n.Tag == "!Ref" && n.Value == "AWS::NoValue":
		return nil, nil
	case n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode:
		return t.resolveAll(n)
	}
	text, err := t.text(n)
	var v any
	if err == nil { // a number or a truth is one, whether it is written or a parameter
		err = (&yaml.Node{Kind: yaml.ScalarNode, Value: text}).Decode(&v)
	}
	return v, err
}

// resolveAll evaluates the values of a map or a list.
func (t *conditional) resolveAll(n *yaml.Node) (any, error) {
	m, list, isMap := map[string]any{}, []any{}, n.Kind == yaml.MappingNode
	for i, item := range n.Content {
		if isMap && i%2 == 0 {
			continue // a key
		}
		v, err := t.resolve(item)
		switch {
		case err != nil:
			return nil, err
		case v == nil:
		case isMap:
			m[n.Content[i-1].Value] = v
		default:
			list = append(list, v)
		}
	}
	if isMap {
		return m, nil
	}
	return list, nil
}

// named reports whether a condition holds.
func (t *conditional) named(name string) (bool, error) {
	n, ok := t.Conditions[name]
	if !ok {
		return false, fmt.Errorf("the template has no condition %s", name)
	}
	return t.holds(&n)
}

// holds evaluates a condition.
func (t *conditional) holds(n *yaml.Node) (bool, error) {
	switch {
	case n.Tag == "!Condition":
		return t.named(n.Value)
	case n.Tag == "!Equals" && len(n.Content) == 2:
		a, err := t.text(n.Content[0])
		if err != nil {
			return false, err
		}
		b, err := t.text(n.Content[1])
		return a == b, err
	case n.Tag == "!Not" && len(n.Content) == 1:
		holds, err := t.holds(n.Content[0])
		return !holds, err
	case n.Tag == "!And" || n.Tag == "!Or":
		for _, part := range n.Content {
			holds, err := t.holds(part)
			if err != nil || holds == (n.Tag == "!Or") {
				return holds, err
			}
		}
		return n.Tag == "!And", nil
	}
	return false, fmt.Errorf("this program cannot evaluate the condition in line %d: %s", n.Line, n.Tag)
}

// text evaluates a value of a condition.
func (t *conditional) text(n *yaml.Node) (string, error) {
	switch {
	case n.Tag == "!Ref" && n.Value == "AWS::StackName":
		return t.name, nil
	case n.Tag == "!Ref":
		if value, ok := t.parameters[n.Value]; ok {
			return value, nil
		}
		p, ok := t.Parameters[n.Value]
		if !ok {
			return "", fmt.Errorf("the template has no parameter %s", n.Value)
		}
		return p.Default, nil
	case n.Tag == "!Select" && len(n.Content) == 2:
		return t.selected(n.Content[0].Value, n.Content[1])
	case n.Tag == "!Join" && len(n.Content) == 2 && n.Content[1].Tag == "!Ref":
		// The value of a parameter with a list is its parts with commas.
		list, err := t.text(n.Content[1])
		return strings.ReplaceAll(list, ",", n.Content[0].Value), err
	case n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Tag, "!!"):
		return n.Value, nil
	}
	return "", fmt.Errorf("this program cannot evaluate the value in line %d: %s", n.Line, n.Tag)
}

// selected is a part of a text that is split.
func (t *conditional) selected(index string, split *yaml.Node) (string, error) {
	at, err := strconv.Atoi(index)
	if err != nil || split.Tag != "!Split" || len(split.Content) != 2 {
		return "", fmt.Errorf("this program cannot evaluate the value in line %d: %s", split.Line, split.Tag)
	}
	whole, err := t.text(split.Content[1])
	if err != nil {
		return "", err
	}
	parts := strings.Split(whole, split.Content[0].Value)
	if at < 0 || at >= len(parts) {
		return "", fmt.Errorf("line %d selects part %d of %d", split.Line, at, len(parts))
	}
	return parts[at], nil
}
