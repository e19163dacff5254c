package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// closed is a gate that is made when the first call comes, in its bubble.
func closed(hook func(*faults.Gate, context.Context, *faults.Call, faults.Next) error) faults.Hook {
	return func(ctx context.Context, c *faults.Call, next faults.Next) error {
		return hook(faults.NewGate(), ctx, c, next)
	}
}

// Each fault fails an update after its time, and the update took effect or not. The
// context of the late ones ends after a second.
func TestAFault(t *testing.T) {
	refused := &types.ConditionalCheckFailedException{}
	for name, tt := range map[string]struct {
		hook    faults.Hook
		want    error
		took    time.Duration
		applied string
	}{
		"none":                      {(&faults.Slot{}).Apply, nil, 0, "1"},
		"a lost request":            {faults.Fail(errTest), errTest, 0, "0"},
		"a lost answer":             {faults.LoseAnswer(errTest), errTest, 0, "1"},
		"another operation":         {faults.On(faults.Fail(errTest), faults.GetItem, faults.PutItem), nil, 0, "1"},
		"this operation":            {faults.On(faults.Fail(errTest), faults.GetItem, faults.UpdateItem), errTest, 0, "0"},
		"this shard":                {faults.When(func(c *faults.Call) bool { return slices.Contains(c.Shards(), 0) }, faults.Fail(errTest)), errTest, 0, "0"},
		"an error before":           {faults.Before(func(*faults.Call) error { return errTest }), errTest, 0, "0"},
		"an error after":            {faults.After(func(*faults.Call, error) error { return errTest }), errTest, 0, "1"},
		"a latency":                 {faults.Latency(10 * time.Millisecond), nil, 10 * time.Millisecond, "1"},
		"a delay there":             {faults.Delay(2*time.Second, 0), context.DeadlineExceeded, time.Second, "0"},
		"a delay back":              {faults.Delay(0, 2*time.Second), context.DeadlineExceeded, time.Second, "1"},
		"no answer":                 {faults.Hang, context.DeadlineExceeded, time.Second, "0"},
		"a closed gate":             {closed((*faults.Gate).Requests), context.DeadlineExceeded, time.Second, "0"},
		"a closed gate for answers": {closed((*faults.Gate).Answers), context.DeadlineExceeded, time.Second, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *testbed.World) {
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				start := time.Now()
				_, err := faults.Wrap(w.Engine, tt.hook).UpdateItem(ctx, update(0))
				if took := time.Since(start); !errors.Is(err, tt.want) || took != tt.took {
					w.Errorf("got %v after %v", err, took)
				}
				if got := count(w, 0); got != tt.applied {
					w.Errorf("%s updates took effect", got)
				}
			})
		})
	}
	t.Run("a lost refusal", func(t *testing.T) {
		inBubble(t, func(w *testbed.World) {
			api := faults.Wrap(w.Engine, faults.LoseAnswer(errTest), faults.Fail(refused))
			if _, err := api.UpdateItem(w.Context(), update(0)); !errors.Is(err, refused) {
				w.Errorf("got %v", err)
			}
		})
	})
}

// A gate holds requests, or only answers, until it opens.
func TestAGateHoldsCalls(t *testing.T) {
	for _, answers := range []bool{false, true} {
		t.Run(fmt.Sprintf("answers %t", answers), func(t *testing.T) {
			inBubble(t, func(w *testbed.World) {
				gate := faults.NewGate()
				hook, applied := gate.Requests, "0"
				if answers {
					hook, applied = gate.Answers, "2"
				}
				api := faults.Wrap(w.Engine, hook)
				passed := make(chan error, 3)
				for range 2 {
					go func() {
						_, err := api.UpdateItem(w.Context(), update(0))
						passed <- err
					}()
				}
				synctest.Wait()
				if got := count(w, 0); len(passed) != 0 || got != applied {
					w.Errorf("%d passed a closed gate, %s took effect", len(passed), got)
				}
				gate.Open()
				gate.Open()
				_, err := api.UpdateItem(w.Context(), update(0))
				for range 2 {
					err = errors.Join(err, <-passed)
				}
				if got := count(w, 0); err != nil || got != "3" {
					w.Errorf("%s took effect: %v", got, err)
				}
			})
		})
	}
}

func TestASlotIsFilledAndEmptied(t *testing.T) {
	inBubble(t, func(w *testbed.World) {
		slot := &faults.Slot{}
		api := faults.Wrap(w.Engine, slot.Apply)
		for i, hook := range []faults.Hook{nil, faults.Fail(errTest), faults.LoseAnswer(errTest), nil} {
			slot.Set(hook)
			if _, err := api.UpdateItem(w.Context(), update(0)); errors.Is(err, errTest) != (hook != nil) {
				w.Errorf("%d: got %v", i, err)
			}
		}
		if got := count(w, 0); got != "3" {
			w.Errorf("%s took effect", got)
		}
	})
}

