package storetest

import (
	"math"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// keeps checks the closed hours of an image's diary: how many hours after the item's first
// one, and what each limit consumed. The limit "" counts writes that took tokens.
func (k *kit) keeps(img *store.Image, want ...diary.Entry) {
	k.Helper()
	var got []diary.Entry
	if img.Diary != nil {
		entries, err := diary.Parse(img.Diary.Text)
		if err != nil {
			k.Fatal(err)
		}
		got = entries
	}
	for i := range got {
		got[i].Hour -= diary.HourOf(k.now)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), anySize); diff != "" {
		k.Errorf("closed hours (-want +got):\n%s", diff)
	}
}

// inHour makes an entry: in an hour after the first, acquires, and amounts of rpm and tpm.
func inHour(hour int32, acquires int64, amounts ...store.Amount) diary.Entry {
	return diary.Entry{Hour: hour, Amounts: append([]store.Amount{{Milli: acquires}}, amounts...)}
}

// turnTo is a turn from an image to an hour after the item's first one.
func (k *kit) turnTo(seen *store.Image, hour int32) *store.Turn {
	return &store.Turn{Seen: seen, Hour: diary.HourOf(k.now) + hour}
}

// takeAndTurn takes 1 rpm in another hour.
func (k *kit) takeAndTurn(seen *store.Image, hour int32) (store.Outcome, error) {
	return k.Take(k.Context(), &store.Take{
		Bucket: theBucket, Now: k.now, Debits: debitsOf(store.Amount{Limit: "rpm", Milli: milli}), Turn: k.turnTo(seen, hour),
	})
}

// turns is a write of any kind that turns, on an image, to the next hour. It consumes 2 rpm.
func turns(name string, write func(k *kit, seen *store.Image) (store.Outcome, error)) test {
	return test{name, func(k *kit) {
		k.create(k.newBucket())
		seen := k.mustTake(store.Amount{Limit: "rpm", Milli: 3 * milli}, store.Amount{Limit: "tpm", Milli: 7})
		img := k.mustApply(write(k, seen))
		first := inHour(0, 1, store.Amount{Limit: "rpm", Milli: 3 * milli}, store.Amount{Limit: "tpm", Milli: 7})
		k.keeps(img, first)
		img = k.mustApply(k.takeAndTurn(img, 3))
		k.keeps(img, first, inHour(1, 1, store.Amount{Limit: "rpm", Milli: 2 * milli}))
		img = k.mustApply(k.takeAndTurn(img, 4))
		k.keeps(img, first, inHour(1, 1, store.Amount{Limit: "rpm", Milli: 2 * milli}), inHour(3, 1, store.Amount{Limit: "rpm", Milli: milli}))
	}}
}

// turning refills an image and turns to the next hour.
func turning(write func(*store.Image) *store.Refill) func(*kit, *store.Image) (store.Outcome, error) {
	return func(k *kit, seen *store.Image) (store.Outcome, error) {
		r := write(seen)
		r.Turn = k.turnTo(seen, 1)
		return k.Refill(k.Context(), r)
	}
}

