// Package transact executes transactions in two steps ([ADR 011]).
//
// Invariants: every transaction takes its locks in the same order, so two of them never wait for each
// other. From the first step to the second, no other request writes the items that it has taken.
//
// [ADR 011]: https://github.com/zeroae/zae-limiter-go/blob/main/docs/adr/011-transactions-in-two-steps.md
package transact

import (
	"context"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/request"
)

// Transactor executes transactions.
type Transactor struct {
	*request.Executor

	Tokens *history.Tokens
	// hold waits for the time that a transaction spends between its two steps.
	hold func(context.Context) error
}

// New returns the transactor beside the executor of other requests.
func New(ex *request.Executor, tokens *history.Tokens, hold func(context.Context) error) *Transactor {
	return &Transactor{ex, tokens, hold}
}