func TestARecorderKeepsRequests(t *testing.T) {
	inBubble(t, func(w *testbed.World) {
		seen := &faults.Recorder{}
		api := faults.Wrap(w.Engine, seen.Record)
		start := time.Now()
		for i := range 3 {
			if _, err := api.UpdateItem(w.Context(), update(i)); err != nil {
				w.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if _, err := api.TransactWriteItems(w.Context(), transaction(4, 2)); err != nil {
			w.Fatal(err)
		}
		if got := seen.Ops(); !slices.Equal(got, []string{"UpdateItem", "UpdateItem", "UpdateItem", "TransactWriteItems"}) || seen.Count(faults.UpdateItem) != 3 {
			w.Error(got)
		}
		all := seen.Take()
		if last := all[3]; !slices.Equal(last.Shards, []int{4, 2}) || last.At.Sub(start) != 3*time.Second {
			w.Errorf("the last is %+v", last)
		}
		if left := seen.Requests(); len(left) > 0 || faults.Count(all, faults.TransactWriteItems) != 1 {
			w.Errorf("left: %v", left)
		}
	})
}

// A tap records what it disturbs, and nothing that a test sends to the table itself.
func TestATapSeesAndDisturbs(t *testing.T) {
	inBubble(t, func(w *testbed.World) {
		tap := faults.NewTap(w.Engine)
		tap.Set(faults.Chain(faults.Latency(time.Second), faults.LoseAnswer(errTest)))
		start := time.Now()
		if _, err := tap.UpdateItem(w.Context(), update(3)); !errors.Is(err, errTest) || time.Since(start) != time.Second {
			w.Errorf("got %v after %v", err, time.Since(start))
		}
		if _, err := tap.Table.UpdateItem(w.Context(), update(3)); err != nil {
			w.Error(err)
		}
		in := tap.Inputs()
		if got := count(w, 3); got != "2" || len(in) != 1 || in[0].(*dynamodb.UpdateItemInput).Key == nil {
			w.Errorf("%s took effect; seen: %v", got, in)
		}
	})
}

// A full shard refuses its writes, alone and in transactions. Reads and writes to other
// items pass.
func TestAFullShardThrottles(t *testing.T) {
	inBubble(t, func(w *testbed.World) {
		api := faults.Wrap(w.Engine, faults.Throttle(func(b store.Bucket) error {
			if b.Shard == 1 {
				return faults.HotPartition()
			}
			return nil
		}))
		_, err := api.UpdateItem(w.Context(), update(1))
		if hot, ok := errors.AsType[*types.ThrottlingException](err); !ok || len(hot.ThrottlingReasons) != 1 {
			w.Errorf("got %v", err)
		}
		_, err = api.TransactWriteItems(w.Context(), transaction(0, 1))
		cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
		if !ok || len(cancelled.CancellationReasons) != 2 || *cancelled.CancellationReasons[0].Code != "None" || *cancelled.CancellationReasons[1].Code != "ThrottlingError" {
			w.Errorf("got %v", err)
		}
		if got := count(w, 0) + count(w, 1); got != "00" {
			w.Errorf("%s took effect", got)
		}
		for _, op := range []string{faults.GetItem, faults.BatchGetItem, faults.UpdateItem} {
			if _, err := calls(w.Context(), api)[op](); err != nil {
				w.Errorf("%s: %v", op, err)
			}
		}
	})
}

// Bounded pages and batches leave the rest for the next request.
func TestPartsAreAnswered(t *testing.T) {
	inBubble(t, func(w *testbed.World) {
		api := faults.Wrap(w.Engine, faults.Pages(1), faults.Batches(1))
		out, err := calls(w.Context(), api)[faults.BatchWriteItem]()
		if left := out.(*dynamodb.BatchWriteItemOutput).UnprocessedItems[table]; err != nil || len(left) != 1 || left[0].DeleteRequest == nil {
			w.Errorf("left %v, %v", left, err)
		}
		out, err = calls(w.Context(), api)[faults.BatchGetItem]()
		got := out.(*dynamodb.BatchGetItemOutput)
		if left := got.UnprocessedKeys[table].Keys; err != nil || len(left) != 1 || len(got.Responses[table]) != 1 || schema.KeyOf(left[0]) != schema.KeyOf(keyOf(1)) {
			w.Errorf("got %v, left %v, %v", got.Responses, left, err)
		}
		page, err := calls(w.Context(), api)[faults.Query]()
		if err != nil || page.(*dynamodb.QueryOutput).LastEvaluatedKey == nil {
			w.Errorf("got %+v, %v", page, err)
		}
		stuck := faults.Wrap(w.Engine, faults.Batches(0))
		out, err = calls(w.Context(), stuck)[faults.BatchGetItem]()
		if got := out.(*dynamodb.BatchGetItemOutput); err != nil || len(got.UnprocessedKeys[table].Keys) != 2 || len(got.Responses) != 0 {
			w.Errorf("got %v, %v", got, err)
		}
		out, err = calls(w.Context(), stuck)[faults.BatchWriteItem]()
		if got := out.(*dynamodb.BatchWriteItemOutput); err != nil || len(got.UnprocessedItems[table]) != 2 {
			w.Errorf("got %v, %v", got, err)
		}
	})
}
