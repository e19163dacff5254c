//go:build conformance

package conformance_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// options prints the names of the package's options: those of its constructors, of the builder,
// of stacks, of limits, and of the calls of a limiter and of a lease, with the names of the calls.
const options = `
import dataclasses, inspect, json
from zae_limiter import Lease, Limit, RateLimiter, Repository, RepositoryBuilder, StackOptions

names = {f.name for f in dataclasses.fields(StackOptions)}
names |= {n for n in dir(RepositoryBuilder) if not n.startswith("_")} - {"build"}
calls = [RateLimiter.__init__, Repository.__init__, Repository.open, Repository.connect]
public = lambda kind: {n for n in dir(kind) if not n.startswith("_")}
names |= public(RateLimiter) | public(Lease) - {"compute_images"}
calls += [m for n, m in inspect.getmembers(RateLimiter, callable) if n in public(RateLimiter)]
calls += [getattr(Limit, n) for n in ("per_second", "per_minute", "per_hour", "per_day", "custom", "quota", "with_schedule", "with_reset_schedule")]
for call in calls:
    names |= {p for p in inspect.signature(call).parameters if not p.startswith("_")}
print(json.dumps(sorted(names - {"self"})))
`

// The document about the Python package names each of its options.
func TestTheDocumentNamesEachOptionOfThePackage(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), peers.Python(t), "-c", options).Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := json.Unmarshal(out, &names); err != nil {
		t.Fatal(err)
	}
	if len(names) < 90 {
		t.Errorf("the package has %d options: does the script still find them?", len(names))
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "docs", "python.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !regexp.MustCompile(`\b` + name + `\b`).Match(text) {
			t.Errorf("docs/python.md does not name %s", name)
		}
	}
}
