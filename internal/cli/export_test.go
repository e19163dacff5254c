package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

// CommandPaths are the words of each command; the root has none.
func CommandPaths() [][]string {
	var paths [][]string
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		paths = append(paths, path)
		for _, c := range cmd.Commands() {
			walk(c, append(slices.Clip(path), c.Name()))
		}
	}
	walk(newRoot(&app.App{}, Version{}), nil)
	return paths
}

// CommandOf returns the words of the command that arguments run, and whether it is one: a
// group of commands only prints help.
func CommandOf(args []string) (path string, isCommand bool) {
	cmd, _, err := newRoot(&app.App{}, Version{}).Find(args)
	if err != nil {
		return "", false
	}
	_, path, _ = strings.Cut(cmd.CommandPath(), " ")
	return path, !cmd.HasSubCommands()
}
