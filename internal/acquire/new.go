package acquire

import (
	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
)

// New returns a driver for a process.
func New(p *process.Process, o Options) *Driver {
	if o.Trust == 0 {
		o.Trust = DefaultTrust
	}
	d := &Driver{
		Process: p, Upkeep: upkeep.New(p), trust: max(-1, o.Trust),
		accounts: memory.NewCache[memory.Key, *account](p.Memory),
	}
	switch {
	case p.IsInline() || o.InFlight < 0:
		d.sharing = alone{d}
	case o.InFlight == 0:
		d.sharing = queued{d, lane.Places{Base: DefaultInFlight, More: DefaultInFlight}}
	default:
		d.sharing = queued{d, lane.Places{Base: o.InFlight}}
	}
	return d
}
