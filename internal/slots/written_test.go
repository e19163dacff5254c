package slots_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// longest is how long the slots of a lease that is written down may be held: six days, as tokens are.
const longest = 6 * 24 * time.Hour

// writtenFor is an entry of a lease that is written down for a time.
func writtenFor(within time.Duration) store.Holding {
	return store.Holding{Process: store.LeasePrefix + "lease", Until: time.Now().Add(within).UnixMilli(), Seq: within.Milliseconds()}
}

// lease acquires slots, of which nobody counts what is held.
func (p *holding) lease(n int64) *slots.Lease {
	p.house.Helper()
	lease, err := p.Acquire(p.house.Context(), slots.Ask{SlotKey: p.house.key, Slots: n, Cap: p.house.cap})
	p.house.Must(err)
	return lease
}

// entry is the entry of a lease that is written down, as the table has it; nil if it is gone.
func (h *house) entry() *store.Holding {
	h.Helper()
	img, err := h.Store.Slots(h.Context(), h.key)
	h.Must(err)
	return img.Of(store.LeasePrefix + "lease")
}

// forgets waits until a process has forgotten the item.
func (p *holding) forgets() {
	p.house.Helper()
	time.Sleep(time.Minute)
	if uses := p.Uses(); len(uses) != 0 {
		p.house.Fatalf("it still knows of %+v", uses)
	}
}

// A process has forgotten the item of a lease that it has written down, and takes the lease back: others
// may need its token's slots no more. Its slots are lost, and its entry is removed.
func TestALeaseOfAForgottenItemIsTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		p := h.holder(0, time.Millisecond)
		lease := p.lease(2)
		over, err := p.HandOver(h.Context(), lease, writtenFor(time.Hour))
		h.Must(err)
		p.forgets()
		if h.entry() == nil || isLost(lease) {
			t.Fatalf("the entry is %+v, and the lease is lost: %t", h.entry(), isLost(lease))
		}
		over.TakeBack()
		if !isLost(lease) {
			t.Error("the process believes that it holds slots of an item which it does not know")
		}
		time.Sleep(time.Second)
		if is := h.entry(); is != nil {
			t.Errorf("the entry is still there: %+v", is)
		}
		h.holder(0, time.Millisecond).lease(2).Release()
	})
}

// A lease is lost while it is written down. Taking it back from an item that was forgotten since changes
// nothing about that.
func TestALostLeaseOfAForgottenItemStaysLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		p := h.holder(0, time.Millisecond)
		lease := p.lease(2)
		time.Sleep(2 * time.Second)
		p.link.Set(faults.Fail(errCut))
		over, err := p.HandOver(h.Context(), lease, writtenFor(time.Hour))
		if !errors.Is(err, slots.ErrLost) || !isLost(lease) {
			t.Fatalf("written down without a table: %v", err)
		}
		p.link.Set(nil)
		p.forgets()
		over.TakeBack()
		time.Sleep(time.Second)
		if is := h.entry(); is != nil {
			t.Errorf("the entry is there: %+v", is)
		}
	})
}

// An extension whose answer is lost may be repeated, and so may one of an older token. An older extension that
// comes late ends nothing earlier. One of a lease that has ended is lost.
func TestAnExtensionIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		p := h.holder(0, time.Millisecond)
		first, later := writtenFor(time.Minute), writtenFor(time.Hour)
		_, err := p.HandOver(h.Context(), p.lease(1), first)
		h.Must(err)
		first.Held, later.Held = 1, 1
		p.link.Set(faults.LoseAnswer(errCut))
		if err := p.Extend(h.Context(), h.key, first, later); err == nil {
			t.Error("an answer that was lost has come")
		}
		p.link.Set(nil)
		for range 2 {
			h.Must(p.Extend(h.Context(), h.key, first, later))
		}
		older := first
		older.Until += time.Minute.Milliseconds()
		h.Must(p.Extend(h.Context(), h.key, first, older))
		if is := h.entry(); is == nil || is.Until != later.Until || is.Seq != later.Seq || is.Held != 1 {
			t.Errorf("the entry is %+v, want %+v", is, later)
		}
		h.Must(p.End(h.Context(), h.key, first))
		for _, seen := range []store.Holding{first, later} {
			to := writtenFor(2 * time.Hour)
			to.Held = 1
			if err := p.Extend(h.Context(), h.key, seen, to); !errors.Is(err, slots.ErrLost) {
				t.Errorf("extended after the end: %v", err)
			}
		}
		if is := h.entry(); is != nil {
			t.Errorf("an extension made the entry again: %+v", is)
		}
	})
}

// The table keeps an item for longer than any lease that is written down in it, whichever write was the
// last: the one that wrote it down, one of a process that has not seen it, or one that extended it.
func TestAnItemOutlivesItsWrittenLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		outlives := func(why string) {
			t.Helper()
			is := h.entry()
			if is == nil {
				t.Fatalf("%s: the entry is gone", why)
			}
			if left := h.expires().Sub(time.UnixMilli(is.Until)); left <= 2*slots.Skew {
				t.Errorf("%s: the item expires %v after the lease", why, left)
			}
		}
		p := h.holder(0, time.Millisecond)
		entry := writtenFor(longest)
		_, err := p.HandOver(h.Context(), p.lease(1), entry)
		h.Must(err)
		outlives("written down")
		other := h.holder(0, time.Millisecond)
		other.lease(1).Release()
		other.forgets()
		outlives("after a write of another process")
		entry.Held = 1
		to := writtenFor(longest)
		to.Held, to.Seq = 1, entry.Seq+1
		h.Must(p.Extend(h.Context(), h.key, entry, to))
		outlives("extended")
	})
}

// expires is when the item may be deleted.
func (h *house) expires() time.Time {
	h.Helper()
	out, err := h.Engine.Scan(h.Context(), &dynamodb.ScanInput{TableName: aws.String(testbed.Table), ConsistentRead: aws.Bool(true)})
	h.Must(err)
	for _, item := range out.Items {
		if sk, is := item["SK"].(*types.AttributeValueMemberS); is && sk.Value == "#SLOTS#"+h.key.Limit {
			ttl, _ := item["ttl"].(*types.AttributeValueMemberN)
			seconds, err := strconv.ParseInt(ttl.Value, 10, 64)
			h.Must(err)
			return time.Unix(seconds, 0)
		}
	}
	h.Fatal("there is no item")
	return time.Time{}
}
