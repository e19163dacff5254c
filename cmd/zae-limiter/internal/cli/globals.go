package cli

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// global has the sections of global flags in help.
var global = []struct {
	title string
	flags []string
}{
	{"Table", []string{"table", "namespace"}},
	{"Connection", []string{"region", "endpoint-url", "local", "timeout"}},
	{"Output", []string{"output"}},
}

// meaningless says which global flags a command and those below it lack, and why. The entry
// of the longest path counts. A command without an entry has all.
var meaningless = []struct{ command, flags, why string }{
	{"aggregate", "namespace", "the stream carries all namespaces of the table"},
	{"backup", "namespace", "a backup has the whole table"},
	{"delete", "namespace local", "a stack is at AWS, and has all namespaces"},
	{"deploy", "namespace local", "a stack is at AWS, and has all namespaces"},
	{"estimate", "table namespace endpoint-url local", "nothing is sent"},
	{"lambda-export", "table namespace region endpoint-url local", "nothing is sent"},
	{"limits cfn-template", "region endpoint-url local", "nothing is sent"},
	{"limits schema", "table namespace region endpoint-url local", "nothing is sent"},
	{"list", "table namespace local", "stacks at AWS are listed"},
	{"loadtest ceiling", "namespace", "the command makes namespaces of its own"},
	{"loadtest compare", "table namespace region endpoint-url local", "nothing is sent"},
	{"loadtest delete", "namespace local", "a stack is at AWS; its namespace stays"},
	{"loadtest deploy", "local", "a stack is at AWS"},
	{"loadtest list", "table namespace local", "stacks at AWS are listed"},
	{"loadtest report", "table namespace region endpoint-url local", "nothing is sent"},
	{"loadtest run", "namespace", "the command makes namespaces of its own"},
	{"loadtest scenarios", "table namespace region endpoint-url local", "nothing is sent"},
	{"loadtest show", "table namespace region endpoint-url local", "nothing is sent"},
	{"loadtest swarm", "namespace local", "a stack is at AWS, and has its namespace"},
	{"loadtest tune", "namespace", "the command makes namespaces of its own"},
	{"loadtest ui", "namespace local", "a stack is at AWS, and has its namespace"},
	{"local", "table namespace region endpoint-url local", "other programs choose them; --data has the directory"},
	{"name", "table namespace region endpoint-url local", "nothing is sent"},
	{"namespace", "namespace", "the namespace is an argument"},
	{"periods", "table namespace region endpoint-url local", "nothing is sent"},
	{"redrive", "namespace", "the queue has the records of all namespaces"},
	{"replay", "table namespace region endpoint-url local", "nothing is sent"},
	{"rollback", "namespace local", "a stack is at AWS, and has all namespaces"},
	{"status", "namespace", "a stack has all namespaces"},
	{"table", "namespace", "the whole table is meant"},
	{"table create", "", ""},
	{"template", "namespace region endpoint-url local", "nothing is sent"},
	{"upgrade", "namespace local", "a stack is at AWS, and has all namespaces"},
	{"version", "namespace", "a table has one version"},
}

// lacks is the entry of a command in meaningless.
func lacks(cmd *cobra.Command) (flags []string, why string) {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	longest := 0
	for _, m := range meaningless {
		if (path == m.command || strings.HasPrefix(path, m.command+" ")) && len(m.command) > longest {
			flags, why, longest = strings.Fields(m.flags), m.why, len(m.command)
			if slices.Contains(flags, "region") { // nothing is asked
				flags = append(flags, "timeout")
			}
		}
	}
	return flags, why
}

// bindGlobal gives every command the global flags that mean something for it. A flag is the
// same wherever it stands, also before the command.
func bindGlobal(a *app.App, root *cobra.Command) {
	all := pflag.NewFlagSet("global", pflag.ContinueOnError)
	a.Flags.Bind(all)
	all.VisitAll(app.Strict)
	var bind func(cmd *cobra.Command)
	bind = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(app.Strict)
		without, _ := lacks(cmd)
		missing := map[string]bool{}
		for _, name := range without {
			missing[name] = true
		}
		all.VisitAll(func(f *pflag.Flag) {
			if !missing[f.Name] && cmd.Flags().Lookup(f.Name) == nil { // else the command has one of its own
				cmd.Flags().AddFlag(unshortened(cmd, f))
			}
		})
		cmd.Flags().SetNormalizeFunc(normalized(cmd.Flags()))
		for _, c := range cmd.Commands() {
			bind(c)
		}
	}
	bind(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			if why := notAFlag(cmd, all, unknown); why != nil {
				return why
			}
		}
		if twice, ok := errors.AsType[*pflag.InvalidValueError](err); ok && errors.Is(err, app.ErrTwice) {
			return givenTwice(twice.GetFlag())
		}
		return app.FlagError(cmd, err)
	})
}

