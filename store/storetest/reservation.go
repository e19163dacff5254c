package storetest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// An entryStep is a write that changes reservations: whether it is applied, and what is reserved then.
type entryStep struct {
	adds    []store.ReserveAdd
	lost    []store.Reservation // only refills remove any
	room    int32               // the count that the image has, if not that of the item
	applied bool
	left    []store.Reservation
}

const (
	oneEntry   = "aaaaaaaa1"
	otherEntry = "bbbbbbbb1"
)

func reserved(entry string, n int64) store.Reservation {
	return store.Reservation{Entry: entry, Limit: "rpm", Milli: n}
}

func adding(entry string, n int64, isNew bool) []store.ReserveAdd {
	return []store.ReserveAdd{{Reservation: reserved(entry, n), New: isNew}}
}

// entryWrites are the writes that change reservations. Each takes one rpm.
var entryWrites = map[string]func(*kit, *store.Image, *entryStep) (store.Outcome, error){
	"take": func(k *kit, img *store.Image, s *entryStep) (store.Outcome, error) {
		return k.Take(k.Context(), &store.Take{
			Bucket: theBucket, Now: k.now, Seen: img, Reserve: s.adds,
			Debits: []store.Debit{{Amount: store.Amount{Limit: "rpm", Milli: milli}, AtMost: rpm.Capacity, Params: rpm}},
		})
	},
	"refill": func(k *kit, img *store.Image, s *entryStep) (store.Outcome, error) {
		l, _ := img.Limit("rpm")
		return k.Refill(k.Context(), &store.Refill{
			Bucket: theBucket, Seen: img, RefilledAt: img.RefilledAt, Reserve: s.adds, Lost: s.lost,
			Writes:  store.Change{Limit: hidden, Debit: milli, AtMost: writes.Capacity, AtLeast: milli},
			Changes: []store.Change{{Limit: "rpm", Debit: milli, AtLeast: milli, AtMost: l.Capacity}},
		})
	},
	"adjust": func(k *kit, img *store.Image, s *entryStep) (store.Outcome, error) {
		return k.Adjust(k.Context(), &store.Adjust{
			Bucket: theBucket, Seen: img, Reserve: s.adds,
			Deltas: []store.Delta{{Limit: "rpm", Tokens: -milli, Consumed: milli, AtMost: rpm.Capacity}},
		})
	},
}

