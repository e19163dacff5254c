package cfntest

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// variable is a ${Name}, ${Name.Attribute} or ${!Literal} in Fn::Sub.
var variable = regexp.MustCompile(`\$\{([^}]+)\}`)

// nothing stands for AWS::NoValue.
type nothing struct{}

// A scope is what functions of a template see.
type scope struct {
	template   *template
	stack      *stack
	parameters map[string]string
	// physical are the physical IDs of the resources made so far.
	physical map[string]resource
	busy     []string // conditions under evaluation
	imports  []types.ResourceToImport
}

// eval resolves the functions in a value.
func (s *scope) eval(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		return s.list(v)
	case map[string]any:
		if len(v) == 1 {
			for key, argument := range v {
				if key == "Ref" || strings.HasPrefix(key, "Fn::") {
					return s.function(key, argument)
				}
			}
		}
		m := map[string]any{}
		for key, e := range v {
			value, err := s.eval(e)
			if err != nil {
				return nil, err
			}
			if value != (nothing{}) {
				m[key] = value
			}
		}
		return m, nil
	}
	return v, nil
}

func (s *scope) list(all []any) (any, error) {
	list := []any{}
	for _, e := range all {
		value, err := s.eval(e)
		if err != nil {
			return nil, err
		}
		if value != (nothing{}) {
			list = append(list, value)
		}
	}
	return list, nil
}

func (s *scope) function(name string, argument any) (any, error) {
	switch name {
	case "Ref":
		id, _ := argument.(string)
		return s.ref(id)
	case "Fn::GetAtt":
		parts := attribute(argument)
		if len(parts) < 2 {
			return nil, invalid("Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name and the resource attribute")
		}
		return s.attribute(parts[0], strings.Join(parts[1:], "."))
	case "Fn::Sub":
		return s.sub(argument)
	case "Fn::If":
		parts, ok := argument.([]any)
		if !ok || len(parts) != 3 {
			return nil, invalid("Template error: Fn::If requires a list argument with exactly 3 elements")
		}
		condition, _ := parts[0].(string)
		holds, err := s.condition(condition)
		if err != nil {
			return nil, err
		}
		if holds {
			return s.eval(parts[1])
		}
		return s.eval(parts[2])
	case "Fn::Join", "Fn::Select", "Fn::Split":
		return s.strings(name, argument)
	case "Fn::Equals", "Fn::And", "Fn::Or", "Fn::Not":
		return nil, invalid("Template error: %s can only be used in the Conditions block", name)
	}
	return nil, invalid("Template error: cfntest does not model %s", name)
}

// strings evaluates the functions on lists of strings.
func (s *scope) strings(name string, argument any) (any, error) {
	value, err := s.eval(argument)
	if err != nil {
		return nil, err
	}
	parts, ok := value.([]any)
	if !ok || len(parts) != 2 {
		return nil, invalid("Template error: every %s object requires two parameters", name)
	}
	first, isText := parts[0].(string)
	list, isList := parts[1].([]any)
	switch {
	case name == "Fn::Split" && isText:
		text, _ := parts[1].(string)
		split := []any{}
		for part := range strings.SplitSeq(text, first) {
			split = append(split, part)
		}
		return split, nil
	case name == "Fn::Join" && isText && isList:
		return strings.Join(texts(list), first), nil
	case name == "Fn::Select" && isText && isList:
		if i, err := strconv.Atoi(first); err == nil && i >= 0 && i < len(list) {
			return list[i], nil
		}
		return nil, invalid("Template error: Fn::Select cannot select nonexistent value at index %s", first)
	}
	return nil, invalid("Template error: %s has malformed parameters", name)
}

