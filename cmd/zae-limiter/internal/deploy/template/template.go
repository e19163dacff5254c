// Package template evaluates templates of CloudFormation: their conditions, and the functions
// in their values. A preview of a new stack needs that, because CloudFormation lists changes
// only of a stack that exists. Tests read what a template says under given parameters.
//
// It does not judge templates: cfn-lint does.
package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A Template is a parsed template, in YAML or in JSON, which is YAML. Its values are maps,
// lists and strings. A function is a map with its long name, {"Fn::Sub": "…"} for instance.
type Template struct {
	sections map[string]any
	// Resources are in the order of the text.
	Resources []Resource
}

// A Resource is one that a template declares.
type Resource struct {
	ID, Type   string
	Condition  string // "" for none
	DependsOn  []string
	Properties map[string]any
	// DeletionPolicy and UpdateReplacePolicy are "" where the template has none.
	DeletionPolicy, UpdateReplacePolicy string
}

// Retained reports whether CloudFormation keeps the resource when it deletes the stack.
func (r *Resource) Retained() bool {
	return r.DeletionPolicy == "Retain" || r.DeletionPolicy == "RetainExceptOnCreate"
}

// Parse reads a template. That of a stack that nobody has filled is empty.
func Parse(text string) (*Template, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return &Template{}, nil
	}
	if document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it has no sections")
	}
	root := document.Content[0]
	t := &Template{sections: entry(plain(root))}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "Resources" {
			continue
		}
		all := root.Content[i+1].Content
		for j := 0; j+1 < len(all); j += 2 {
			t.Resources = append(t.Resources, t.resource(all[j].Value))
		}
	}
	return t, nil
}

func (t *Template) resource(id string) Resource {
	declared := entry(t.Section("Resources")[id])
	r := Resource{ID: id, DependsOn: texts(declared["DependsOn"]), Properties: entry(declared["Properties"])}
	for name, at := range map[string]*string{
		"Type": &r.Type, "Condition": &r.Condition, "DeletionPolicy": &r.DeletionPolicy, "UpdateReplacePolicy": &r.UpdateReplacePolicy,
	} {
		*at, _ = declared[name].(string)
	}
	return r
}

// Section is a section of the template by the names in it, Outputs for instance.
func (t *Template) Section(name string) map[string]any { return entry(t.sections[name]) }

// Default is the default of a parameter, "" for none.
func (t *Template) Default(parameter string) string {
	value, _ := entry(t.Section("Parameters")[parameter])["Default"].(string)
	return value
}

// isList reports whether the value of a parameter is a list, with commas.
func (t *Template) isList(parameter string) bool {
	kind, _ := entry(t.Section("Parameters")[parameter])["Type"].(string)
	return kind == "CommaDelimitedList" || strings.HasPrefix(kind, "List<")
}

// plain turns a node into maps, lists and strings.
func plain(n *yaml.Node) any {
	var v any = n.Value
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plain(n.Content[i+1])
		}
		v = m
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, plain(item))
		}
		v = list
	default: // CloudFormation takes no aliases
	}
	name, short := strings.CutPrefix(n.Tag, "!")
	if !short || strings.HasPrefix(name, "!") {
		return v
	}
	if name != "Ref" && name != "Condition" {
		name = "Fn::" + name
	}
	return map[string]any{name: v}
}

// entry is a value that is a map; others have no entries.
func entry(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// texts are the texts of a text or a list.
func texts(v any) (all []string) {
	list, isList := v.([]any)
	if !isList && v != nil {
		list = []any{v}
	}
	for _, item := range list {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// Typed turns the texts in a value that are numbers or truths into these: CloudFormation takes
// either, and the requests that it makes of them do not.
func Typed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, item := range v {
			m[key] = Typed(item)
		}
		return m
	case []any:
		list := []any{}
		for _, item := range v {
			list = append(list, Typed(item))
		}
		return list
	case string:
		var scalar any
		if err := (&yaml.Node{Kind: yaml.ScalarNode, Value: v}).Decode(&scalar); err == nil {
			return scalar
		}
	}
	return v
}

// A Scope is what the functions of a template see. It evaluates what it can: [Scope.Err] says
// what it could not.
type Scope struct {
	*Template
	// Name is that of the stack, and Account and Region are where it is.
	Name, Account, Region string
	// Values are the values of parameters. The others have their defaults.
	Values map[string]string
	// Resource is what Ref gives of a resource, whose attribute is "", or else Fn::GetAtt. Nil
	// knows none.
	Resource func(id, attribute string) (string, error)

	err  error
	busy []string // conditions under evaluation
}

// Err is the first failure of an evaluation.
func (s *Scope) Err() error { return s.err }

// fail keeps the first failure.
func (s *Scope) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// Holds reports whether a condition holds. The condition "" of a resource without one does.
func (s *Scope) Holds(condition string) bool {
	if condition == "" {
		return true
	}
	v, ok := s.Section("Conditions")[condition]
	if !ok || slices.Contains(s.busy, condition) {
		s.fail("the template has no condition %s, or it needs itself", condition)
		return false
	}
	s.busy = append(s.busy, condition)
	holds, _ := s.Eval(v).(bool)
	s.busy = s.busy[:len(s.busy)-1]
	return holds
}
