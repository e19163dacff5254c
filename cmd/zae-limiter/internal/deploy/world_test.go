package deploy_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
)

// A call is an intrinsic function of CloudFormation with its argument.
type call struct {
	name string
	of   any
}

// read turns YAML into maps, slices, scalars and calls.
func read(n *yaml.Node) any {
	var v any
	switch n.Kind {
	case yaml.DocumentNode:
		return read(n.Content[0])
	case yaml.MappingNode:
		all := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			all[n.Content[i].Value] = read(n.Content[i+1])
		}
		v = all
	case yaml.SequenceNode:
		all := []any{}
		for _, c := range n.Content {
			all = append(all, read(c))
		}
		v = all
	case yaml.ScalarNode:
		v = n.Value
	default:
		panic("CloudFormation takes no aliases")
	}
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		return call{n.Tag, v}
	}
	return v
}

// A stack is a template with parameters, evaluated as CloudFormation does.
type stack struct {
	t          *testing.T
	parameters map[string]string
	template   map[string]any
	names      []string // of the resources, once known
}

// noValue is what AWS::NoValue stands for.
type noValue struct{}

// with are the default options, changed.
func with(change func(o *deploy.Options)) deploy.Options {
	o := deploy.Defaults()
	change(&o)
	return o
}

// withCode are the default options of a stack that has its functions.
func withCode() deploy.Options {
	return with(func(o *deploy.Options) { o.CodeKey = "functions/0.zip" })
}

func newSpec(t *testing.T, o deploy.Options) *deploy.Spec {
	t.Helper()
	spec, err := deploy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// newStack evaluates what is sent for the options.
func newStack(t *testing.T, o deploy.Options) *stack {
	t.Helper()
	spec := newSpec(t, o)
	s := &stack{t: t, parameters: map[string]string{}, template: sent(t, spec)}
	for _, p := range spec.Parameters() {
		s.parameters[p.Key] = p.Value
	}
	return s
}

// sent parses what is sent, once for each of the two templates. Nobody changes the result.
func sent(t *testing.T, spec *deploy.Spec) map[string]any {
	t.Helper()
	key := spec.Options().DeleteData
	known, ok := parsed.Load(key)
	if !ok {
		known, _ = parsed.LoadOrStore(key, parse(t, string(spec.Template())))
	}
	return known.(map[string]any)
}

// parsed are the templates that sent has parsed, by Options.DeleteData.
var parsed sync.Map

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		t.Fatal(err)
	}
	return read(&n).(map[string]any)
}

// section is a section of the template.
func (s *stack) section(name string) map[string]any { return s.template[name].(map[string]any) }

// has reports whether the condition of a resource or output holds.
func (s *stack) has(entry map[string]any) bool {
	name, ok := entry["Condition"].(string)
	return !ok || s.holds(name)
}

func (s *stack) holds(condition string) bool {
	c, ok := s.section("Conditions")[condition]
	if !ok {
		s.t.Fatalf("no condition %s", condition)
	}
	return s.eval(c).(bool)
}

// resources returns the names of the resources that the stack has, in order.
func (s *stack) resources() []string {
	if s.names != nil {
		return s.names
	}
	for _, name := range slices.Sorted(maps.Keys(s.section("Resources"))) {
		if s.has(s.section("Resources")[name].(map[string]any)) {
			s.names = append(s.names, name)
		}
	}
	return s.names
}

// ofType returns the resources of a type that the stack has.
func (s *stack) ofType(kind string) []string {
	return slices.DeleteFunc(slices.Clone(s.resources()), func(name string) bool {
		return s.section("Resources")[name].(map[string]any)["Type"] != kind
	})
}

// properties evaluates the properties of a resource that the stack has.
func (s *stack) properties(name string) map[string]any {
	s.t.Helper()
	if !slices.Contains(s.resources(), name) {
		s.t.Fatalf("the stack has no %s", name)
	}
	return s.eval(s.section("Resources")[name].(map[string]any)["Properties"]).(map[string]any)
}

func (s *stack) eval(v any) any {
	switch v := v.(type) {
	case call:
		return s.apply(v)
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if value = s.eval(value); !reflect.DeepEqual(value, noValue{}) {
				out[key] = value
			}
		}
		return out
	case []any:
		out := []any{}
		for _, item := range v {
			if item = s.eval(item); !reflect.DeepEqual(item, noValue{}) {
				out = append(out, item)
			}
		}
		return out
	}
	return v
}

func (s *stack) apply(c call) any {
	args, _ := c.of.([]any)
	switch c.name {
	case "!Ref":
		return s.ref(c.of.(string))
	case "!GetAtt":
		name, attribute, _ := strings.Cut(c.of.(string), ".")
		return s.physical(name) + "." + attribute
	case "!Sub":
		if len(args) == 0 {
			return s.sub(c.of.(string))
		}
		text := args[0].(string)
		for name, value := range args[1].(map[string]any) {
			text = strings.ReplaceAll(text, "${"+name+"}", s.eval(value).(string))
		}
		return s.sub(text)
	case "!If":
		if s.holds(args[0].(string)) {
			return s.eval(args[1])
		}
		return s.eval(args[2])
	case "!Equals":
		return s.eval(args[0]) == s.eval(args[1])
	case "!Not":
		return !s.eval(args[0]).(bool)
	case "!And":
		return !slices.ContainsFunc(args, func(v any) bool { return !s.eval(v).(bool) })
	case "!Or":
		return slices.ContainsFunc(args, func(v any) bool { return s.eval(v).(bool) })
	case "!Condition":
		return s.holds(c.of.(string))
	case "!Split":
		var parts []any
		for part := range strings.SplitSeq(s.eval(args[1]).(string), args[0].(string)) {
			parts = append(parts, part)
		}
		return parts
	case "!Select":
		var at int
		_, _ = fmt.Sscan(args[0].(string), &at)
		return s.eval(args[1]).([]any)[at]
	}
	s.t.Fatalf("unknown function %s", c.name)
	return nil
}

// pseudo are the parameters that CloudFormation itself gives.
var pseudo = map[string]string{
	"AWS::Region": "eu-west-1", "AWS::Partition": "aws", "AWS::AccountId": "123456789012", "AWS::URLSuffix": "amazonaws.com",
	"AWS::StackName": "limits", "AWS::StackId": "arn:aws:cloudformation:eu-west-1:123456789012:stack/limits/1",
}

func (s *stack) ref(name string) any {
	if name == "AWS::NoValue" {
		return noValue{}
	}
	if v, ok := pseudo[name]; ok {
		return v
	}
	if v, ok := s.parameters[name]; ok {
		return v
	}
	return s.physical(name)
}

// physical is the name of a resource, which the stack must have.
func (s *stack) physical(name string) string {
	if !slices.Contains(s.resources(), name) {
		s.t.Errorf("a reference to %s, which the stack does not have", name)
	}
	return "<" + name + ">"
}

func (s *stack) sub(text string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		switch {
		case strings.HasPrefix(name, "!"):
			b.WriteString("${" + name[1:] + "}")
		case strings.Contains(name, ".") && !strings.HasPrefix(name, "AWS::"):
			b.WriteString(s.apply(call{"!GetAtt", name}).(string))
		default:
			b.WriteString(s.ref(name).(string))
		}
		text = after
	}
}
