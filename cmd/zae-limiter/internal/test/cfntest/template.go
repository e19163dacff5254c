package cfntest

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const maxTemplate = 51_200

// A template is a parsed template. Scalars are strings, and short forms of functions are
// written out.
type template struct {
	body       string
	parameters map[string]any
	conditions map[string]any
	resources  map[string]declared
	outputs    map[string]any
}

// declared is a resource of a template.
type declared struct {
	id, kind      string
	condition     string
	properties    any
	dependsOn     []string
	deletion      string // DeletionPolicy
	keeps         bool   // the template has a DeletionPolicy
	replaceUpdate string // UpdateReplacePolicy
}

// parse reads a template and checks its form.
func parse(body string) (*template, error) {
	if len(body) > maxTemplate {
		return nil, invalid("1 validation error detected: Value at 'templateBody' failed to satisfy constraint: Member must have length less than or equal to 51200")
	}
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(body), &node); err != nil || len(node.Content) == 0 {
		return nil, invalid("Template format error: YAML not well-formed.")
	}
	tree, err := plain(node.Content[0], "")
	if err != nil {
		return nil, err
	}
	root, ok := tree.(map[string]any)
	if !ok {
		return nil, invalid("Template format error: unsupported structure.")
	}
	t := &template{
		body: body, parameters: section(root, "Parameters"), conditions: section(root, "Conditions"),
		outputs: section(root, "Outputs"), resources: map[string]declared{},
	}
	for key := range root {
		if !slices.Contains([]string{"AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Conditions", "Resources", "Outputs"}, key) {
			return nil, invalid("Invalid template property or properties [%s]", key)
		}
	}
	for id, v := range section(root, "Resources") {
		if t.resources[id], err = declare(id, v); err != nil {
			return nil, err
		}
	}
	if len(t.resources) == 0 {
		return nil, invalid("Template format error: At least one Resources member must be defined.")
	}
	return t, t.check()
}

func section(root map[string]any, name string) map[string]any {
	m, _ := root[name].(map[string]any)
	return m
}

// declare reads one resource.
func declare(id string, v any) (declared, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return declared{}, invalid("Template format error: [/Resources/%s] resource definition is malformed", id)
	}
	d := declared{id: id, properties: map[string]any{}, deletion: "Delete", replaceUpdate: "Delete"}
	for key, value := range m {
		text, isText := value.(string)
		switch key {
		case "Type":
			d.kind = text
		case "Condition":
			d.condition = text
		case "Properties":
			d.properties = value
		case "DeletionPolicy":
			d.deletion, d.keeps = text, true
		case "UpdateReplacePolicy":
			d.replaceUpdate = text
		case "DependsOn":
			d.dependsOn = texts(value)
			isText = true
		case "Metadata", "UpdatePolicy", "CreationPolicy":
		default:
			return d, invalid("Invalid template resource property '%s'", key)
		}
		if !isText && key != "Properties" && key != "Metadata" && key != "UpdatePolicy" && key != "CreationPolicy" {
			return d, invalid("Template error: every %s member must be a string", key)
		}
	}
	if d.kind == "" {
		return d, invalid("Template format error: [/Resources/%s] Every Resources object must contain a Type member.", id)
	}
	for name, policy := range map[string]string{"DeletionPolicy": d.deletion, "UpdateReplacePolicy": d.replaceUpdate} {
		known := policy == "Delete" || policy == "Retain" || policy == "Snapshot" || policy == "RetainExceptOnCreate" && name == "DeletionPolicy"
		if !known {
			return d, invalid("Template error: Unrecognized %s %s for resource %s", name, policy, id)
		}
	}
	return d, nil
}

func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				all = append(all, s)
			}
		}
		return all
	}
	return nil
}

