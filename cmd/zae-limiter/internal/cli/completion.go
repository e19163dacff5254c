package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// A place is what a shell completes: the word typed so far, after the arguments of a command.
type place struct {
	cmd   *cobra.Command
	args  []string
	typed string
}

// argument is an argument of the command line by its name in the usage, "" if it is not
// given yet.
func (p *place) argument(name string) string {
	if i := slices.Index(arguments(p.cmd), name); i >= 0 && i < len(p.args) {
		return p.args[i]
	}
	return ""
}

// flag is the value of a flag, "" if it was not given.
func (p *place) flag(name string) string {
	if f := p.cmd.Flags().Lookup(name); f != nil && f.Changed {
		return f.Value.String()
	}
	return ""
}

// A completer proposes words for a place, and says what the shell does besides.
type completer func(ctx context.Context, a *app.App, at *place) ([]string, cobra.ShellCompDirective)

// completes reports whether arguments ask for completion, as the script of a shell does.
func completes(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// bindCompletion gives every flag and argument its completer. Only a run that completes needs
// them: cobra keeps the functions of flags for the life of the process.
func bindCompletion(a *app.App, root *cobra.Command) {
	each(root, func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			f.Value = app.Repeatable(f) // to complete, cobra parses a line twice
			c, ok := flagCompleter(cmd, f)
			if _, done := cmd.GetFlagCompletionFunc(f.Name); !ok || done { // global flags are shared
				return
			}
			_ = cmd.RegisterFlagCompletionFunc(f.Name, shellFunc(a, c)) // the flag exists, and has none yet
		})
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			c, ok := argumentCompleter(cmd, len(args))
			if !ok {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return shellFunc(a, c)(cmd, args, typed)
		}
	})
}

// each calls f with a command and all below it.
func each(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		each(c, f)
	}
}

func shellFunc(a *app.App, c completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil { // the command was not executed
			ctx = context.Background()
		}
		return c(ctx, a, &place{cmd, args, typed})
	}
}

// flagCompleter is the completer of a flag: that of the command's flag, or that of every flag
// of the name, or the words of a choice. A flag without an entry has none.
func flagCompleter(cmd *cobra.Command, f *pflag.Flag) (completer, bool) {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	if c, ok := flagsOf[path+" "+f.Name]; ok {
		return c, true
	}
	if choice, ok := app.Repeatable(f).(interface{ Words() []string }); ok {
		return words(choice.Words()...), true
	}
	c, ok := flags[f.Name]
	return c, ok
}

// argumentCompleter is the completer of an argument by its place, counted from 0.
func argumentCompleter(cmd *cobra.Command, place int) (completer, bool) {
	names := arguments(cmd)
	if strings.Contains(cmd.Use, "...") { // the last is repeated
		place = min(place, len(names)-1)
	}
	if place >= len(names) {
		return nil, false
	}
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	if c, ok := argumentsOf[path+" "+names[place]]; ok {
		return c, true
	}
	c, ok := argumentsNamed[names[place]]
	return c, ok
}

// arguments are the names of the arguments in a command's usage.
func arguments(cmd *cobra.Command) []string {
	names := strings.Fields(cmd.Use)[1:]
	for i, name := range names {
		names[i] = strings.TrimSuffix(strings.Trim(name, "[]"), "...")
	}
	return names
}

// words proposes a few words.
func words(all ...string) completer {
	return func(_ context.Context, _ *app.App, at *place) ([]string, cobra.ShellCompDirective) {
		return beginning(at.typed, all), cobra.ShellCompDirectiveNoFileComp
	}
}

// beginning are the words that begin with what is typed.
func beginning(typed string, all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(w string) bool { return !strings.HasPrefix(w, typed) })
}

// commaList proposes the next of some words that commas separate.
func commaList(all ...string) completer {
	return func(_ context.Context, _ *app.App, at *place) ([]string, cobra.ShellCompDirective) {
		return nextOf(at.typed, all), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// nextOf are the words that may follow in a list with commas, each with the list before it.
// A word comes once, with or without an amount (rpm=1, rpm:10).
func nextOf(typed string, all []string) []string {
	at := strings.LastIndexByte(typed, ',') + 1
	before := typed[:at]
	used := map[string]bool{}
	for part := range strings.SplitSeq(before, ",") {
		name, _, _ := strings.Cut(part, "=")
		name, _, _ = strings.Cut(name, ":")
		used[name] = true
	}
	var next []string
	for _, word := range all {
		if !used[word] && strings.HasPrefix(word, typed[at:]) {
			next = append(next, before+word)
		}
	}
	return next
}

// free proposes nothing: the value is a number, a time or a text of the user's own.
func free(context.Context, *app.App, *place) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// directory lets the shell propose directories.
func directory(context.Context, *app.App, *place) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// file lets the shell propose files: all, or those with one of the extensions.
func file(extensions ...string) completer {
	return func(context.Context, *app.App, *place) ([]string, cobra.ShellCompDirective) {
		if len(extensions) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// stored proposes what read finds; [app.App.Propose] bounds it.
func stored(read func(context.Context, *app.App, *place) ([]string, error)) completer {
	return func(ctx context.Context, a *app.App, at *place) ([]string, cobra.ShellCompDirective) {
		return a.Propose(ctx, at.typed, func(ctx context.Context) ([]string, error) { return read(ctx, a, at) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// storedThen is [stored] for a word that a suffix and more follow.
func storedThen(suffix string, read func(context.Context, *app.App, *place) ([]string, error)) completer {
	return func(ctx context.Context, a *app.App, at *place) ([]string, cobra.ShellCompDirective) {
		all := a.Propose(ctx, "", func(ctx context.Context) ([]string, error) { return read(ctx, a, at) })
		for i := range all {
			all[i] += suffix
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// storedList is [stored] for a list with commas. suffix follows each word, before its amount.
func storedList(suffix string, read func(context.Context, *app.App, *place) ([]string, error)) completer {
	return func(ctx context.Context, a *app.App, at *place) ([]string, cobra.ShellCompDirective) {
		all := a.Propose(ctx, "", func(ctx context.Context) ([]string, error) { return read(ctx, a, at) })
		next := nextOf(at.typed, all)
		for i := range next {
			next[i] += suffix
		}
		return next, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}
