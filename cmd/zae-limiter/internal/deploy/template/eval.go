package template

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// nothing is the value of AWS::NoValue.
type nothing struct{}

// Eval evaluates the functions in a value. Maps and lists lack the entries that are
// AWS::NoValue. The value of a condition is a bool.
func (s *Scope) Eval(v any) any {
	switch v := v.(type) {
	case []any:
		list := []any{}
		for _, item := range v {
			if value := s.Eval(item); value != (nothing{}) {
				list = append(list, value)
			}
		}
		return list
	case map[string]any:
		m := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if len(v) == 1 && (key == "Ref" || key == "Condition" || strings.HasPrefix(key, "Fn::")) {
				return s.call(key, v[key])
			}
			if value := s.Eval(v[key]); value != (nothing{}) {
				m[key] = value
			}
		}
		return m
	}
	return v
}

// call evaluates a function.
func (s *Scope) call(name string, argument any) any {
	args, _ := argument.([]any)
	switch {
	case name == "Ref":
		return s.ref(s.text(argument))
	case name == "Condition":
		return s.Holds(s.text(argument))
	case name == "Fn::GetAtt":
		return s.attribute(strings.Join(texts(argument), "."))
	case name == "Fn::Sub":
		return s.sub(argument)
	case name == "Fn::If" && len(args) == 3:
		if s.Holds(s.text(args[0])) {
			return s.Eval(args[1])
		}
		return s.Eval(args[2])
	case name == "Fn::Not" && len(args) == 1:
		return s.Eval(args[0]) != true
	case name == "Fn::And" || name == "Fn::Or":
		all := name == "Fn::And"
		return all != slices.ContainsFunc(args, func(part any) bool { return (s.Eval(part) == true) != all })
	case len(args) == 2:
		return s.pair(name, s.Eval(args[0]), s.Eval(args[1]))
	}
	s.fail("this program cannot evaluate %s", name)
	return ""
}

// pair evaluates a function of two values.
func (s *Scope) pair(name string, a, b any) any {
	first, _ := a.(string)
	list, _ := b.([]any)
	switch name {
	case "Fn::Equals":
		return reflect.DeepEqual(a, b)
	case "Fn::Join":
		return strings.Join(texts(list), first)
	case "Fn::Split":
		return split(s.text(b), first)
	case "Fn::Select":
		if at, err := strconv.Atoi(first); err == nil && at >= 0 && at < len(list) {
			return list[at]
		}
	}
	s.fail("this program cannot evaluate %s of %v and %v", name, a, b)
	return ""
}

func split(text, by string) any {
	parts := []any{}
	for part := range strings.SplitSeq(text, by) {
		parts = append(parts, strings.TrimSpace(part))
	}
	return parts
}

// text is a value that must be a text.
func (s *Scope) text(v any) string {
	text, ok := v.(string)
	if !ok {
		s.fail("the value %v is no text", v)
	}
	return text
}

// ref is the value of a parameter, a pseudo parameter or a resource.
func (s *Scope) ref(name string) any {
	switch name {
	case "AWS::NoValue":
		return nothing{}
	case "AWS::StackName":
		return s.Name
	case "AWS::AccountId":
		return s.Account
	case "AWS::Region":
		return s.Region
	case "AWS::Partition":
		return "aws"
	case "AWS::URLSuffix":
		return "amazonaws.com"
	case "AWS::StackId":
		return "arn:aws:cloudformation:" + s.Region + ":" + s.Account + ":stack/" + s.Name + "/1"
	}
	if _, ok := s.Section("Parameters")[name]; !ok {
		return s.attribute(name)
	}
	value, ok := s.Values[name]
	if !ok {
		value = s.Default(name)
	}
	if s.isList(name) {
		return split(value, ",")
	}
	return value
}

// attribute is what ID or ID.ATTRIBUTE stands for.
func (s *Scope) attribute(of string) any {
	id, attribute, _ := strings.Cut(of, ".")
	if s.Resource == nil {
		s.fail("the value of %s needs a stack", of)
		return ""
	}
	value, err := s.Resource(id, attribute)
	if err != nil {
		s.fail("%w", err)
	}
	return value
}

// variable is a ${Name}, ${Name.Attribute} or ${!Literal} in Fn::Sub.
var variable = regexp.MustCompile(`\$\{([^}]+)\}`)

// sub evaluates Fn::Sub, whose second argument has variables of its own.
func (s *Scope) sub(argument any) any {
	local := map[string]any{}
	if args, ok := argument.([]any); ok && len(args) == 2 {
		argument, local = args[0], entry(args[1])
	}
	return variable.ReplaceAllStringFunc(s.text(argument), func(found string) string {
		name := found[2 : len(found)-1]
		literal, isLiteral := strings.CutPrefix(name, "!")
		own, isOwn := local[name]
		switch {
		case isLiteral:
			return "${" + literal + "}"
		case isOwn:
			return s.text(s.Eval(own))
		case strings.Contains(name, ".") && !strings.HasPrefix(name, "AWS::"):
			return s.text(s.attribute(name))
		}
		return s.text(s.ref(name))
	})
}
