package cli

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// ownHelp makes cobra's commands help and completion check their arguments as all others do.
func ownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Run, cmd.RunE = nil, help
		case "completion":
			group := app.Group("", "")
			cmd.Args, cmd.RunE = group.Args, group.RunE
			for _, shell := range cmd.Commands() {
				shell.Args = app.Arguments
				shell.Flags().VisitAll(app.Strict)
			}
		}
	}
}

// help shows the help of the command that the words name.
func help(cmd *cobra.Command, words []string) error {
	about, rest, err := cmd.Root().Find(words)
	switch {
	case err != nil:
		return &app.UsageError{Err: err}
	case len(rest) > 0 && about.HasSubCommands():
		return about.Args(about, rest)
	case len(rest) > 0:
		return app.Usagef("%s has no commands, so there is no help for %q of it", about.CommandPath(), rest[0])
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}