// check refuses references to what the template does not have.
func (t *template) check() error {
	conditions := slices.Collect(maps.Keys(t.conditions))
	var missing []string
	for _, id := range slices.Sorted(maps.Keys(t.resources)) {
		r := t.resources[id]
		if r.condition != "" && !slices.Contains(conditions, r.condition) {
			return invalid("Template format error: Unresolved condition dependency %s in the Resources block of the template", r.condition)
		}
		for _, of := range append(refs(r.properties), r.dependsOn...) {
			_, isParameter := t.parameters[of]
			_, isResource := t.resources[of]
			if !isParameter && !isResource && !strings.HasPrefix(of, "AWS::") {
				missing = append(missing, of)
			}
		}
	}
	if len(missing) > 0 {
		return invalid("Template format error: Unresolved resource dependencies [%s] in the Resources block of the template", strings.Join(missing, ", "))
	}
	for _, id := range slices.Sorted(maps.Keys(t.outputs)) {
		o, ok := t.outputs[id].(map[string]any)
		if !ok || o["Value"] == nil {
			return invalid("Template format error: Every Outputs member must contain a Value object")
		}
		if name, ok := o["Condition"].(string); ok && !slices.Contains(conditions, name) {
			return invalid("Template format error: Unresolved condition dependency %s in the Outputs block of the template", name)
		}
	}
	return nil
}

// refs are the names that a value refers to.
func refs(v any) []string {
	var all []string
	walk(v, func(function string, argument any) {
		switch function {
		case "Ref":
			all = append(all, texts(argument)...)
		case "Fn::GetAtt":
			if parts := attribute(argument); len(parts) > 0 {
				all = append(all, parts[0])
			}
		case "Fn::Sub":
			format, local := substitution(argument)
			for _, m := range variable.FindAllStringSubmatch(format, -1) {
				name, _, _ := strings.Cut(m[1], ".")
				if _, ok := local[m[1]]; !ok && !strings.HasPrefix(m[1], "!") {
					all = append(all, name)
				}
			}
		}
	})
	return all
}

// walk calls f with every function in a value.
func walk(v any, f func(function string, argument any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if len(v) == 1 && (key == "Ref" || strings.HasPrefix(key, "Fn::")) {
				f(key, v[key])
			}
			walk(v[key], f)
		}
	case []any:
		for _, e := range v {
			walk(e, f)
		}
	}
}

// plain turns a node into maps, lists and strings.
func plain(n *yaml.Node, path string) (any, error) {
	if n.Kind == yaml.AliasNode {
		return nil, invalid("Template error: YAML aliases are not allowed in CloudFormation templates")
	}
	v, err := untagged(n, path)
	if err != nil || !strings.HasPrefix(n.Tag, "!") || strings.HasPrefix(n.Tag, "!!") {
		return v, err
	}
	switch name := n.Tag[1:]; name {
	case "Ref", "Condition":
		return map[string]any{name: v}, nil
	case "GetAtt", "Sub", "If", "Equals", "And", "Or", "Not", "Join", "Select", "Split", "ImportValue":
		return map[string]any{"Fn::" + name: v}, nil
	}
	return nil, invalid("Template format error: YAML not well-formed. (unknown tag %s at %s)", n.Tag, path)
}

func untagged(n *yaml.Node, path string) (any, error) {
	switch {
	case n.Kind == yaml.MappingNode:
		return mapping(n, path)
	case n.Kind == yaml.SequenceNode:
		list := []any{}
		for _, e := range n.Content {
			v, err := plain(e, path)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case n.Tag == "!!null":
		return nil, invalid("[%s] 'null' values are not allowed in templates", path)
	}
	return n.Value, nil
}

func mapping(n *yaml.Node, path string) (any, error) {
	m := map[string]any{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if _, twice := m[key]; twice {
			return nil, invalid("Template format error: duplicate key %s/%s", path, key)
		}
		v, err := plain(n.Content[i+1], path+"/"+key)
		if err != nil {
			return nil, err
		}
		m[key] = v
	}
	return m, nil
}