// ref is the value of a parameter, a pseudo parameter or a resource.
func (s *scope) ref(id string) (any, error) {
	switch id {
	case "AWS::NoValue":
		return nothing{}, nil
	case "AWS::StackName":
		return s.stack.name, nil
	case "AWS::StackId":
		return s.stack.id, nil
	case "AWS::Region":
		return Region, nil
	case "AWS::AccountId":
		return Account, nil
	case "AWS::Partition":
		return "aws", nil
	case "AWS::URLSuffix":
		return "amazonaws.com", nil
	}
	if v, ok := s.parameters[id]; ok {
		if s.template.isList(id) {
			list := []any{}
			for part := range strings.SplitSeq(v, ",") {
				list = append(list, strings.TrimSpace(part))
			}
			return list, nil
		}
		return v, nil
	}
	r, ok := s.physical[id]
	if !ok {
		return nil, invalid("Template format error: Unresolved resource dependencies [%s] in the Resources block of the template", id)
	}
	return r.reference(), nil
}

func (s *scope) attribute(id, name string) (any, error) {
	r, ok := s.physical[id]
	if !ok {
		return nil, invalid("Template error: instance of Fn::GetAtt references undefined resource %s", id)
	}
	return r.attribute(name), nil
}

// sub evaluates Fn::Sub with its own variables.
func (s *scope) sub(argument any) (any, error) {
	format, local := substitution(argument)
	var failure error
	text := variable.ReplaceAllStringFunc(format, func(found string) string {
		name := found[2 : len(found)-1]
		if literal, ok := strings.CutPrefix(name, "!"); ok {
			return "${" + literal + "}"
		}
		value, err := s.variable(name, local)
		failure = orElse(failure, err)
		text, ok := value.(string)
		if !ok && err == nil {
			failure = orElse(failure, invalid("Template error: variable %s in Fn::Sub expression does not resolve to a string", name))
		}
		return text
	})
	return text, failure
}

func orElse(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (s *scope) variable(name string, local map[string]any) (any, error) {
	if v, ok := local[name]; ok {
		return s.eval(v)
	}
	if id, attribute, ok := strings.Cut(name, "."); ok {
		return s.attribute(id, attribute)
	}
	return s.ref(name)
}

// condition evaluates a named condition.
func (s *scope) condition(name string) (bool, error) {
	v, ok := s.template.conditions[name]
	if !ok {
		return false, invalid("Template error: unresolved condition dependency %s", name)
	}
	if slices.Contains(s.busy, name) {
		return false, invalid("Template error: circular condition dependency at %s", name)
	}
	s.busy = append(s.busy, name)
	defer func() { s.busy = s.busy[:len(s.busy)-1] }()
	return s.holds(v)
}

func (s *scope) holds(v any) (bool, error) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return false, invalid("Template format error: Conditions can only be boolean operations on parameters and other conditions")
	}
	if name, ok := m["Condition"].(string); ok {
		return s.condition(name)
	}
	for function, argument := range m {
		parts, _ := argument.([]any)
		switch {
		case function == "Fn::Equals" && len(parts) == 2:
			return s.equal(parts[0], parts[1])
		case function == "Fn::Not" && len(parts) == 1:
			holds, err := s.holds(parts[0])
			return !holds, err
		case (function == "Fn::And" || function == "Fn::Or") && len(parts) >= 2 && len(parts) <= 10:
			return s.all(parts, function == "Fn::And")
		}
	}
	return false, invalid("Template format error: Conditions can only be boolean operations on parameters and other conditions")
}

func (s *scope) equal(a, b any) (bool, error) {
	left, err := s.eval(a)
	if err != nil {
		return false, err
	}
	right, err := s.eval(b)
	return reflect.DeepEqual(left, right), err
}

// all reports whether every part holds, or with and false, whether any does.
func (s *scope) all(parts []any, and bool) (bool, error) {
	for _, p := range parts {
		holds, err := s.holds(p)
		if err != nil || holds != and {
			return holds, err
		}
	}
	return and, nil
}

// attribute splits the argument of Fn::GetAtt.
func attribute(argument any) []string {
	if text, ok := argument.(string); ok {
		return strings.SplitN(text, ".", 2)
	}
	return texts(argument)
}

// substitution splits the argument of Fn::Sub.
func substitution(argument any) (format string, local map[string]any) {
	switch a := argument.(type) {
	case string:
		return a, nil
	case []any:
		if len(a) == 2 {
			format, _ = a[0].(string)
			local, _ = a[1].(map[string]any)
		}
	}
	return format, local
}
