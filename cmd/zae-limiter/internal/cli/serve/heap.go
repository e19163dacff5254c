package serve

import (
	"runtime"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// spareHeap is how much more the heap may grow by than to twice what lives, in bytes.
const spareHeap = 64 << 20

// collectLess makes the collector of a small heap run less often, unless $GOGC or $GOMEMLIMIT says how
// often. At Go's default the heap doubles between two collections. A service that remembers few buckets then collects
// many times a second, and needs a quarter more CPU time. The collector takes the spare memory for live, but
// nobody touches it: it takes up none. A percentage, as $GOGC has, would multiply a large heap, too.
func collectLess(a *app.App) (end func()) {
	if a.Getenv("GOGC") != "" || a.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	spare := make([]byte, spareHeap)
	return func() { runtime.KeepAlive(spare) }
}
