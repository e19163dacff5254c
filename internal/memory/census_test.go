package memory_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
)

// A process detects others' writes from the item's count of writes. The process has
// several of its own writes under way at once, and their answers come in any order.
func TestOthersAreTheWritesThatNobodyHereSent(t *testing.T) {
	for seed := range uint64(500) {
		draw := rand.New(rand.NewPCG(seed, 1))
		others := seed%2 == 0
		var w memory.Writes
		count, up := int64(100), time.Hour
		type answer struct {
			end     func(count int64, applied bool, up time.Duration)
			count   int64
			applied bool
		}
		var under []answer // they have taken effect
		for n := range 200 {
			up += time.Millisecond
			a := answer{end: w.Begin(up), applied: draw.IntN(3) > 0}
			if others && n%10 == 9 {
				count++
			}
			if a.applied {
				count++
			}
			a.count = count
			under = append(under, a)
			for len(under) > 0 && (draw.IntN(2) == 0 || len(under) > 8) {
				i := draw.IntN(len(under))
				under[i].end(under[i].count, under[i].applied, up)
				under = append(under[:i], under[i+1:]...)
			}
		}
		if got := w.Shared(up); got != others {
			t.Fatalf("seed %d: others write: %t, want %t", seed, got, others)
		}
	}
}
