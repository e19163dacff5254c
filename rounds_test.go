package limiter_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A slowTable delays every write. One of its shards may be broken.
type slowTable struct {
	dynamo.API
	broken string // the end of the shard's partition key; "": none

	mu      sync.Mutex
	updates int
	joint   int
}

var errBroken = errors.New("the shard is broken")

func (s *slowTable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	s.mu.Lock()
	s.updates++
	s.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	if pk, ok := in.Key["PK"].(*types.AttributeValueMemberS); ok && s.broken != "" && strings.HasSuffix(pk.Value, s.broken) {
		return nil, errBroken
	}
	return s.API.UpdateItem(ctx, in, o...)
}

func (s *slowTable) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	s.mu.Lock()
	s.joint++
	s.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	return s.API.TransactWriteItems(ctx, in, o...)
}

// A scramble holds the results of one process's callers at a shared bucket of four
// shards.
type scramble struct {
	granted, refused, failed int
	limiter                  *limiter.Limiter
	table                    *slowTable
	consumed                 int64
}

// inScramble runs a caller that asks for more than one shard holds, and other callers
// for one token each meanwhile.
func (w *world) inScramble(held int64, callers int, broken string) *scramble {
	w.Helper()
	const shards, many = 4, 150
	limit := limiter.PerDay("rpd", 1000)
	w.system(limit)
	w.plant("user", limit, shards, each(shards, held*1000)...)
	s := &scramble{table: &slowTable{API: w.engine}}
	l := w.limiter(w.open(s.table), limiter.Options{})
	s.limiter = l
	w.survey(l, "user", limit)
	before := s.table.updates
	s.table.broken = broken
	l.Share(limiter.Bucket{Entity: "user", Resource: "gpt-4"}, shards)

	var mu sync.Mutex
	var group sync.WaitGroup
	acquire := func(n int) {
		_, err := l.Acquire(w.Context(), ask("user", "rpd", n))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			s.granted += n
		case errors.Is(err, limiter.ErrUnavailable):
			s.failed++
		case errors.Is(err, limiter.ErrExceeded):
			s.refused++
		default:
			w.Error(err)
		}
	}
	group.Go(func() { acquire(many) })
	time.Sleep(time.Millisecond)
	for range callers {
		group.Go(func() { acquire(1) })
	}
	group.Wait()
	l.Settle()
	s.table.updates -= before
	for _, img := range w.shards("user") {
		state, _ := img.Limit("rpd")
		s.consumed += state.Consumed / 1000
	}
	return s
}

// Callers that arrive while a request is served from all shards of a shared bucket wait
// for all shards. Each round serves a part of the callers, with one write for each
// shard.
func TestCallersOfASharedBucketAreServedShardByShard(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		s := w.inScramble(100, 64, "")
		if s.granted != 150+64 || s.consumed != int64(s.granted) {
			w.Errorf("%d granted, %d consumed, want %d", s.granted, s.consumed, 150+64)
		}
		if s.table.joint != 1 || s.table.updates > 16 {
			w.Errorf("%d transactions and %d updates, want 1 and 16 at most", s.table.joint, s.table.updates)
		}
	})
}

// Callers that ask for more than is left on all shards together are refused on the
// images that were read for them. No other caller is refused.
func TestCallersOfASharedBucketAreRefusedTogether(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		s := w.inScramble(50, 64, "")
		if s.granted != 200 || s.refused != 64-50 || s.consumed != 200 {
			w.Errorf("%d granted, %d refused, %d consumed, want 200, 14 and 200", s.granted, s.refused, s.consumed)
		}
	})
}

// A broken shard is an error only for the callers that it was to serve, and not for
// later callers.
func TestABrokenShardOfASharedBucketFailsItsCallersOnly(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		s := w.inScramble(100, 64, "#3")
		if s.failed == 0 || s.granted != 150+64-s.failed || s.consumed != int64(s.granted) {
			w.Errorf("%d granted, %d failed, %d consumed", s.granted, s.failed, s.consumed)
		}
		s.table.broken = ""
		if refused := w.take(s.limiter, ask("user", "rpd", 150)); refused != nil {
			w.Error(refused)
		}
	})
}
