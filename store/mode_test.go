package store_test

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/store"
)

// A percentage of the entities is that percentage, and a larger one has all of a smaller one.
func TestAPercentageOfEntities(t *testing.T) {
	t.Parallel()
	const entities = 50_000
	in := make([]int, 101)
	for i := range entities {
		id, was := fmt.Sprintf("key-%d", i), store.Enforce
		for percent := 1; percent <= 100; percent++ {
			is := store.Limit{Name: "rpm", Mode: store.Shadow, Percent: percent}.Of(id)
			if is.Percent != 0 || was == store.Shadow && is.Mode != store.Shadow {
				t.Fatalf("%s at %d %%: %+v, and %v at less", id, percent, is, was)
			}
			if was = is.Mode; was == store.Shadow {
				in[percent]++
			}
		}
	}
	for _, percent := range []int{1, 2, 50, 99, 100} {
		if want := entities * percent / 100; in[percent] < want-250 || in[percent] > want+250 {
			t.Errorf("%d %% of %d are %d", percent, entities, in[percent])
		}
	}
}
