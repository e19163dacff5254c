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
	}
	return &UsageError{err}
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

// Args requires exactly the named arguments. The last may be repeated if its name ends in
// dots.
func Args(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		more := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "...")
		switch {
		case len(args) < len(names):
			return Usagef("missing argument %s", strings.TrimSuffix(names[len(args)], "..."))
		case len(args) > len(names) && !more:
			return Usagef("unexpected argument %q", args[len(names)])
		}
		for i, arg := range args {
			if name := strings.TrimSuffix(names[min(i, len(names)-1)], "..."); arg == "" && isFile(name) {
				return Usagef("invalid argument %s %q: it is empty: give a file", name, arg)
			}
		}
		return nil
	}
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
