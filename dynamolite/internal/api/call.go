package api

import (
	"context"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// Call is one operation in progress.
type Call struct {
	Op Operation
	// Seen is the latest write that the answer depends on, including the operation's own. The
	// engine answers only after that write is on disk.
	//
	// The naive design waits only for the operation's own write. A reader could then return a write
	// that another caller has applied but the disk does not have yet, and a crash would undo it
	// after the reader has acted on it:
	//
	//	writer    apply ················· fsync ✗ crash: the write is gone
	//	reader           read · answer ✗
	Seen journal.Position
	// room counts what an HTTP answer will hold; nil in process.
	room room
}

// NewCall returns the call of an operation.
func NewCall(ctx context.Context, op Operation) *Call {
	r, _ := ctx.Value(roomKey{}).(room)
	return &Call{Op: op, room: r}
}

// room limits the memory of answers.
type room interface {
	// Hold counts an item or a stream record that the answer will hold. It fails if too much is in
	// flight.
	Hold(bytes int) error
}

// roomKey is the key under which the context of an operation has the room for its answer.
type roomKey struct{}

// WithRoom returns a context whose operations count their answers.
func WithRoom(ctx context.Context, r room) context.Context {
	return context.WithValue(ctx, roomKey{}, r)
}

// Hold counts an item or a stream record of the answer. It fails if too much is in flight. A page
// of 1 MB is small, but a thousand clients may each ask for one.
func (c *Call) Hold(bytes int) error {
	if c.room == nil {
		return nil
	}
	return c.room.Hold(bytes)
}

// See records a write that the answer depends on.
func (c *Call) See(pos journal.Position) { c.Seen = max(c.Seen, pos) }
