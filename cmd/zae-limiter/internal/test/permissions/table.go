package permissions

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/iamtrace"
)

// madeOf lists the calls of commands that do not send all of the calls' requests in each
// run: they meet only some branches of a call, or depend on what runs at the same time.
var madeOf = map[string][]string{
	"acquire":             decides,
	"available":           {"dynamo.Open", "Limiter.Available"},
	"loadtest ceiling":    loads,
	"loadtest run":        loads,
	"loadtest tune":       loads,
	"loadtest worker":     append([]string{"admin.Namespaces.Register"}, loads...),
	"provision":           {"customresource.Handler.Handle"},
	"redrive":             {"dynamo.OpenID", "stream.Follower.ReadRange", "aggregator.Aggregator.Process", "archive.Open", "archive.Archive.Put"},
	"aggregate":           follows,
	"aggregate --archive": append([]string{"archive.Open", "archive.Archive.Put"}, follows...),
}

// decides are the calls of a process that decides requests.
var decides = []string{"dynamo.Open", "Limiter.Acquire", "Lease.Commit", "Lease.Rollback"}

// loads are the calls of a load test, with those that only some scenarios make.
var loads = append([]string{
	"Limiter.Available", "dynamo.Store.SetLimits", "dynamo.Store.Limits", "dynamo.Store.CreateEntity", "dynamo.Store.Entity",
	"dynamo.Store.Children", "dynamo.Store.ResourcesWithDefaults", "dynamo.Store.DeleteEntity", "dynamo.Store.Buckets",
}, decides...)

// follows are the calls of a process that follows the stream.
var follows = []string{"stream.Follower.Check", "stream.Follower.Run", "aggregator.Aggregator.Follow", "aggregator.Aggregator.Process"}

// A Table is what docs/permissions.md shows.
type Table struct {
	Library, Commands Recorded
	Types             Types
	Verdicts
}

// The cells of the table.
const (
	yes  = "yes"
	part = "part"
	no   = "–"
)

// Markdown returns the tables of calls and commands, the notes on cells that say part,
// the policies of [Operators], and what CloudFormation does.
func (t *Table) Markdown() string {
	var b strings.Builder
	b.WriteString("## Commands\n\n")
	t.section(&b, "command", t.Commands, slices.Concat(Policies, Operators))
	b.WriteString("\n## Library calls\n\n")
	t.section(&b, "call", t.Library, Policies)
	t.operators(&b)
	t.Types.markdown(&b)
	return b.String()
}

// Whole returns commands with the accesses of the library calls of which they are made. A
// command has only one branch: a user cannot know what it will meet.
func (r Recorded) Whole(library Recorded) Recorded {
	all := maps.Clone(r)
	for command, calls := range madeOf {
		of := Recorded{command: r[command]}
		for _, call := range calls {
			of[call] = library[call]
		}
		all[command] = map[string][]string{AnyRun: Accesses(of)}
	}
	return all
}

func (t *Table) section(b *strings.Builder, kind string, r Recorded, policies []string) {
	fmt.Fprintf(b, "| %s | %s |\n|---|%s\n", kind, strings.Join(policies, " | "), strings.Repeat("---|", len(policies)))
	names := slices.Sorted(maps.Keys(r))
	var notes []string
	for _, name := range names {
		cells := []string{"`" + name + "`"}
		for _, policy := range policies {
			cell, refused := t.cell(policy, r[name])
			cells = append(cells, cell)
			if cell == part {
				notes = append(notes, fmt.Sprintf("- `%s` with %s, not: %s.", name, policy, strings.Join(refused, "; ")))
			}
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	if len(notes) > 0 {
		fmt.Fprintf(b, "\nAccesses that are refused where a cell says part:\n\n%s\n", strings.Join(notes, "\n"))
	}
	fmt.Fprintf(b, "\nThe actions that each %s needs:\n\n| %s | actions |\n|---|---|\n", kind, kind)
	for _, name := range names {
		fmt.Fprintf(b, "| `%s` | %s |\n", name, needs(r[name]))
	}
}

// cell says whether a policy allows all branches of a call, and which not.
func (t *Table) cell(policy string, branches map[string][]string) (cell string, refused []string) {
	allowed := 0
	for _, branch := range slices.Sorted(maps.Keys(branches)) {
		switch accesses := branches[branch]; {
		case len(accesses) == 0: // it needs nothing
		case t.allows(policy, accesses):
			allowed++
		default:
			refused = append(refused, branch)
		}
	}
	switch {
	case len(refused) == 0:
		return yes, nil
	case allowed == 0:
		return no, nil
	default:
		return part, refused
	}
}

// needs names the actions of all branches, with the index or the transaction.
func needs(branches map[string][]string) string {
	var all []string
	for _, access := range Accesses(Recorded{"": branches}) {
		a, err := iamtrace.Parse(access)
		if err != nil {
			panic(err) // it was written by String
		}
		all = append(all, need(a))
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

func need(a iamtrace.Access) string {
	action := "`" + strings.TrimPrefix(a.Action, "dynamodb:") + "`"
	if _, index, ok := strings.Cut(a.Resource, "/index/"); ok {
		action += " on " + index
	}
	return action
}
