package dynamo_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/histories"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A law is one over any writes: of each history, whatever writes it consists of.
type law[B any] struct {
	writes map[string]func(B) bool // true if the write was applied
	often  []string                // writes that are drawn more often, once for each time
	begin  func(t *rapid.T, number int) B
	after  func(B) // each write; may be nil
}

// play plays so many rounds of histories. Each kind of write must be applied in one of them.
func (l law[B]) play(t *testing.T, rounds int) {
	t.Helper()
	applied, number := map[string]int{}, 0
	kinds := append(slices.Sorted(maps.Keys(l.writes)), l.often...)
	histories.Check(t, rounds, func(t *rapid.T) {
		number++
		b := l.begin(t, number)
		for range rapid.IntRange(1, 40).Draw(t, "writes") {
			kind := rapid.SampledFrom(kinds).Draw(t, "write")
			if l.writes[kind](b) {
				applied[kind]++
			}
			if l.after != nil {
				l.after(b)
			}
		}
	})
	t.Logf("applied: %v", applied)
	for kind := range l.writes {
		if applied[kind] == 0 {
			t.Errorf("no write was applied of: %s", kind)
		}
	}
}

// lawStore is a store whose items have all expired by the engine's clock. It must not delete them.
func lawStore(t *testing.T) (_ *dynamo.Store, _ *dynamolite.DB, ns string) {
	t.Helper()
	db := testbed.NewEngine(t, dynamolite.Options{SweepInterval: time.Hour})
	testbed.CreateTable(t, db, dynamo.TableOptions{Now: fixture.Now})
	s := fixture.OpenStore(t, db)
	_, ns = s.Namespace()
	return s, db, ns
}
