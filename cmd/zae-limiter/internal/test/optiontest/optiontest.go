// Package optiontest compares a table of options with its template and with the fields of the
// options.
package optiontest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
	"github.com/zeroae/zae-limiter-go/store"
)

// A declaration is that of a parameter of a template.
type declaration struct {
	Default        *string  `yaml:"Default"`
	AllowedValues  []string `yaml:"AllowedValues"`
	AllowedPattern string   `yaml:"AllowedPattern"`
	MinValue       string   `yaml:"MinValue"`
	MaxValue       string   `yaml:"MaxValue"`
	MinLength      int      `yaml:"MinLength"`
	MaxLength      int      `yaml:"MaxLength"`
}

// A template has declarations of parameters.
type template struct {
	Parameters map[string]declaration `yaml:"Parameters"`
}

// Refuses reports whether a template itself refuses a value of a parameter.
func Refuses(text, parameter, value string) bool {
	var t template
	if err := yaml.Unmarshal([]byte(text), &t); err != nil {
		panic(err)
	}
	d := t.Parameters[parameter]
	number, err := strconv.Atoi(value)
	return d.AllowedValues != nil && !slices.Contains(d.AllowedValues, value) ||
		d.AllowedPattern != "" && !regexp.MustCompile("^(?:"+d.AllowedPattern+")$").MatchString(value) ||
		len(value) < d.MinLength || d.MaxLength > 0 && len(value) > d.MaxLength ||
		d.MinValue != "" && (err != nil || number < integer(d.MinValue) || d.MaxValue != "" && number > integer(d.MaxValue))
}

