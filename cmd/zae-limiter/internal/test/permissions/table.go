package permissions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	"serve":               append([]string{"Limiter.Available", "Limiter.Limits", "Limiter.Wait"}, decides...),
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
	Verdicts
}

// Markdown returns the tables of commands and calls, and the policies of [Operators].
func (t *Table) Markdown() string {
	var b strings.Builder
	b.WriteString("## Commands\n\n")
	t.section(&b, "commands", t.Commands, slices.Concat(Policies, Operators))
	b.WriteString("\n## Library calls\n\n")
	t.section(&b, "calls", t.Library, Policies)
	t.operators(&b)
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

// section has a row for each set of policies, with the commands or calls that each of these allows in
// all of their branches. The rows with the most policies come first.
func (t *Table) section(b *strings.Builder, kind string, r Recorded, policies []string) {
	by := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(r)) {
		accesses := Accesses(Recorded{name: r[name]})
		of := strings.Join(slices.DeleteFunc(slices.Clone(policies), func(p string) bool { return !t.allows(p, accesses) }), ", ")
		by[of] = append(by[of], "`"+name+"`")
	}
	fmt.Fprintf(b, "| allowed by | %s |\n|---|---|\n", kind)
	rows := slices.SortedFunc(maps.Keys(by), func(x, y string) int {
		return cmp.Or(strings.Count(y, ",")-strings.Count(x, ","), len(y)-len(x), cmp.Compare(x, y))
	})
	for _, of := range rows {
		shown := of
		switch of {
		case "":
			shown = "none of them"
		case strings.Join(policies, ", "):
			shown = "each"
		}
		fmt.Fprintf(b, "| %s | %s |\n", shown, strings.Join(by[of], ", "))
	}
}
