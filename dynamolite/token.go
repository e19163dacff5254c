package dynamolite

import (
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	tokenLife = 10 * time.Minute // how long a token makes a transaction idempotent, from its end
	maxToken  = 36               // bytes
)

// tokens remembers the transactions that carried a ClientRequestToken.
type tokens struct {
	mu   sync.Mutex
	by   map[string]*tokenUse
	done []*tokenUse // in order of their end, so that the oldest is forgotten first
}

// tokenUse is a transaction that is running or has succeeded. A failed one is forgotten.
type tokenUse struct {
	token   string
	request fingerprint
	running bool
	ended   time.Time
	pos     position // of its write
}

// begin claims a token, or reports that the same transaction is already done.
func (ts *tokens) begin(c *call, token string, request fingerprint, now time.Time) (use *tokenUse, done bool, err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.expireLocked(now)
	if use, ok := ts.by[token]; ok {
		switch {
		case use.request != request:
			return nil, false, &types.IdempotentParameterMismatchException{
				Message: aws.String("The request uses the token of an earlier request that had other parameters"),
			}
		case use.running:
			return nil, false, &types.TransactionInProgressException{
				Message: aws.String("The transaction with this token is in progress"),
			}
		}
		c.sees(use.pos)
		return nil, true, nil
	}
	if ts.by == nil {
		ts.by = map[string]*tokenUse{}
	}
	use = &tokenUse{token: token, request: request, running: true}
	ts.by[token] = use
	return use, false, nil
}

// settle completes the claim of a transaction that has its place in the order of writes. The
// caller holds the shards that the transaction writes to. A checkpoint therefore has the token if
// it has the writes.
func (ts *tokens) settle(use *tokenUse, pos position, now time.Time) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	use.running, use.ended, use.pos = false, now, pos
	ts.done = append(ts.done, use)
}

// giveUp forgets the claim of a transaction that was not done.
func (ts *tokens) giveUp(use *tokenUse) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if use.running {
		delete(ts.by, use.token)
	}
}

func (ts *tokens) expireLocked(now time.Time) {
	n := 0
	for n < len(ts.done) && now.Sub(ts.done[n].ended) >= tokenLife {
		delete(ts.by, ts.done[n].token)
		n++
	}
	clear(ts.done[:n])
	ts.done = ts.done[n:]
}

// all returns the transactions that have succeeded and are still remembered. They no longer
// change.
func (ts *tokens) all() []*tokenUse {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return slices.Clone(ts.done)
}

// restore remembers a transaction that was done before a restart.
func (ts *tokens) restore(use *tokenUse) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.by == nil {
		ts.by = map[string]*tokenUse{}
	}
	ts.by[use.token] = use
	ts.done = append(ts.done, use)
}
