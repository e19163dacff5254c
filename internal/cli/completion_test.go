package cli_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/cli"
)

// Whoever adds a flag or an argument decides what it completes; free is a decision, too.
func TestEveryFlagAndArgumentHasACompleter(t *testing.T) {
	t.Parallel()
	missing, unused := cli.Incomplete()
	for _, name := range missing {
		t.Errorf("%s has no entry in completionvalues.go", name)
	}
	for _, name := range unused {
		t.Errorf("%s of completionvalues.go is of no command", name)
	}
}
