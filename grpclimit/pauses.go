package grpclimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrPaused: a client did not send the call, because the server has asked it to wait. The
// status of the error has the rest of the wait.
var ErrPaused = errors.New("the server has asked to wait")

// A pauseKey names the calls that one pause holds.
type pauseKey struct{ target, entity, resource string }

// A pause is a wait that a server has asked for.
type pause struct {
	until time.Time
	code  codes.Code // that the server refused with
}

// pauses are the waits that servers have asked for. The map forgets the one that was used
// least recently when it is full.
type pauses struct {
	now func() time.Time

	mu sync.Mutex // guards the map, never held during a wait
	by *simplelru.LRU[pauseKey, pause]
}

func newPauses(memory int, now func() time.Time) (*pauses, error) {
	if memory == 0 {
		memory = DefaultMemory
	}
	if now == nil {
		now = time.Now //nolint:forbidigo // the default
	}
	by, err := simplelru.NewLRU[pauseKey, pause](memory, nil)
	return &pauses{now: now, by: by}, err
}

// learn remembers the wait that an error of a server asks for. A shorter wait does not
// replace a longer one: the server has told them to different calls.
func (p *pauses) learn(key pauseKey, err error) {
	st, ok := status.FromError(err)
	if !ok {
		return
	}
	wait, ok := retryDelay(st)
	if !ok || wait <= 0 {
		return
	}
	until := p.now().Add(wait)
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.by.Get(key); !ok || known.until.Before(until) {
		p.by.Add(key, pause{until, st.Code()})
	}
}

// rest is the rest of a pause, or 0 if there is none.
func (p *pauses) rest(key pauseKey) (time.Duration, codes.Code) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.by.Get(key)
	if !ok {
		return 0, codes.OK
	}
	rest := known.until.Sub(p.now())
	if rest <= 0 {
		p.by.Remove(key)
	}
	return max(rest, 0), known.code
}

// pass returns when no pause holds the call. If waits is false, or a pause ends later than
// the call's deadline, it fails at once.
func (p *pauses) pass(ctx context.Context, key pauseKey, waits bool) error {
	for {
		rest, code := p.rest(key)
		if rest == 0 {
			return nil
		}
		deadline, bounded := ctx.Deadline()
		if !waits || bounded && deadline.Before(p.now().Add(rest)) {
			st := detailed(code, ErrPaused.Error()+": retry after "+rest.String(), retryInfo(rest))
			return &callError{st, ErrPaused}
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}
