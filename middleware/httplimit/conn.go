package httplimit

import (
	"context"
	"net"
	"sync"

	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
)

// A conn is a connection that a handler took over, for a WebSocket for instance, and whose request
// holds slots. The handler may return before the connection is closed, or after it:
//
//	handler                      connection
//	  │ hijacks ────────────────▶ │
//	  │ returns: end              │ Close
//	  ╰─────────── the later one settles the lease ───────────╯
//
// If the slots are lost, the connection is closed: who reads from it does not look at a context.
type conn struct {
	net.Conn

	unwatch func() // the slots

	mu       sync.Mutex
	isClosed bool
	settle   func() // nil until the handler has returned
}

// newConn takes over a connection. ends says to close it if the slots of an admission are lost.
func newConn(of net.Conn, a *admission.Admission, ends bool) *conn {
	c := &conn{Conn: of, unwatch: func() {}}
	if !ends {
		return c
	}
	// The server ends the context of the request when the handler returns.
	lost, cancel := a.Lease.Context(context.Background())
	stop := context.AfterFunc(lost, func() { _ = c.Close() }) // nobody is there to get the error
	c.unwatch = func() {
		stop()
		cancel()
	}
	return c
}

// Close closes the connection, and returns the slots.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	settle, wasClosed := c.settle, c.isClosed
	c.isClosed = true
	c.mu.Unlock()
	if !wasClosed && settle != nil {
		c.unwatch()
		settle()
	}
	return err
}

// end notes that the handler has returned, or that it panicked. It settles at once if the
// connection is closed already. Nobody closes the connection of a handler that panicked.
func (c *conn) end(returned bool, settle func()) {
	c.mu.Lock()
	isClosed := c.isClosed
	c.settle = settle
	c.mu.Unlock()
	switch {
	case isClosed:
		c.unwatch()
		settle()
	case !returned:
		_ = c.Close() // the panic tells
	}
}
