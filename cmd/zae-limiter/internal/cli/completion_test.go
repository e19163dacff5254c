package cli_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
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

// A script whose variable is empty must not get the flag's default instead of its file.
func TestNoFileIsEmpty(t *testing.T) {
	t.Parallel()
	for _, name := range cli.AcceptEmpty() {
		t.Errorf("%s takes an empty name: use app.Named", name)
	}
}
