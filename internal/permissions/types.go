package permissions

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Types are the actions that CloudFormation needs for resources, by their type.
type Types map[string][]string

// ReadTypes reads a file of types.
func ReadTypes(file string) (Types, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var t Types
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return t, nil
}

// Write writes a file of types.
func (t Types) Write(file string) error {
	text, err := json.MarshalIndent(t, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o600)
}

const aboutTypes = `
CloudFormation makes, changes and deletes the resources of the stack with the rights of the caller. The list below is
derived and was not tried on AWS: it has the actions that AWS's schema of each type of the template names, as cfn-lint
carries it. A schema covers all properties of its type, so a stack needs only some of the actions.

Whoever may create roles and policies can give any right to a role. Restrict these actions with a permission boundary, or
deploy with --no-iam.

| type | actions |
|---|---|
`

// markdown writes the types as a table.
func (t Types) markdown(b *strings.Builder) {
	b.WriteString("\n## What CloudFormation does\n" + aboutTypes)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(b, "| `%s` | `%s` |\n", name, strings.Join(t[name], "`, `"))
	}
}
