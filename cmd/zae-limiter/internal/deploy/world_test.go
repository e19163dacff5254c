package deploy_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/template"
)

// A stack is a template with parameters, evaluated as CloudFormation does.
type stack struct {
	*template.Scope
	t     *testing.T
	names []string // of the resources, once known
}

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
	s := &stack{t: t, Scope: &template.Scope{
		Template: sent(t, spec), Name: "limits", Account: "123456789012", Region: "eu-west-1", Values: map[string]string{},
	}}
	s.Resource = func(id, attribute string) (string, error) {
		if !slices.Contains(s.resources(), id) {
			t.Errorf("a reference to %s, which the stack does not have", id)
		}
		return "<" + id + ">" + map[bool]string{true: "."}[attribute != ""] + attribute, nil
	}
	for _, p := range spec.Parameters() {
		s.Values[p.Key] = p.Value
	}
	return s
}

// sent parses what is sent, once for each of the two templates. Nobody changes the result.
func sent(t *testing.T, spec *deploy.Spec) *template.Template {
	t.Helper()
	key := spec.Options().DeleteData
	known, ok := parsed.Load(key)
	if !ok {
		known, _ = parsed.LoadOrStore(key, parse(t, string(spec.Template())))
	}
	return known.(*template.Template)
}

// parsed are the templates that sent has parsed, by Options.DeleteData.
var parsed sync.Map

func parse(t *testing.T, text string) *template.Template {
	t.Helper()
	parsed, err := template.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// has reports whether the condition of an output holds.
func (s *stack) has(entry map[string]any) bool {
	condition, _ := entry["Condition"].(string)
	return s.Holds(condition)
}

// resources returns the names of the resources that the stack has, in order.
func (s *stack) resources() []string {
	if s.names != nil {
		return s.names
	}
	for _, r := range s.Resources {
		if s.Holds(r.Condition) {
			s.names = append(s.names, r.ID)
		}
	}
	slices.Sort(s.names)
	return s.names
}

// declared is a resource of the template.
func (s *stack) declared(name string) template.Resource {
	s.t.Helper()
	at := slices.IndexFunc(s.Resources, func(r template.Resource) bool { return r.ID == name })
	if at < 0 {
		s.t.Fatalf("the template has no %s", name)
	}
	return s.Resources[at]
}

// ofType returns the resources of a type that the stack has.
func (s *stack) ofType(kind string) []string {
	return slices.DeleteFunc(slices.Clone(s.resources()), func(name string) bool { return s.declared(name).Type != kind })
}

// properties evaluates the properties of a resource that the stack has.
func (s *stack) properties(name string) map[string]any {
	s.t.Helper()
	if !slices.Contains(s.resources(), name) {
		s.t.Fatalf("the stack has no %s", name)
	}
	return s.eval(s.declared(name).Properties).(map[string]any)
}

// eval evaluates a value, and fails the test if it cannot.
func (s *stack) eval(v any) any {
	s.t.Helper()
	value := s.Eval(v)
	if err := s.Err(); err != nil {
		s.t.Fatal(err)
	}
	return value
}
