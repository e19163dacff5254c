package cli_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// expected are words that people expect to be commands. One that becomes a command leaves the
// list of the program.
var expected = strings.Fields("block unblock ban unban refill server start daemon set set-limit config rm remove destroy ls consume update clear-cascade")

var aCommand = regexp.MustCompile(`zae-limiter((?: [a-z]+(?:-[a-z]+)*){1,2})`)

// The hint for a missing command names commands that the program has.
func TestWhatThereIsInsteadOfACommand(t *testing.T) {
	t.Parallel()
	for _, path := range cli.CommandPaths() {
		for _, word := range expected {
			if len(path) > 0 && path[len(path)-1] == word {
				t.Errorf("%s is a command: delete the word", strings.Join(path, " "))
			}
		}
	}
	for _, word := range expected {
		code, _, stderr := run(t.Context(), strings.NewReader(""), word)
		_, there, _ := strings.Cut(strings.SplitN(stderr, "\n", 2)[0], `for "zae-limiter": `)
		named := aCommand.FindAllStringSubmatch(there, -1)
		if code != 2 || len(named) == 0 && !strings.Contains(there, "did you mean") {
			t.Errorf("%s: exit code %d, errors %q", word, code, stderr)
		}
		for _, n := range named {
			words := strings.Fields(n[1])
			if _, ok := cli.CommandOf(words); !ok {
				if _, ok := cli.CommandOf(words[:1]); !ok {
					t.Errorf("%s: there is no command%s", word, n[1])
				}
			}
		}
	}
}