var turnTests = []test{
	turns("a take", func(k *kit, seen *store.Image) (store.Outcome, error) {
		return k.Take(k.Context(), &store.Take{Bucket: theBucket, Now: k.now, Debits: debitsOf(store.Amount{Limit: "rpm", Milli: 2 * milli}), Turn: k.turnTo(seen, 1)})
	}),
	turns("a refill", turning(refills(keep("rpm", 0, 2*milli)))),
	turns("a loose refill", turning(loosely(keep("rpm", 0, 2*milli)))),
	turns("an adjustment", func(k *kit, seen *store.Image) (store.Outcome, error) {
		return k.Adjust(k.Context(), &store.Adjust{
			Bucket: seen.Bucket, Seen: seen, Turn: k.turnTo(seen, 1),
			Deltas: []store.Delta{{Limit: "rpm", Tokens: -2 * milli, Consumed: 2 * milli, AtMost: rpm.Capacity}},
		})
	}),
	turns("a transaction", func(k *kit, seen *store.Image) (store.Outcome, error) {
		r := refill(seen, keep("rpm", 0, 2*milli))
		r.Turn = k.turnTo(seen, 1)
		j, err := k.Gather(k.Context(), []*store.Refill{r})
		images, failed := k.Buckets(k.Context(), seen.Entity, seen.Resource, 1)
		if err != nil || failed != nil || len(images) != 1 {
			k.Fatal(err, failed, images)
		}
		return store.Outcome{Applied: j.Applied, Image: images[0]}, nil
	}),
	{"what lands between image and turn belongs to the old hour", func(k *kit) {
		seen := k.create(k.newBucket())
		k.mustTake(store.Amount{Limit: "rpm", Milli: 4 * milli})
		img := k.mustApply(k.takeAndTurn(seen, 1))
		k.keeps(img, inHour(0, 1, store.Amount{Limit: "rpm", Milli: 4 * milli}))
	}},
	{"refused: another write has turned", func(k *kit) {
		seen := k.create(k.newBucket())
		met := k.mustApply(k.takeAndTurn(seen, 1))
		for _, hour := range []int32{1, 2} {
			out, err := k.takeAndTurn(seen, hour)
			k.refused(out, err, met)
		}
	}},
	{"refused: another item has taken the place of the one that was seen", func(k *kit) {
		earlier := k.newBucket()
		earlier.Shard = 1
		k.create(earlier)
		out, err := k.Take(k.Context(), &store.Take{Bucket: earlier.Bucket, Now: k.now, Debits: debitsOf(store.Amount{Limit: "rpm", Milli: milli}), Turn: k.turnTo(imageOf(earlier), 1)})
		seen := *k.mustApply(out, err)
		seen.Bucket = theBucket
		later := k.newBucket()
		later.Now += 3_600_000
		met := k.create(later)
		out, err = k.takeAndTurn(&seen, 2)
		k.refused(out, err, met)
	}},
	{"returns are negative", func(k *kit) {
		img := k.create(k.newBucket())
		img = k.mustApply(k.takeAndTurn(img, 1))
		img = k.mustAdjust(img, store.Delta{Limit: "rpm", Tokens: milli, Consumed: -milli, AtMost: rpm.Capacity - milli})
		img = k.mustApply(k.takeAndTurn(img, 2))
		k.keeps(img, diary.Entry{Hour: 1, Amounts: []store.Amount{{Milli: 1}}})
		img = k.mustAdjust(img, store.Delta{Limit: "rpm", Tokens: 2 * milli, Consumed: -2 * milli, AtMost: rpm.Capacity - 2*milli})
		img = k.mustApply(k.takeAndTurn(img, 3))
		k.keeps(img, diary.Entry{Hour: 1, Amounts: []store.Amount{{Milli: 1}}}, inHour(2, 1, store.Amount{Limit: "rpm", Milli: -milli}))
	}},
	{"a removed limit is closed, and leaves nothing", func(k *kit) {
		img := k.create(k.newBucket())
		k.mustTake(store.Amount{Limit: "rpm", Milli: 3 * milli}, store.Amount{Limit: "tpm", Milli: 7})
		img = k.mustApply(k.Refill(k.Context(), refill(img, store.Change{Limit: "rpm", Kind: store.RemoveLimit})))
		first := inHour(0, 1, store.Amount{Limit: "rpm", Milli: 3 * milli}, store.Amount{Limit: "tpm", Milli: 7})
		for hour := int32(1); hour < 4; hour++ {
			out, err := k.Take(k.Context(), &store.Take{Bucket: theBucket, Now: k.now, Debits: debitsOf(store.Amount{Limit: "tpm", Milli: 1}), Turn: k.turnTo(img, hour)})
			img = k.mustApply(out, err)
			want := []diary.Entry{first}
			for h := int32(1); h < hour; h++ {
				want = append(want, inHour(h, 1, store.Amount{Limit: "tpm", Milli: 1}))
			}
			k.keeps(img, want...)
		}
		if len(img.Diary.Removed) > 0 {
			k.Errorf("left of removed limits: %v", img.Diary.Removed)
		}
	}},
	{"a removed limit is closed, also if its count has fallen to 0", func(k *kit) {
		img := k.create(k.newBucket())
		img = k.mustApply(k.takeAndTurn(img, 1))
		img = k.mustApply(k.takeAndTurn(img, 2))
		img = k.mustAdjust(img, store.Delta{Limit: "rpm", Tokens: 2 * milli, Consumed: -2 * milli, AtMost: rpm.Capacity - 2*milli})
		img = k.mustApply(k.Refill(k.Context(), refill(img, store.Change{Limit: "rpm", Kind: store.RemoveLimit})))
		img = k.mustApply(k.Take(k.Context(), &store.Take{Bucket: theBucket, Now: k.now, Debits: debitsOf(store.Amount{Limit: "tpm", Milli: 1}), Turn: k.turnTo(img, 3)}))
		k.keeps(img, inHour(1, 1, store.Amount{Limit: "rpm", Milli: milli}), inHour(2, 1, store.Amount{Limit: "rpm", Milli: -milli}))
	}},
	{"a limit that comes back goes on", func(k *kit) {
		img := k.create(k.newBucket())
		k.mustTake(store.Amount{Limit: "rpm", Milli: 3 * milli})
		img = k.mustApply(k.Refill(k.Context(), refill(img, store.Change{Limit: "rpm", Kind: store.RemoveLimit})))
		img = k.mustApply(k.Refill(k.Context(), refill(img, store.Change{Limit: "rpm", Kind: store.AddLimit, Params: rpm, Earned: 10 * milli, Debit: 2 * milli})))
		img = k.mustApply(k.takeAndTurn(img, 1))
		k.keeps(img, inHour(0, 2, store.Amount{Limit: "rpm", Milli: 5 * milli}))
	}},
	{"a limit that comes back with the turn goes on", func(k *kit) {
		img := k.create(k.newBucket())
		k.mustTake(store.Amount{Limit: "rpm", Milli: 3 * milli})
		img = k.mustApply(k.Refill(k.Context(), refill(img, store.Change{Limit: "rpm", Kind: store.RemoveLimit})))
		r := refill(img, store.Change{Limit: "rpm", Kind: store.AddLimit, Params: rpm, Earned: 10 * milli, Debit: 2 * milli})
		r.Turn = k.turnTo(img, 1)
		img = k.mustApply(k.Refill(k.Context(), r))
		img = k.mustApply(k.takeAndTurn(img, 2))
		k.keeps(img, inHour(0, 1, store.Amount{Limit: "rpm", Milli: 3 * milli}), inHour(1, 1, store.Amount{Limit: "rpm", Milli: 2 * milli}))
	}},
	{"from counts before the write", func(k *kit) {
		from := k.create(k.newBucket())
		img := k.mustTake(store.Amount{Limit: "rpm", Milli: 4 * milli})
		turn := func(seen, from *store.Image, hour int32) (store.Outcome, error) {
			t := k.turnTo(seen, hour)
			t.From = from
			return k.Adjust(k.Context(), &store.Adjust{Bucket: theBucket, Seen: seen, Turn: t})
		}
		next := k.mustApply(turn(from, from, 1)) // the 4 belong to the hour 1, the acquire to the hour 0
		k.keeps(next, inHour(0, 1))
		out, err := turn(from, from, 1)
		k.refused(out, err, next)
		next = k.mustApply(turn(next, img, 2))
		k.keeps(next, inHour(0, 1), diary.Entry{Hour: 1, Amounts: []store.Amount{{Limit: "rpm", Milli: 4 * milli}}})
		ahead := *next
		ahead.Limits = slices.Clone(ahead.Limits)
		for i := range ahead.Limits {
			ahead.Limits[i].Consumed++
		}
		out, err = turn(next, &ahead, 3)
		k.refused(out, err, next)
	}},
	{"of as many limits as there may be", func(k *kit) {
		img := k.newWide(0, 1)
		for hour := int32(1); hour < 4; hour++ {
			r := refill(img, onEach(img, func(int, *store.LimitState) store.Change { return store.Change{Debit: milli, AtMost: math.MaxInt64} })...)
			r.Turn = k.turnTo(img, hour)
			img = k.mustApply(k.Refill(k.Context(), r))
		}
		entries, err := diary.Parse(img.Diary.Text)
		if err != nil || len(entries) == 0 {
			k.Fatal(entries, err)
		}
		last := entries[len(entries)-1]
		if len(last.Amounts) != store.MaxLimits+1 || slices.ContainsFunc(last.Amounts[1:], func(a store.Amount) bool { return a.Milli != milli }) {
			k.Errorf("hour %d has %d amounts: %v", last.Hour, len(last.Amounts), last.Amounts)
		}
	}},
}