func integer(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// Differences are those between the rows and the declarations of the parameters of a template:
// their order, defaults, bounds and values.
func Differences[O any](table option.Table[O], text string) (problems []string) {
	var t template
	if err := yaml.Unmarshal([]byte(text), &t); err != nil {
		return []string{err.Error()}
	}
	var defaults O
	table.SetDefaults(&defaults)
	sent := maps.Collect(table.Parameters(&defaults))
	if len(sent) != len(t.Parameters) {
		problems = append(problems, fmt.Sprintf("the table has %d parameters, and the template %d", len(sent), len(t.Parameters)))
	}
	after := 0
	for _, r := range table {
		if r.Parameter == "" {
			continue
		}
		at := strings.Index(text, "\n  "+r.Parameter+": {")
		if at < after {
			problems = append(problems, r.Parameter+" has another place in the template")
		}
		after = at
		for _, difference := range differences(&r, t.Parameters[r.Parameter], sent[r.Parameter]) {
			problems = append(problems, r.Parameter+": "+difference)
		}
	}
	return problems
}

// differences are those of one parameter. sent is its value by default.
func differences[O any](r *option.Row[O], d declaration, sent string) (all []string) {
	if (d.Default == nil) != r.Required || d.Default != nil && *d.Default != r.Default {
		all = append(all, fmt.Sprintf("the table has the default %q, and the template another", r.Default))
	}
	if sent != r.Default {
		all = append(all, fmt.Sprintf("the default is %q, and %q is sent", r.Default, sent))
	}
	if r.Of == nil || r.Get != nil || d.AllowedPattern != "" { // the parameter has another unit, or a pattern
		return all
	}
	if in, out := bounds(r), d.bounds(); in != out {
		all = append(all, fmt.Sprintf("the table allows %q, and the template %q", in, out))
	}
	return all
}

// bounds are what a row allows; "" is anything.
func bounds[O any](r *option.Row[O]) string {
	values := r.Values
	if _, ok := r.Of(new(O)).(*bool); ok && values == nil {
		values = []string{"true", "false"}
	}
	switch {
	case values != nil:
		return fmt.Sprint(slices.Sorted(slices.Values(values)))
	case r.Max == 0:
		return ""
	}
	return fmt.Sprint(r.Min, " to ", r.Max)
}

// bounds are what a template allows.
func (d *declaration) bounds() string {
	switch {
	case d.AllowedValues != nil:
		return fmt.Sprint(slices.Sorted(slices.Values(d.AllowedValues)))
	case d.MinValue == "0" && d.MaxValue == "1": // a bool
		return "[0 1]"
	case d.MinValue == "":
		return ""
	}
	return d.MinValue + " to " + d.MaxValue
}

// Accepted are the values that an option is to refuse and does not, or the other way around.
func Accepted[O any](table option.Table[O], valid func() O, check func(O) error) (problems []string) {
	for _, r := range table {
		if r.Of == nil {
			continue
		}
		good, bad := examples(&r)
		for _, put := range good {
			o := valid()
			put(r.Of(&o))
			if value, reason := r.Refused(&o); reason != "" {
				problems = append(problems, fmt.Sprintf("%s refuses %q: %s", r.Name, value, reason))
			}
		}
		for _, put := range bad {
			o := valid()
			put(r.Of(&o))
			wrong := (*store.ValidationError)(nil)
			if err := check(o); !errors.As(err, &wrong) || wrong.Field != r.Name || wrong.Reason == "" {
				problems = append(problems, fmt.Sprintf("%s is %v: %v", r.Name, reflect.ValueOf(r.Of(&o)).Elem(), err))
			}
		}
	}
	return problems
}

// examples set an option to what its row takes, and to what it refuses.
func examples[O any](r *option.Row[O]) (good, bad []func(field any)) {
	seconds := func(s float64) func(any) { return set(time.Duration(s * float64(time.Second))) }
	const none = "no such/ value\n"
	switch r.Of(new(O)).(type) {
	case *int:
		if bad = append(bad, set(-1)); r.Max > 0 {
			good, bad = append(good, set(r.Min), set(r.Max)), append(bad, set(r.Max+1))
		}
		if r.Default != "" {
			bad = append(bad, set(r.Min-1))
		}
	case *time.Duration:
		if bad = append(bad, seconds(float64(r.Min)-1), seconds(float64(r.Min)+0.001)); r.Max > 0 {
			good, bad = append(good, seconds(float64(r.Min)), seconds(float64(r.Max))), append(bad, seconds(float64(r.Max)+1))
		}
	case *string:
		for _, v := range r.Values {
			good = append(good, set(v))
		}
		bad = append(bad, set(none))
	case *[]string:
		bad = append(bad, set([]string{none}))
	}
	return good, bad
}

// set puts a value into an option of its type.
func set[T any](value T) func(option any) {
	return func(option any) {
		if at, ok := option.(*T); ok {
			*at = value
		}
	}
}

// Unnamed are the rows whose name is not that of their field, and the fields that no row has,
// besides some.
func Unnamed[O any](table option.Table[O], besides ...string) (problems []string) {
	var o O
	fields := addresses(reflect.ValueOf(&o).Elem(), "")
	for _, r := range table {
		if r.Of == nil {
			continue
		}
		at := reflect.ValueOf(r.Of(&o)).Pointer()
		if fields[at] != r.Name {
			problems = append(problems, fmt.Sprintf("the row %q has the field %q", r.Name, fields[at]))
		}
		delete(fields, at)
	}
	for _, name := range fields {
		if !slices.Contains(besides, name) {
			problems = append(problems, fmt.Sprintf("the option %s has no row", name))
		}
	}
	return problems
}

// addresses are the names of the fields by their addresses, Capacity.MinRead for instance.
func addresses(of reflect.Value, prefix string) map[uintptr]string {
	all := map[uintptr]string{}
	for i := range of.NumField() {
		field, name := of.Field(i), prefix+of.Type().Field(i).Name
		if field.Kind() != reflect.Struct {
			all[field.Addr().Pointer()] = name
			continue
		}
		maps.Copy(all, addresses(field, name+"."))
	}
	return all
}
