package cfntest

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// property is a text in the declaration of a parameter.
func (t *template) property(parameter, name string) (string, bool) {
	m, _ := t.parameters[parameter].(map[string]any)
	v, ok := m[name].(string)
	return v, ok
}

func (t *template) isList(parameter string) bool {
	kind, _ := t.property(parameter, "Type")
	return kind == "CommaDelimitedList" || strings.HasPrefix(kind, "List<")
}

// resolve gives every parameter its value: the given one, the previous one, or the default.
func (t *template) resolve(given []types.Parameter, previous map[string]string) (map[string]string, error) {
	values := map[string]string{}
	var unknown []string
	for _, p := range given {
		name := aws.ToString(p.ParameterKey)
		if _, ok := t.parameters[name]; !ok {
			unknown = append(unknown, name)
			continue
		}
		if aws.ToBool(p.UsePreviousValue) {
			old, ok := previous[name]
			if !ok || p.ParameterValue != nil {
				return nil, invalid("Invalid input for parameter key %s. Cannot specify usePreviousValue as true for a parameter key not in the previous template", name)
			}
			values[name] = old
			continue
		}
		values[name] = aws.ToString(p.ParameterValue)
	}
	if len(unknown) > 0 {
		return nil, invalid("Parameters: [%s] do not exist in the template", strings.Join(unknown, ", "))
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(t.parameters)) {
		if _, ok := values[name]; ok {
			continue
		}
		value, ok := t.property(name, "Default")
		if !ok {
			missing = append(missing, name)
		}
		values[name] = value
	}
	if len(missing) > 0 {
		return nil, invalid("Parameters: [%s] must have values", strings.Join(missing, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := t.allow(name, values[name]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// allow checks the constraints of a parameter.
func (t *template) allow(name, value string) error {
	m, _ := t.parameters[name].(map[string]any)
	if allowed, ok := m["AllowedValues"]; ok && !slices.Contains(texts(allowed), value) {
		return invalid("Parameter '%s' must be one of AllowedValues", name)
	}
	if pattern, ok := t.property(name, "AllowedPattern"); ok && !matches(pattern, value) {
		return invalid("Parameter '%s' must match pattern %s", name, pattern)
	}
	size := float64(len(value))
	least, most := "MinLength", "MaxLength"
	if kind, _ := t.property(name, "Type"); kind == "Number" {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return invalid("Parameter '%s' must be a number.", name)
		}
		size, least, most = n, "MinValue", "MaxValue"
	}
	if bound, ok := t.property(name, least); ok && size < number(bound) {
		return invalid("Parameter '%s' must be a number not less than %s", name, bound)
	}
	if bound, ok := t.property(name, most); ok && size > number(bound) {
		return invalid("Parameter '%s' must be a number not greater than %s", name, bound)
	}
	return nil
}

func matches(pattern, value string) bool {
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	return err == nil && re.MatchString(value)
}

func number(s string) float64 {
	n, _ := strconv.ParseFloat(s, 64)
	return n
}
