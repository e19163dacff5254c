package app

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group is a command that only holds subcommands.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// unknownCommand is the error of a word that names no command of a group. It suggests the
// commands that are spelled most alike.
func unknownCommand(cmd *cobra.Command, word string) error {
	err := fmt.Errorf("unknown command %q for %q", word, cmd.CommandPath())
	if s := alike(cmd, word); len(s) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(s, " or "))
	} else if s := elsewhere(cmd.Root(), word); len(s) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(s, " or "))
	} else if there := instead[word]; there != "" {
		err = fmt.Errorf("%w: %s", err, there)
	}
	return &UsageError{err}
}

// elsewhere are the commands of a name anywhere below a command.
func elsewhere(group *cobra.Command, name string) (paths []string) {
	for _, c := range group.Commands() {
		if c.Name() == name && c.IsAvailableCommand() {
			paths = append(paths, c.CommandPath())
		}
		paths = append(paths, elsewhere(c, name)...)
	}
	return paths
}

// Texts of [instead] that several words have.
const (
	switches = "zae-limiter entity disable and zae-limiter resource disable refuse all requests, entity bypass and resource bypass serve and count them, and clear undoes that"
	fillers  = "zae-limiter entity reset fills the limits of a bucket, and zae-limiter entity top-up adds tokens to them"
	servers  = "zae-limiter serve serves decisions, zae-limiter local the embedded database, and zae-limiter aggregate follows a table's stream"
	setters  = "zae-limiter entity set-limits, zae-limiter resource set-defaults and zae-limiter system set-defaults set limits"
	deleters = "zae-limiter entity delete deletes an entity, and zae-limiter delete a stack"
)

// instead says what there is for words that people expect to be commands.
var instead = map[string]string{
	"block": switches, "unblock": switches, "ban": switches, "unban": switches, "bypass": switches,
	"refill": fillers,
	"server": servers, "start": servers, "daemon": servers,
	"set": setters, "set-limit": setters, "config": setters,
	"rm": deleters, "remove": deleters, "destroy": deleters,
	"ls":            "zae-limiter list lists stacks, and zae-limiter entity list entities",
	"consume":       "zae-limiter acquire takes tokens",
	"update":        "zae-limiter upgrade brings a stack to this version, and zae-limiter deploy changes its options",
	"clear-cascade": "zae-limiter entity set-cascade and zae-limiter resource set-cascade take on, off or clear",
}

// alike are the commands of a group that are spelled most alike a word, or that it begins. An
// empty word begins all, and means none.
func alike(group *cobra.Command, word string) []string {
	const farthest = 2 // letters to change
	if word == "" {
		return nil
	}
	for group.SuggestionsMinimumDistance = 1; group.SuggestionsMinimumDistance <= farthest; group.SuggestionsMinimumDistance++ {
		if s := group.SuggestionsFor(word); len(s) > 0 {
			return s
		}
	}
	return nil
}

// Alike are those of some words that a mistyped word may mean: by one letter, or else by two,
// or that it begins.
func Alike(word string, words []string) []string {
	group := &cobra.Command{}
	for _, w := range words {
		group.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	return alike(group, word)
}

// Arguments requires exactly the arguments that a command's Use names. The last may be repeated if
// its name ends in dots.
func Arguments(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	more := strings.HasSuffix(cmd.Use, "...")
	switch {
	case len(args) < len(names):
		return Usagef("missing argument %s", strings.TrimSuffix(names[len(args)], "..."))
	case len(args) > len(names) && !more:
		return unexpected(cmd, args[len(names)], len(names))
	}
	for i, arg := range args {
		if name := strings.TrimSuffix(names[min(i, len(names)-1)], "..."); arg == "" && isFile(name) {
			return Usagef("invalid argument %s %q: it is empty: give a file", name, arg)
		}
	}
	return nil
}

// unexpected is the error of an argument after the n that a command takes. It names the flag for
// which the argument may be meant.
func unexpected(cmd *cobra.Command, word string, n int) error {
	for _, meant := range []struct {
		flag string
		is   bool
	}{
		{"limit", strings.Contains(word, ":")},
		{"consume", strings.Contains(word, "=")},
		{"file", strings.ContainsAny(word, "./")},
		{"entity", n == 0},
		{"resource", true},
		{"table", n == 0},
	} {
		if meant.is && cmd.Flags().Lookup(meant.flag) != nil {
			return Usagef("unexpected argument %q: did you mean --%s %s?", word, meant.flag, quoted(word))
		}
	}
	return Usagef("unexpected argument %q", word)
}

// isFile reports whether an argument of a name is a file.
func isFile(name string) bool { return name == "FILE" || strings.HasSuffix(name, ".json") }

// FlagError turns a flag error into a [UsageError]. A group of commands knows none of its
// commands' flags: if a word that names no command stands before the flag, that word is the
// mistake.
func FlagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words[0])
	}
	return &UsageError{err}
}

// Required reports that a flag is missing.
func Required(flag, example string) error {
	return errors.New("missing --" + flag + ": give it once at least, " + example + " for instance")
}
