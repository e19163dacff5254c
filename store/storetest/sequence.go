package storetest

import (
	"strconv"

	"github.com/zeroae/zae-limiter-go/store"
)

// numbered is a sequence at a position of the process a.
func numbered(n int64) store.Sequence {
	return store.Sequence{Position: "aaaaaaaa0", Number: n, Below: n}
}

// firstAt is a first sequence of a position, of as many as the item may have.
func firstAt(n int64, most int) store.Sequence {
	q := numbered(n)
	q.Cap = most
	return q
}

// sequenceWrites are the three writes that may have a sequence. Each takes one rpm, on an image.
var sequenceWrites = map[string]func(*kit, *store.Image, store.Sequence, []store.Position) (store.Outcome, error){
	"take": func(k *kit, img *store.Image, q store.Sequence, _ []store.Position) (store.Outcome, error) {
		return k.Take(k.Context(), &store.Take{
			Bucket: theBucket, Now: k.now, Seen: img, Sequence: q,
			Debits: []store.Debit{{Amount: store.Amount{Limit: "rpm", Milli: milli}, AtMost: rpm.Capacity, Params: rpm}},
		})
	},
	"refill": func(k *kit, img *store.Image, q store.Sequence, idle []store.Position) (store.Outcome, error) {
		l, _ := img.Limit("rpm")
		return k.Refill(k.Context(), &store.Refill{
			Bucket: theBucket, Seen: img, RefilledAt: img.RefilledAt, Sequence: q, Idle: idle,
			Writes:  store.Change{Limit: hidden, Debit: milli, AtMost: writes.Capacity, AtLeast: milli},
			Changes: []store.Change{{Limit: "rpm", Debit: milli, AtLeast: milli, AtMost: l.Capacity}},
		})
	},
	"adjust": func(k *kit, img *store.Image, q store.Sequence, _ []store.Position) (store.Outcome, error) {
		return k.Adjust(k.Context(), &store.Adjust{
			Bucket: theBucket, Seen: img, Sequence: q,
			Deltas: []store.Delta{{Limit: "rpm", Tokens: -milli, Consumed: milli, AtMost: rpm.Capacity}},
		})
	},
}

// A sequenceStep is a write with a sequence: whether it is applied, and the number at the position then.
type sequenceStep struct {
	seq     store.Sequence
	idle    []store.Position
	applied bool
	number  int64
}

// sequenceTests are what each write with a sequence requires and leaves.
var sequenceTests = func() (tests []test) {
	before := func(below, n int64) store.Sequence {
		q := numbered(n)
		q.Below = below
		return q
	}
	for kind, write := range sequenceWrites {
		for name, steps := range map[string][]sequenceStep{
			"is applied once, however often it is sent": {{firstAt(7, 24), nil, true, 7}, {firstAt(7, 24), nil, false, 7}, {numbered(7), nil, false, 7}},
			"is applied after the one before it":        {{firstAt(7, 24), nil, true, 7}, {numbered(8), nil, true, 8}, {numbered(7), nil, false, 8}},
			"is not applied after one it excludes":      {{firstAt(7, 24), nil, true, 7}, {numbered(8), nil, true, 8}, {before(8, 9), nil, false, 8}},
			"excludes one that comes later":             {{firstAt(7, 24), nil, true, 7}, {before(8, 9), nil, true, 9}, {numbered(8), nil, false, 9}},
			"is not applied where there is no room":     {{firstAt(7, 24), nil, true, 7}, {store.Sequence{Position: "b0", Number: 3, Below: 3, Cap: 1}, nil, false, 7}},
		} {
			tests = append(tests, test{kind + ": " + name, func(k *kit) {
				img := k.create(k.newBucket())
				left := int64(50 * milli)
				for i, s := range steps {
					out, err := write(k, img, s.seq, s.idle)
					k.numberedRight(strconv.Itoa(i), &s, out, err)
					if s.applied {
						left -= milli
						img = out.Image
					}
					if l, _ := out.Image.Limit("rpm"); l.Tokens != left {
						k.Errorf("%d: %d are left, want %d", i, l.Tokens, left)
					}
				}
			}})
		}
		tests = append(tests, test{kind + ": is not applied to an item in the place of the one that was seen", func(k *kit) {
			img := k.create(k.newBucket())
			other := *img
			other.CreatedAt--
			out, err := write(k, &other, firstAt(7, 24), nil)
			k.numberedRight("", &sequenceStep{}, out, err)
		}})
	}
	return append(tests, test{"a refill removes positions that are as seen, and makes room", func(k *kit) {
		img, refill := k.create(k.newBucket()), sequenceWrites["refill"]
		idle := []store.Position{{Name: "aaaaaaaa0", Number: 7}}
		of := func(name string, n int64, most int) store.Sequence {
			return store.Sequence{Position: name, Number: n, Below: n, Cap: most}
		}
		for i, s := range []sequenceStep{
			{firstAt(7, 1), nil, true, 7},
			{of("b0", 5, 1), nil, false, 7},
			{of("b0", 5, 2), []store.Position{{Name: "aaaaaaaa0", Number: 6}}, false, 7},
			{of("b0", 5, 2), idle, true, 0},
			{firstAt(7, 24), nil, false, 0}, // a copy from before the removal
			{numbered(8), nil, false, 0},    // whose position was removed
			{firstAt(9, store.PositionRound+2), nil, true, 9},
			{of("c0", 9, store.PositionRound+2), nil, false, 9},
		} {
			out, err := refill(k, img, s.seq, s.idle)
			k.numberedRight(strconv.Itoa(i), &s, out, err)
			img = out.Image
		}
	}})
}()

// numberedRight checks the outcome of a write with a sequence.
func (k *kit) numberedRight(step string, s *sequenceStep, out store.Outcome, err error) {
	k.Helper()
	if err != nil || out.Image == nil {
		k.Fatalf("%s: %v, image %v", step, err, out.Image)
	}
	if got := out.Image.NumberAt("aaaaaaaa0"); out.Applied != s.applied || got != s.number {
		k.Errorf("%s: applied %t with number %d, want %t and %d", step, out.Applied, got, s.applied, s.number)
	}
}
