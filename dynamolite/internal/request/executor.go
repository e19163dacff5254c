// Package request executes what reads and writes items: it validates a request into a typed one,
// evaluates it, bills it, and applies it.
//
// Invariants: an evaluation has no effect, and an application cannot fail. What is refused is refused
// between the two, with the locks held, so nothing is ever half done.
package request

import (
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/catalog"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
)

// Executor executes the requests that read and write items, except for transactions.
type Executor struct {
	Tables *catalog.Tables
	Log    *history.Log
	Now    func() time.Time
}

// New returns the executor of requests on tables.
func New(ts *catalog.Tables, l *history.Log, now func() time.Time) *Executor {
	return &Executor{ts, l, now}
}
