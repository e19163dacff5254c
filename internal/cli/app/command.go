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
	const farthest = 2 // letters to change
	for cmd.SuggestionsMinimumDistance = 1; cmd.SuggestionsMinimumDistance <= farthest; cmd.SuggestionsMinimumDistance++ {
		if s := cmd.SuggestionsFor(word); len(s) > 0 {
			return &UsageError{fmt.Errorf("%w: did you mean %s?", err, strings.Join(s, " or "))}
		}
	}
	return &UsageError{err}
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
		return nil
	}
}

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
