// Package upkeep keeps buckets in order: it doubles, mends and merges their shards,
// replenishes items ahead of their users, and repairs them to their configuration.
package upkeep

import (
	"github.com/zeroae/zae-limiter-go/internal/process"
)

// A Driver does upkeep on buckets. It is safe for concurrent use.
type Driver struct{ *process.Process }

// New returns a driver. From now on the process doubles a bucket whose partition
// throttles.
func New(p *process.Process) *Driver {
	d := &Driver{p}
	p.OnHotPartition = d.DoubleInBackground
	return d
}
