package dynamo

import (
	"sync"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// Bounds of the correction. A Date header is cut to whole seconds, so that one
// response tells the offset to within half a second and half a round trip: what
// is below skewOn cannot be told from that noise and is left alone.
const (
	skewOn       = 2 * time.Second
	skewOff      = time.Second
	maxRoundTrip = time.Second // slower answers say too little
	smoothing    = 8           // a sample moves the mean by 1/8
	jumpSamples  = 3           // in a row, to believe that a clock was set
)

// A clock is the local clock, corrected by what responses tell about the
// server's once the two are more than two seconds apart. It is safe for
// concurrent use; reading it takes no lock.
type clock struct {
	local func() time.Time
	// offset is what is added to the local clock, in nanoseconds.
	offset atomic.Int64

	mu     sync.Mutex
	mean   time.Duration // smoothed offset, applied or not
	known  bool
	strays int // samples in a row further than skewOn from the mean
}

// now is the corrected instant.
func (c *clock) now() time.Time { return c.local().Add(time.Duration(c.offset.Load())) }

// learn takes in the answer to a request that was sent and answered at these
// instants of the local clock. Metadata without a date, as an engine in process
// has it, teaches nothing.
func (c *clock) learn(metadata middleware.Metadata, sent, received time.Time) {
	server, ok := awsmiddleware.GetServerTime(metadata)
	roundTrip := received.Sub(sent)
	if !ok || server.IsZero() || roundTrip < 0 || roundTrip > maxRoundTrip {
		return
	}
	c.sample(server.Add(time.Second / 2).Sub(sent.Add(roundTrip / 2)))
}

func (c *clock) sample(offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	away := (offset - c.mean).Abs() > skewOn
	switch {
	case !c.known:
		c.mean, c.known = offset, true
	case away && c.strays+1 < jumpSamples:
		c.strays++
		return
	case away:
		c.mean, c.strays = offset, 0
	default:
		c.mean += (offset - c.mean) / smoothing
		c.strays = 0
	}
	switch apart := c.mean.Abs(); {
	case apart > skewOn, apart >= skewOff && c.offset.Load() != 0:
		c.offset.Store(int64(c.mean))
	default:
		c.offset.Store(0)
	}
}
