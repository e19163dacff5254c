package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// exampleIndent is the indentation of the further lines of a command.
const exampleIndent = 6

// helpOf is the help of a command.
func helpOf(cmd *cobra.Command) string {
	about := cmd.Long
	if about == "" {
		about = cmd.Short
	}
	return rewrapped(strings.TrimSpace(about)) + "\n\n" + usageOf(cmd)
}

// usageOf is the help of a command below its description.
func usageOf(cmd *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage:\n  ")
	if cmd.HasAvailableSubCommands() {
		b.WriteString(cmd.CommandPath() + " COMMAND\n")
	} else {
		b.WriteString(wrapped(cmd.UseLine(), "", exampleIndent) + "\n")
	}
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n")
		for line := range strings.Lines(cmd.Example + "\n") {
			b.WriteString(wrapped(strings.TrimSuffix(line, "\n"), " \\", exampleIndent) + "\n")
		}
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				name := fmt.Sprintf("  %-*s ", c.NamePadding(), c.Name())
				b.WriteString(wrapped(name+c.Short, "", len(name)) + "\n")
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
	const widest, gap = 30, 3 // a wider name has a line of its own
	var rows [][2]string
	column := 0
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || !belongs(f) {
			return
		}
		name, usage := described(f)
		rows = append(rows, [2]string{name, usage})
		if len(name) <= widest {
			column = max(column, len(name)+gap)
		}
	})
	if len(rows) == 0 {
		return
	}
	b.WriteString("\n" + title + ":\n")
	for _, row := range rows {
		name, usage := row[0], row[1]
		if len(name)+gap > column {
			b.WriteString(name + "\n")
			name = ""
		}
		b.WriteString(wrapped(fmt.Sprintf("%-*s%s", column, name, usage), "", column) + "\n")
	}
}

// described is a flag as pflag describes it: its names and value, and its meaning with its
// default, on one line.
func described(f *pflag.Flag) (name, usage string) {
	const names = 6 // columns before the long name
	alone := pflag.NewFlagSet(f.Name, pflag.ContinueOnError)
	alone.AddFlag(f)
	line := alone.FlagUsages()
	name, usage, _ = strings.Cut(line[names:], "   ")
	return line[:names] + name, strings.Join(strings.Fields(usage), " ")
}