// reservationTests are what writes that change reservations require and leave (ADR 071).
var reservationTests = func() (tests []test) {
	begun := entryStep{adds: adding(oneEntry, 300, true), applied: true, left: []store.Reservation{reserved(oneEntry, 300)}}
	histories := map[string][]entryStep{
		"begins an entry once": {begun, {adds: adding(oneEntry, 300, true), left: begun.left}},
		"adds to an entry, and lowers it": {
			begun,
			{adds: adding(oneEntry, 200, false), applied: true, left: []store.Reservation{reserved(oneEntry, 500)}},
			{adds: adding(oneEntry, -500, false), applied: true, left: []store.Reservation{reserved(oneEntry, 0)}},
		},
		"is refused without the entry": {{adds: adding(oneEntry, -1, false)}},
		"has two entries": {
			begun, {adds: adding(otherEntry, 7, true), applied: true, left: []store.Reservation{reserved(oneEntry, 300), reserved(otherEntry, 7)}},
		},
		"is refused without room": {begun, {adds: adding(otherEntry, 7, true), room: 3, left: begun.left}},
		"finds room for its last": {begun, {adds: adding(otherEntry, 7, true), room: 4, applied: true, left: []store.Reservation{reserved(oneEntry, 300), reserved(otherEntry, 7)}}},
	}
	removals := map[string][]entryStep{
		"removes an entry as seen":    {begun, {lost: begun.left, applied: true}},
		"removes none that has moved": {begun, {lost: []store.Reservation{reserved(oneEntry, 299)}, left: begun.left}},
		"removes none twice":          {begun, {lost: begun.left, applied: true}, {lost: begun.left}},
		"excludes what began before a removal": {
			begun, {lost: begun.left, applied: true}, {adds: adding(oneEntry, 300, true), room: 24}, {adds: adding(oneEntry, -300, false)},
		},
		"makes room": {
			begun, {lost: begun.left, adds: adding(otherEntry, 5, true), applied: true, left: []store.Reservation{reserved(otherEntry, 5)}},
		},
	}
	for kind, write := range entryWrites {
		all := []map[string][]entryStep{histories}
		if kind == "refill" {
			all = append(all, removals)
		}
		for _, of := range all {
			for name, steps := range of {
				tests = append(tests, test{kind + ": " + name, func(k *kit) {
					img := k.create(k.newBucket())
					for i := range steps {
						img = k.reservedRight(strconv.Itoa(i), img, &steps[i], write)
					}
				}})
			}
		}
	}
	return append(tests, test{"a creation has them", func(k *kit) {
		c := k.newBucket()
		c.Reserved, c.Position = []store.Reservation{reserved(oneEntry, 300)}, store.Position{Name: "aaaaaaaa0", Number: 7}
		img := k.create(c)
		if !slices.Equal(img.Reservations(), c.Reserved) || img.NumberAt("aaaaaaaa0") != 7 || img.Places() != 3 {
			k.Errorf("%+v", img)
		}
		s := entryStep{adds: adding(otherEntry, 7, true), room: 4, left: c.Reserved}
		k.reservedRight("no room", img, &s, entryWrites["take"])
	}}, test{"a creation has none that would cost another unit", func(k *kit) {
		c := k.newBucket()
		c.Entity = strings.Repeat("e", 110)
		c.Reserved, c.Position = []store.Reservation{reserved(oneEntry, 300)}, store.Position{Name: "aaaaaaaa0", Number: 7}
		if img := k.mustApply(k.Create(k.Context(), c)); len(img.Reservations()) != 0 || img.Places() != 0 || img.Limits[0].Tokens != 50*milli {
			k.Errorf("%+v", img)
		}
	}}, test{"a creation has the position alone, where there is no room for both", func(k *kit) {
		most := 0
		for length := 110; length > 0 && most != 1; length-- { // each byte less is room for more
			c := k.newBucket()
			c.Entity = strings.Repeat("e", length)
			c.Reserved, c.Position = []store.Reservation{reserved(oneEntry, 300)}, store.Position{Name: "aaaaaaaa0", Number: 7}
			img := k.mustApply(k.Create(k.Context(), c))
			if most = img.Places(); most > 0 && img.NumberAt("aaaaaaaa0") != 7 || (most >= 3) != (len(img.Reservations()) == 1) {
				k.Fatalf("an entity of %d bytes: %+v", length, img)
			}
		}
		if most != 1 {
			k.Errorf("no name leaves room for the position alone")
		}
	}}, test{"is not begun on an item in the place of the one that was seen", func(k *kit) {
		other := *k.create(k.newBucket())
		other.CreatedAt--
		k.reservedRight("", &other, &entryStep{adds: adding(oneEntry, 1, true)}, entryWrites["take"])
	}})
}()

// reservedRight makes a write, checks its outcome, and returns the image.
func (k *kit) reservedRight(step string, img *store.Image, s *entryStep, write func(*kit, *store.Image, *entryStep) (store.Outcome, error)) *store.Image {
	k.Helper()
	seen := *img
	if s.room != 0 {
		seen.PositionCap = s.room
	}
	out, err := write(k, &seen, s)
	if err != nil || out.Image == nil {
		k.Fatalf("%s: %v, image %v", step, err, out.Image)
	}
	if got := out.Image.Reservations(); out.Applied != s.applied || !slices.Equal(got, s.left) {
		k.Errorf("%s: applied %t with %v, want %t and %v", step, out.Applied, got, s.applied, s.left)
	}
	return out.Image
}
