package cli

import (
	"slices"

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
