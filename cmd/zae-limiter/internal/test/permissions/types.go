package permissions

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Types are the actions that CloudFormation needs for resources, by their type.
type Types map[string][]string

// ReadTypes reads a file of types.
func ReadTypes(file string) (Types, error) { return readFile[Types](file) }

// Write writes a file of types.
func (t Types) Write(file string) error { return writeFile(file, t) }

const aboutTypes = `
CloudFormation makes, changes and deletes the resources of the stack with the rights of the caller. The list below is
derived and was not tried on AWS: it has the actions that AWS's schema of each type of the template names, as cfn-lint
carries it. A schema covers all properties of its type, so a stack needs only some of the actions.

A principal that may create roles and policies can give any right to a role. Restrict these actions with a permission
boundary, or deploy with --no-iam.

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
