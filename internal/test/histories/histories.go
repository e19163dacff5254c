// Package histories checks properties of histories of writes with rapid. Some histories break
// a property only once in a hundred thousand. A test therefore checks the same histories at
// every run, and fails only by what somebody changed. make laws draws others: with
// -rapid.seed=0, each run has its own.
package histories

import (
	"flag"
	"testing"

	"pgregory.net/rapid"
)

var _ = flag.Set("rapid.seed", "1") // the command line comes later, and wins

// Check checks a property over so many rounds. Each round has as many histories as the flag
// rapid.checks says.
func Check(t *testing.T, rounds int, property func(*rapid.T)) {
	t.Helper()
	for round := range rounds {
		rapid.Check(t, func(t *rapid.T) {
			rapid.SliceOfN(rapid.Byte(), round, round).Draw(t, "round") // its histories are not those of another
			property(t)
		})
	}
}
