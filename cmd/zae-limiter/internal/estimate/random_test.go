package estimate_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// randomScenario is a load of effects that a seed combines: parents, processes, limits that
// do or do not run out, sizes of items, settlements, holds, ways to pick, and other calls.
func randomScenario(seed uint64) string {
	dice := rand.New(rand.NewPCG(seed, 9))
	one := func(of ...string) string { return of[dice.IntN(len(of))] }
	var b strings.Builder
	fmt.Fprintf(&b, "name: random\nseed: %d\nlimiters: %s\nduration: 30s\nresources:\n", seed, one("1", "1", "2", "4", "8"))
	resources := 1 + dice.IntN(3)
	long := strings.Repeat("x", 2+dice.IntN(20))
	for i := range resources {
		fmt.Fprintf(&b, "  r%d-%s: [rpm:%s/min, tpm:60000000/min]\n", i, long, one("6000000", "6000000", "90", "600"))
	}
	count := 1 + dice.IntN(40)
	parents := one("", "", fmt.Sprintf(", parents: %d", 1+dice.IntN(count)))
	fmt.Fprintf(&b, "entities: {e-%s: {count: %d%s}}\nload:\n  L:\n", long, count, parents)
	fmt.Fprintf(&b, "    from: {entities: e-%s, pick: %s}\n    calls:\n", long, one("random", "in-turn", "power-law 1.2"))
	settle := one("", "", ", settle: {tpm: 100..2000}", ", settle: {tpm: 100%}")
	hold := one("", "", ", hold: 0.2s..1s")
	fmt.Fprintf(&b, "      - {call: acquire, weight: 9, consume: {rpm: 1, tpm: 500}%s%s}\n", settle, hold)
	if dice.IntN(3) == 0 {
		fmt.Fprintf(&b, "      - {call: %s}\n", one("get-limits", "get-entity", "get-children", "list-resources"))
	}
	fmt.Fprintf(&b, "    rate: %s/s\n    poisson: %v\n", one("10", "30", "60"), dice.IntN(2) == 0)
	return b.String()
}

// Whatever a load combines, its bill is as near as Accuracy says.
func TestLongestARandomLoadCostsWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	const seeds = 12
	for seed := range uint64(seeds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			checkScenario(t, parsed(t, randomScenario(seed)))
		})
	}
}