// givenTwice is the error of a flag that takes one value. It does not repeat the values, which
// may be secret.
func givenTwice(f *pflag.Flag) error {
	var names []string
	for _, other := range slices.Sorted(maps.Keys(otherNames)) {
		if otherNames[other] == f.Name {
			names = append(names, "--"+other)
		}
	}
	also := ""
	if len(names) > 0 {
		also = "; other names of the flag are " + strings.Join(names, " ")
	}
	return app.Usagef("--%s was given twice, and takes one value: give it once%s", f.Name, also)
}

// notAFlag tells more of a flag that a command does not have: that it is a global one without
// meaning for the command, or which one was meant. It returns nil if there is no more to tell.
func notAFlag(cmd *cobra.Command, global *pflag.FlagSet, unknown *pflag.NotExistError) error {
	name := unknown.GetSpecifiedName()
	f := global.Lookup(name)
	if len(name) == 1 {
		f = global.ShorthandLookup(name)
	}
	if _, why := lacks(cmd); f != nil && why != "" {
		return app.Usagef("--%s has no meaning for %s: %s", f.Name, cmd.CommandPath(), why)
	}
	if cmd.HasSubCommands() {
		return nil
	}
	if thing := otherThing(cmd.Flags()); name == "name" && thing != "" {
		return app.Usagef("--name has two meanings for %s: give --table or --%s", cmd.CommandPath(), thing)
	}
	if meant := alikeFlags(cmd, name); len(meant) > 0 {
		return app.Usagef("%w: did you mean %s?", unknown, strings.Join(meant, " or "))
	}
	if argument := argumentFor(cmd, name); argument != "" {
		return app.Usagef("%w: %s is an argument: %s", unknown, argument, cmd.UseLine())
	}
	return nil
}

// argumentFor is the argument of a command that a flag of a name would be, "" if none is.
func argumentFor(cmd *cobra.Command, name string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "-id"), "-name")
	for _, argument := range arguments(cmd) {
		called := strings.ToLower(argument)
		if called == name || called == "id" && cmd.Parent().Name() == name {
			return argument
		}
	}
	return ""
}

// most is the flag for a number of results.
const most = "max"

// alikeFlags are the flags of a command that a mistyped name may mean.
func alikeFlags(cmd *cobra.Command, name string) (meant []string) {
	if len(name) == 1 {
		return nil
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if name == "limit" && slices.Contains(names, most) {
		return []string{"--" + most} // as the Python package names it, for a number of results
	}
	for _, is := range app.Alike(name, names) {
		meant = append(meant, "--"+is)
	}
	return meant
}

// unshortened is the flag without its letter if the command uses the letter otherwise.
func unshortened(cmd *cobra.Command, f *pflag.Flag) *pflag.Flag {
	if f.Shorthand == "" || cmd.Flags().ShorthandLookup(f.Shorthand) == nil {
		return f
	}
	long := *f
	long.Shorthand = ""
	return &long
}

// otherNames are names that flags have in the Python package's command line: the table of a
// stack has the stack's name.
var otherNames = map[string]string{"name": "table", "stack": "table", "entity-id": "entity", "start-event-id": "cursor"}

// otherThings are the flags with the name of something else than a table. Beside one of them,
// --name would mean either.
var otherThings = []string{"display-name", "as", "manifest"}

// otherThing is the flag of otherThings that a command has, "" if it has none.
func otherThing(set *pflag.FlagSet) string {
	for _, name := range otherThings {
		if set.Lookup(name) != nil {
			return name
		}
	}
	return ""
}

// normalized lets flags be given by their [otherNames].
func normalized(set *pflag.FlagSet) func(*pflag.FlagSet, string) pflag.NormalizedName {
	names := maps.Clone(otherNames)
	if otherThing(set) != "" {
		delete(names, "name")
	}
	for other, name := range names {
		if set.Lookup(other) != nil || set.Lookup(name) == nil {
			delete(names, other)
		}
	}
	return func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if own, ok := names[name]; ok {
			return pflag.NormalizedName(own)
		}
		return pflag.NormalizedName(name)
	}
}
