package storetest

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/store"
)

// theSlots are the slots of most tests, of which there are ten.
var theSlots = store.SlotKey{Entity: "user-1", Resource: "gpt-4", Limit: "inflight"}

// entry is the entry of a process.
func entry(process string, held, seq int64) store.Holding {
	return store.Holding{Process: process, Held: held, Until: 1_700_000_000_000, Seq: seq}
}

// writesEntry is the write with which a process takes slots.
func writesEntry(seen *store.Holding, next store.Holding, dead ...store.Holding) *store.Hold {
	return &store.Hold{SlotKey: theSlots, Cap: 10, Seen: seen, Next: next, Dead: dead, ExpiresAt: 4_000_000_000}
}

// lends is the write with which a writes leases down.
func lends(next store.Holding, leases ...store.Holding) *store.Hold {
	h := writesEntry(&slotsOfA, next)
	h.Written = leases
	return h
}

// A slotStore is a kit whose store keeps slots.
type slotStore struct {
	*kit
	slots store.SlotStore
}

func (s *slotStore) hold(h *store.Hold) store.SlotOutcome {
	s.Helper()
	out, err := s.slots.Hold(s.Context(), h)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

func (s *slotStore) image() *store.SlotImage {
	s.Helper()
	img, err := s.slots.Slots(s.Context(), theSlots)
	if err != nil {
		s.Fatal(err)
	}
	return img
}

// ofSlots is a test that a store passes which keeps no slots.
func ofSlots(name string, run func(*slotStore)) test {
	return test{name, func(k *kit) {
		if slots, ok := k.Store.(store.SlotStore); ok {
			run(&slotStore{k, slots})
		}
	}}
}

// held is a test of a write to slots of which a has six and b four: what it leaves, and whether it
// is applied. The answer has the item.
func held(name string, h *store.Hold, applied bool, used int64, entries string) test {
	return ofSlots(name, func(s *slotStore) {
		s.hold(writesEntry(nil, slotsOfA))
		s.hold(writesEntry(nil, slotsOfB))
		out, img := s.hold(h), s.image()
		var all []string
		for _, h := range img.Holdings {
			all = append(all, fmt.Sprint(h.Process, h.Held))
		}
		if got := strings.Join(all, " "); out.Applied != applied || img.Used != used || got != entries {
			s.Errorf("applied: %v; %d used by %q", out.Applied, img.Used, got)
		}
		if diff := cmp.Diff(img, out.Image); diff != "" {
			s.Errorf("the image of the answer differs (-item +image):\n%s", diff)
		}
	})
}

var slotsOfA, slotsOfB = entry("a", 6, 1), entry("b", 4, 1)

var slotTests = []test{
	held("it takes, if there is room", writesEntry(&slotsOfB, entry("b", 4, 2)), true, 10, "a6 b4"),
	held("it is refused without room", writesEntry(nil, entry("c", 1, 1)), false, 10, "a6 b4"),
	held("it is refused without room for more", writesEntry(&slotsOfB, entry("b", 5, 2)), false, 10, "a6 b4"),
	held("it returns some", writesEntry(&slotsOfA, entry("a", 2, 2)), true, 6, "a2 b4"),
	held("it returns all", writesEntry(&slotsOfA, entry("a", 0, 2)), true, 4, "b4"),
	held("it returns some above a lower cap", &store.Hold{SlotKey: theSlots, Cap: 1, Seen: &slotsOfA, Next: entry("a", 5, 2)}, true, 9, "a5 b4"),
	held("it is refused if the entry is another one", writesEntry(new(entry("a", 6, 3)), entry("a", 2, 4)), false, 10, "a6 b4"),
	held("it is refused if there is an entry", writesEntry(nil, entry("a", 0, 9)), false, 10, "a6 b4"),
	held("it is refused if there is no entry", writesEntry(new(entry("c", 2, 1)), entry("c", 1, 2)), false, 10, "a6 b4"),
	held("it takes from who is gone", writesEntry(nil, entry("c", 6, 1), slotsOfA), true, 10, "b4 c6"),
	held("it removes all who are gone", writesEntry(nil, entry("c", 0, 1), slotsOfA, slotsOfB), true, 0, ""),
	held("it is refused if it takes more than was free or gone", writesEntry(nil, entry("c", 7, 1), slotsOfA), false, 10, "a6 b4"),
	held("it is refused if who was gone has written", writesEntry(nil, entry("c", 1, 1), entry("a", 6, 0)), false, 10, "a6 b4"),
	held("it is applied once if it is repeated", writesEntry(nil, slotsOfB), true, 10, "a6 b4"),
	held("it makes an entry without slots", writesEntry(nil, store.Holding{Process: "c", Wants: 2, Seq: 1}), true, 10, "a6 b4 c0"),
	held("it writes a lease down, for which there is no more room", lends(entry("a", 4, 2), entry("0x", 2, 1)), true, 10, "0x2 a4 b4"),
	held("it writes leases down, and lends none", lends(entry("a", 0, 2), entry("0x", 2, 1), entry("0y", 4, 1)), true, 10, "0x2 0y4 b4"),
	held("it is refused if a lease holds more than was given away", lends(entry("a", 5, 2), entry("0x", 2, 1)), false, 10, "a6 b4"),
	held("it takes a lease back", &store.Hold{SlotKey: theSlots, Cap: 1, Seen: &slotsOfA, Next: entry("a", 10, 2), Dead: []store.Holding{slotsOfB}}, true, 10, "a10"),
	ofSlots("it is refused if a lease was written down before", func(s *slotStore) {
		s.hold(writesEntry(nil, slotsOfA))
		first := s.hold(lends(entry("a", 4, 2), entry("0x", 2, 1)))
		again := writesEntry(new(entry("a", 4, 2)), entry("a", 2, 3))
		again.Written = []store.Holding{entry("0x", 2, 2)}
		if out := s.hold(again); !first.Applied || out.Applied || out.Image.Used != 6 {
			s.Errorf("got %+v, and then %+v", first, out)
		}
	}),
	ofSlots("anybody ends a lease that was written down, once, or extends it", func(s *slotStore) {
		s.hold(writesEntry(nil, slotsOfA))
		lease, later := entry("0x", 2, 1), entry("0x", 2, 5)
		s.hold(lends(entry("a", 4, 2), lease))
		later.Until += 1000
		for i, c := range []struct {
			seen, next store.Holding
			applied    bool
			used       int64
		}{{lease, later, true, 6}, {lease, entry("0x", 0, 2), false, 6}, {later, entry("0x", 0, 6), true, 4}, {later, entry("0x", 0, 6), false, 4}} {
			h := writesEntry(&c.seen, c.next)
			h.Cap = 0
			if out := s.hold(h); out.Applied != c.applied || out.Image.Used != c.used {
				s.Errorf("write %d: %+v", i, out)
			}
		}
	}),
	ofSlots("it is refused if there is no item", func(s *slotStore) {
		if out := s.hold(writesEntry(&slotsOfA, entry("a", 6, 2))); out.Applied || out.Image != nil {
			s.Errorf("got %+v", out)
		}
		if img := s.image(); img != nil {
			s.Errorf("there is %+v", img)
		}
	}),
}
