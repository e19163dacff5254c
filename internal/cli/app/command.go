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
			err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
				err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(s, " or "))
			}
			return &UsageError{err}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	const distance = 2
	cmd.SuggestionsMinimumDistance = distance
	cmd.AddCommand(commands...)
	return cmd
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

// FlagError turns a flag error into a [UsageError].
func FlagError(_ *cobra.Command, err error) error { return &UsageError{err} }

// Required reports that a flag is missing.
func Required(flag, example string) error {
	return errors.New("missing --" + flag + ": give it once at least, " + example + " for instance")
}
