package history

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// The limits of tokens.
const (
	tokenLife = 10 * time.Minute // how long a token makes a transaction idempotent, from its end
	MaxToken  = 36               // bytes
)

// Tokens remembers the transactions that carried a ClientRequestToken.
//
// The lock is taken after those of shards, and nothing is locked under it.
type Tokens struct {
	mu   sync.Mutex
	by   map[string]*TokenUse
	done []*TokenUse // in order of their end, so that the oldest is forgotten first
}

// Fingerprint identifies a request.
type Fingerprint [sha256.Size]byte

// TokenUse is a transaction that is running or has succeeded. A failed one is forgotten, so that
// the client can try again with the same token.
type TokenUse struct {
	token   string
	request Fingerprint
	running bool
	Ended   time.Time
	pos     journal.Position // of its write
}

// Begin claims a token, or reports that the same transaction is already done.
//
// A repetition waits for the write of the first. Otherwise it could say "done" before the disk has
// it:
//
//	caller A   note · settle ················ ✗ crash: the write is gone
//	caller B                   done ✗
//
// Only the clock of a new transaction forgets old tokens; no timer does.
func (ts *Tokens) Begin(c *api.Call, token string, request Fingerprint, now time.Time) (use *TokenUse, done bool, err error) {
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
		c.See(use.pos)
		return nil, true, nil
	}
	if ts.by == nil {
		ts.by = map[string]*TokenUse{}
	}
	use = &TokenUse{token: token, request: request, running: true}
	ts.by[token] = use
	return use, false, nil
}

// Settle completes the claim of a transaction that has its place in the order of writes. The
// caller holds the shards that the transaction writes to. A checkpoint therefore has the token if
// it has the writes. Without the locks it could have the writes alone. The log before it is then
// deleted, and a repetition after a crash would write again:
//
//	transaction   lock · note · apply · unlock ················ settle
//	checkpoint                                clone · tokens ✗          the old log is removed
func (ts *Tokens) Settle(use *TokenUse, pos journal.Position, now time.Time) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	use.running, use.Ended, use.pos = false, now, pos
	ts.done = append(ts.done, use)
}

// GiveUp forgets the claim of a transaction that was not done.
func (ts *Tokens) GiveUp(use *TokenUse) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if use.running {
		delete(ts.by, use.token)
	}
}

func (ts *Tokens) expireLocked(now time.Time) {
	n := 0
	for n < len(ts.done) && now.Sub(ts.done[n].Ended) >= tokenLife {
		delete(ts.by, ts.done[n].token)
		n++
	}
	clear(ts.done[:n])
	ts.done = ts.done[n:]
}

// All returns the transactions that have succeeded and are still remembered. They no longer
// change.
func (ts *Tokens) All() []*TokenUse {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return slices.Clone(ts.done)
}

// Restore remembers a transaction that was done before a restart.
func (ts *Tokens) Restore(use *TokenUse) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.by == nil {
		ts.by = map[string]*TokenUse{}
	}
	ts.by[use.token] = use
	ts.done = append(ts.done, use)
}
