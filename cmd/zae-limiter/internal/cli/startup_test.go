package cli_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// inits matches the lines that GODEBUG=inittrace=1 writes for packages of this project.
var inits = regexp.MustCompile(`(?m)^init ` + regexp.QuoteMeta(modulePath) + `(\S*) @.* (\d+) allocs$`)

// startsAtOnce counts what the packages of this project allocate before main. Expressions,
// templates and tables of words wait for their first use: most commands need none of them. The
// count does not depend on the machine.
func startsAtOnce(t *testing.T, bin string) {
	t.Helper()
	const mostOfOne, mostOfAll = 150, 600
	cmd := exec.CommandContext(t.Context(), bin, "version")
	cmd.Env = append(bare(t), "GODEBUG=inittrace=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	found, sum := inits.FindAllStringSubmatch(stderr.String(), -1), 0
	for _, line := range found {
		allocs, err := strconv.Atoi(line[2])
		if err != nil {
			t.Fatal(err)
		}
		if allocs > mostOfOne {
			t.Errorf("%s allocates %d times before main, %d at most: what it makes can wait, see sync.OnceValue", line[1], allocs, mostOfOne)
		}
		sum += allocs
	}
	if sum > mostOfAll || len(found) < 3 {
		t.Errorf("%d packages of this project allocate %d times before main, %d at most", len(found), sum, mostOfAll)
	}
}
