package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageOf is the help of a command below its description.
func usageOf(cmd *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage:\n  ")
	if cmd.HasAvailableSubCommands() {
		b.WriteString(cmd.CommandPath() + " COMMAND\n")
	} else {
		b.WriteString(cmd.UseLine() + "\n")
	}
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	isGlobal := map[string]bool{}
	for _, section := range global {
		for _, name := range section.flags {
			isGlobal[name] = true
		}
	}
	writeFlags(&b, "Flags", cmd, func(f *pflag.Flag) bool { return !isGlobal[f.Name] })
	for _, section := range global {
		of := map[string]bool{}
		for _, name := range section.flags {
			of[name] = true
		}
		writeFlags(&b, section.title+" flags", cmd, func(f *pflag.Flag) bool { return of[f.Name] })
	}
	return b.String()
}

// writeFlags writes the flags of a command that belong to a section.
func writeFlags(b *strings.Builder, title string, cmd *cobra.Command, belongs func(*pflag.Flag) bool) {
	set := pflag.NewFlagSet(title, pflag.ContinueOnError)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if belongs(f) {
			set.AddFlag(f)
		}
	})
	if set.HasAvailableFlags() {
		b.WriteString("\n" + title + ":\n" + strings.TrimRight(set.FlagUsages(), " \n") + "\n")
	}
}
