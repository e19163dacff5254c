// Package usage has what entities consumed by hour, day and month. Buckets keep their hours
// themselves (ADR 039). [Snapshots.Save] writes those that a bucket has no room for, or that
// outlive it, and [Snapshots.Read] reads all of them.
package usage

import (
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
)

// Snapshots are the usage of a namespace; the store in package dynamo has it. They are safe
// for concurrent use.
type Snapshots struct {
	conn *conn.Conn
	ns   string
	ttl  time.Duration
	// announced has the months and resources that readers know to have pages.
	announced sync.Map // announced -> true
}

// New returns the usage of the namespace with the id ns. A page is kept for the time ttl
// after its month has ended, for ever if ttl is negative.
func New(c *conn.Conn, ns string, ttl time.Duration) *Snapshots {
	return &Snapshots{conn: c, ns: ns, ttl: ttl}
}

// A Key names a usage snapshot: what an entity consumed of a resource in the
// window that starts at Start.
type Key struct {
	Entity, Resource string
	Window           Window
	Start            time.Time // see [Window.Start]
}
