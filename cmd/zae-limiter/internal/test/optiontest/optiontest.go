// Package optiontest compares a table of options with its template and with the fields of the
// options.
package optiontest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
)

// Differences are those between the rows and the declarations of the parameters of a template:
// missing ones, defaults, bounds and values.
func Differences[O any](table option.Table[O], declared map[string]any) (problems []string) {
	known := 0
	for _, r := range table {
		if r.Parameter == "" {
			continue
		}
		known++
		d, ok := declared[r.Parameter].(map[string]any)
		if !ok {
			problems = append(problems, "the template has no parameter "+r.Parameter)
			continue
		}
		if usual, has := d["Default"]; has == r.Required || has && usual != r.Default {
			problems = append(problems, fmt.Sprintf("%s: the default is %q in the table, and %q in the template", r.Parameter, r.Default, usual))
		}
		if r.Of == nil || r.Get != nil || d["AllowedPattern"] != nil { // the parameter has another unit, or a pattern
			continue
		}
		if in, out := bounds(&r), allowed(d); in != out {
			problems = append(problems, fmt.Sprintf("%s: the table allows %s, and the template %s", r.Parameter, in, out))
		}
	}
	if known != len(declared) {
		problems = append(problems, fmt.Sprintf("the table has %d parameters, and the template %d", known, len(declared)))
	}
	return problems
}

// bounds are what a row allows; "" is anything.
func bounds[O any](r *option.Row[O]) string {
	values := r.Values
	if _, ok := r.Of(new(O)).(*bool); ok && values == nil {
		values = []string{"true", "false"}
	}
	if values != nil {
		return fmt.Sprint(slices.Sorted(slices.Values(values)))
	}
	if r.Max == 0 {
		return ""
	}
	return fmt.Sprint(r.Min, " to ", r.Max)
}

// allowed are what the declaration of a parameter allows.
func allowed(declared map[string]any) string {
	if values, ok := declared["AllowedValues"].([]any); ok {
		var words []string
		for _, v := range values {
			words = append(words, fmt.Sprint(v))
		}
		return fmt.Sprint(slices.Sorted(slices.Values(words)))
	}
	if least, ok := declared["MinValue"]; ok {
		return fmt.Sprint(least, " to ", declared["MaxValue"])
	}
	return ""
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
