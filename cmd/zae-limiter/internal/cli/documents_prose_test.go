package cli_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
)

// short matches a command in a line of prose that has a flag, and no name of the program.
var short = regexp.MustCompile("`[a-z][a-z-]* (?:[^`\n]+ )?--[^`\n]+`")

// TestTheShortCommandsOfTheDocumentsExist looks up commands in prose that leave out the name of the
// program, "aggregate --merge-quiet 0" for instance, with their flags.
func TestTheShortCommandsOfTheDocumentsExist(t *testing.T) {
	t.Parallel()
	groups := cli.Root().Commands()
	count := 0
	for document, text := range doctest.Prose(t, root) {
		for _, span := range short.FindAllString(text, -1) {
			args := strings.Fields(strings.Trim(span, "`"))
			if !slices.ContainsFunc(groups, func(c *cobra.Command) bool { return c.Name() == args[0] }) {
				continue
			}
			if last := args[len(args)-1]; strings.HasPrefix(last, "--") && !strings.Contains(last, "=") {
				args[len(args)-1] = last + "=1" // the page leaves out the value
			}
			err := cli.Parse(args, false)
			if err != nil && slices.Contains([]string{"load-testing.md", "locust.md", "scenarios.md"}, filepath.Base(document)) {
				err = cli.Parse(append([]string{"loadtest"}, args...), false) // and these the group
			}
			if err != nil && strings.Contains(err.Error(), "unknown flag") {
				t.Errorf("%s: %s: %v", document, span, err)
			}
			count++
		}
	}
	if count < 10 {
		t.Errorf("found %d commands: does the pattern still fit the documents?", count)
	}
}
