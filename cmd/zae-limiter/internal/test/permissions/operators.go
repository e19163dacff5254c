package permissions

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/iamtrace"
)

// Operators are the names of the policies for people who run stacks and tables. They are not
// in the template, because its stack does not exist before them. Each allows exactly what
// its commands were recorded to ask.
var Operators = []string{"deployer", "operator"}

// operates lists the commands of each of [Operators]. check is in none: it tries what the
// caller may do.
var operates = map[string][]string{
	"deployer": {"delete", "deploy", "list", "rollback", "status", "upgrade"},
	"operator": {
		"backup create", "backup delete", "backup list", "backup restore", "redrive",
		"table create", "table delete", "table enable-stream", "table show",
	},
}

// A Document is an IAM policy.
type Document struct {
	Version   string
	Statement []Statement
}

// A Statement allows actions on one resource.
type Statement struct {
	Effect    string
	Action    []string
	Resource  string
	Condition map[string]map[string]string `json:",omitempty"`
}

// ofTheTable holds for requests about items that belong to the table and no namespace.
var ofTheTable = map[string]map[string]string{
	"ForAllValues:StringLike": {"dynamodb:LeadingKeys": "_/*"},
	"Null":                    {"dynamodb:LeadingKeys": "false"},
}

// OperatorPolicy returns one of [Operators] for the names that the recorded policies have.
func OperatorPolicy(name string, commands Recorded) (Document, error) {
	free, bound := map[string][]string{}, map[string][]string{} // actions by resource
	for _, command := range operates[name] {
		if len(commands[command]) == 0 {
			return Document{}, fmt.Errorf("no request of %s is recorded", command)
		}
		for _, access := range Accesses(Recorded{command: commands[command]}) {
			a, err := iamtrace.Parse(access)
			if err != nil {
				return Document{}, err
			}
			to := free
			if isTheTables(a.LeadingKeys) {
				to = bound
			}
			to[named(a, rest)] = append(to[named(a, rest)], a.Action)
		}
	}
	d := Document{Version: "2012-10-17", Statement: statements(free, nil)}
	for resource, actions := range bound {
		bound[resource] = slices.DeleteFunc(actions, func(a string) bool { return slices.Contains(free[resource], a) })
	}
	d.Statement = append(d.Statement, statements(bound, ofTheTable)...)
	return d, nil
}

// isTheTables reports whether partition keys are of the table itself.
func isTheTables(keys []string) bool {
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(k string) bool { return !strings.HasPrefix(k, "_/") })
}

// statements allow actions on resources under a condition.
func statements(actions map[string][]string, condition map[string]map[string]string) (all []Statement) {
	for _, resource := range slices.Sorted(maps.Keys(actions)) {
		if of := slices.Sorted(slices.Values(actions[resource])); len(of) > 0 {
			all = append(all, Statement{"Allow", slices.Compact(of), resource, condition})
		}
	}
	return all
}

const aboutOperators = `
## Policies for those who deploy and operate

Each policy allows exactly what its commands were recorded to ask. The judge finds that it allows all of them.

- Replace the region, the account, and the name of the stack and table, which is limits here.
- trail is the bucket of the archive, and limits-functioncodebucket-1 that of the code. CloudFormation chooses their names;
  the outputs AuditArchiveBucketName and CodeBucketName of the stack have them.
- For backup restore, also name the new table, beside the table.
- A policy for table delete or delete can destroy data. Leave these actions out where nobody should do that.
`

// operators writes the policies of [Operators].
func (t *Table) operators(b *strings.Builder) {
	b.WriteString(aboutOperators)
	for _, name := range Operators {
		d, err := OperatorPolicy(name, t.Commands)
		if err != nil {
			panic(err) // every command is recorded
		}
		text, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			panic(err) // it has only texts
		}
		fmt.Fprintf(b, "\n### %s\n\nFor the commands `%s`.\n\n```json\n%s\n```\n", name, strings.Join(operates[name], "`, `"), text)
	}
}
