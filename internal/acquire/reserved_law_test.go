package acquire_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/histories"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A reserver is a process of a history, and what the oracle knows of its leases.
type reserver struct {
	*holder

	paused, gone bool
	open         []*reservedLease
}

// A reservedLease is what the oracle knows of a lease: what it took, what of that would go back, and of which
// entry; an entry that was removed is "".
type reservedLease struct {
	*limiter.Lease

	took, back int64
	entry      string
}

// A reservedWalk is a history of one budget, and an oracle that shares no code with the ledger: it reads the item
// only. The budget is of a month, in which the history ends.
type reservedWalk struct {
	w       *world
	dice    []int // drawn before: rapid does not work in a bubble
	entity  string
	percent int64
	all     []*reserver
	did     map[string]int
	used    int64            // of leases that were settled, and what is kept of those that were lost
	debts   map[string]int64 // what went back of settled leases, by process: it was not told, or is to be debited again
	seen    map[string]int64 // reservations by entry, as last read
	wrote   map[string]int64 // numbers of positions, as last read
}

const (
	lostAge     = 15 * time.Minute
	wholeBudget = 1000 * store.Milli // all amounts of the oracle are in millitokens
)

// brokenHistory is why a history fails.
type brokenHistory string

func (h *reservedWalk) Fatalf(format string, args ...any) {
	panic(brokenHistory(fmt.Sprintf(format, args...)))
}

// draw draws a number below n.
func (h *reservedWalk) draw(n int) int {
	if len(h.dice) == 0 {
		return 0
	}
	is := h.dice[0]
	h.dice = h.dice[1:]
	return is % n
}

func (h *reservedWalk) must(err error) {
	if err != nil {
		h.Fatalf("%v", err)
	}
}

// image is the item; nil if there is none yet.
func (h *reservedWalk) image() *store.Image {
	images, err := h.w.Store.Buckets(h.w.Context(), h.entity, "gpt-4", 1)
	h.must(err)
	if len(images) == 0 {
		return nil
	}
	return images[0]
}

// look compares the item with the oracle, and takes in which entries were removed.
func (h *reservedWalk) look(step string) {
	img := h.image()
	if img == nil {
		return
	}
	now := map[string]int64{}
	for _, r := range img.Reservations() {
		now[r.Entry] += r.Milli
	}
	for entry, milli := range h.seen {
		if _, there := now[entry]; !there && milli != 0 {
			h.removed(entry, milli, step)
		}
	}
	h.seen = now
	for _, is := range img.Positions {
		h.wrote[is.Name] = is.Number
	}
	tpm, _ := img.Limit("tpm")
	left, least := tpm.Tokens, wholeBudget-h.used
	most := least
	for _, p := range h.all {
		for _, l := range p.open {
			least -= l.took
			if most -= l.took; l.entry == "" {
				least, most = least+l.back, most+l.back
			}
		}
	}
	for _, debt := range h.debts {
		most += debt
	}
	if left < least || left > most {
		h.Fatalf("%s: %d left, want from %d to %d; %+v", step, left, least, most, img)
	}
}

// removed takes in that an entry was removed: its process must not have written for long.
func (h *reservedWalk) removed(entry string, milli int64, step string) {
	process := entry[:8]
	for _, is := range h.image().Positions {
		number := is.Number
		if time.Since(time.UnixMilli(number)) < time.Second { // the process removed its own, and was paused before
			number = h.wrote[is.Name]
		}
		if strings.HasPrefix(is.Name, process) && time.Since(time.UnixMilli(number)) < lostAge {
			h.Fatalf("%s: the entry %s was removed, its process wrote at %v", step, entry, time.UnixMilli(number))
		}
	}
	h.did["removed"]++
	for _, p := range h.all {
		for _, l := range p.open {
			if l.entry == entry {
				l.entry, milli = "", milli-l.back
				h.did["taken for lost"]++
			}
		}
	}
	if milli < 0 {
		h.Fatalf("%s: %d less were reserved for %s than its leases hold", step, -milli, entry)
	}
	h.debts[process] += milli
}

// any returns a process that is not gone; paused or not.
func (h *reservedWalk) any(paused bool) *reserver {
	some := slices.DeleteFunc(slices.Clone(h.all), func(p *reserver) bool { return p.gone || p.paused != paused })
	if len(some) == 0 {
		return nil
	}
	return some[h.draw(len(some))]
}

func (h *reservedWalk) lease(p *reserver) (i int, l *reservedLease) {
	if p == nil || len(p.open) == 0 {
		return 0, nil
	}
	i = h.draw(len(p.open))
	return i, p.open[i]
}

// settled takes in that a lease has ended with an amount. If its entry was removed, its process debits that
// again.
func (h *reservedWalk) settled(p *reserver, i int, used int64) {
	h.used += used
	p.open = slices.Delete(p.open, i, i+1)
}

var reservedSteps = map[string]func(*reservedWalk) bool{
	"take": func(h *reservedWalk) bool {
		p := h.any(false)
		if p == nil {
			return false
		}
		if h.draw(5) == 0 {
			var sent atomic.Int64
			every := func(*faults.Call) bool { return sent.Add(1)%2 == 1 }
			p.slot.Set(faults.On(faults.When(every, faults.LoseAnswer(&timeout{})), "UpdateItem"))
		}
		n := int64(1 + h.draw(300))
		lease, err := p.Acquire(h.w.Context(), ask(h.entity, "tpm", n))
		p.slot.Set(nil)
		if errors.Is(err, limiter.ErrExceeded) {
			h.did["refused"]++
			return false
		}
		h.must(err)
		is := &reservedLease{Lease: lease, took: n * store.Milli, back: n * store.Milli / 100 * h.percent}
		for _, r := range h.image().Reservations() {
			if r.Entry[:8] == h.nameOf(p) && r.Entry > is.entry {
				is.entry = r.Entry
			}
		}
		p.open = append(p.open, is)
		return true
	},
	"settle": func(h *reservedWalk) bool {
		p := h.any(false)
		i, l := h.lease(p)
		if l == nil {
			return false
		}
		n := int64(h.draw(300))
		h.must(l.Settle("tpm", n))
		h.must(l.Commit(h.w.Context()))
		h.settled(p, i, n*store.Milli)
		return true
	},
	"commit": func(h *reservedWalk) bool {
		p := h.any(h.draw(2) == 0)
		i, l := h.lease(p)
		if l == nil {
			return false
		}
		h.must(l.Commit(h.w.Context()))
		if l.entry == "" {
			h.debts[h.nameOf(p)] += l.back
		}
		h.settled(p, i, l.took)
		h.pay(p)
		return true
	},
	"roll back": func(h *reservedWalk) bool {
		p := h.any(false)
		i, l := h.lease(p)
		if l == nil {
			return false
		}
		h.must(l.Rollback(h.w.Context()))
		h.settled(p, i, 0)
		return true
	},
	"pause": func(h *reservedWalk) bool {
		p := h.any(false)
		if p == nil {
			return false
		}
		p.pause()
		p.paused = true
		return true
	},
	"go on": func(h *reservedWalk) bool {
		p := h.any(true)
		if p == nil {
			return false
		}
		p.goOn()
		p.paused = false
		h.pay(p)
		return true
	},
	"kill": func(h *reservedWalk) bool {
		if h.draw(4) > 0 {
			return false
		}
		p := h.any(true)
		if p == nil {
			return false
		}
		p.gone = true
		h.start()
		return true
	},
	"time": func(h *reservedWalk) bool {
		time.Sleep([]time.Duration{time.Second, 80 * time.Second, 6 * time.Minute, 16 * time.Minute}[h.draw(4)])
		return true
	},
}

// pay lets a process debit again what went back, if it is not paused.
func (h *reservedWalk) pay(p *reserver) {
	if !p.paused && h.debts[h.nameOf(p)] > 0 {
		time.Sleep(2 * time.Minute)
		delete(h.debts, h.nameOf(p))
	}
}

// nameOf is the name of a process, by what it may have left on items.
func (h *reservedWalk) nameOf(p *reserver) string { return driverOf(p.Limiter).Ledger.Process() }

func (h *reservedWalk) start() {
	h.all = append(h.all, &reserver{holder: h.w.holder(limiter.Options{Trust: -1})})
}

// Whatever processes do, and whoever is paused or killed: a balance lacks what settled leases used, what open ones
// hold, and what is kept of those that were lost. Nobody is taken for lost who wrote within 15 minutes.
func TestWhatGoesBackOverAnyHistory(t *testing.T) {
	did := map[string]int{}
	const rounds = 2
	histories.Check(t, rounds, func(rt *rapid.T) {
		dice := rapid.SliceOfN(rapid.IntRange(0, 1<<20), 20, 200).Draw(rt, "dice")
		var why any
		synctest.Test(t, func(t *testing.T) {
			h := &reservedWalk{w: &world{testbed.New(t, testbed.Options{Remote: true})}, dice: dice, did: did, entity: "key", debts: map[string]int64{}, seen: map[string]int64{}, wrote: map[string]int64{}}
			defer func() { why = recover() }()
			defer h.stop()
			h.play()
		})
		if why != nil {
			rt.Fatal(why)
		}
	})
	t.Logf("%v", did)
	for _, name := range append(slices.Sorted(maps.Keys(reservedSteps)), "removed", "taken for lost", "refused") {
		if did[name] == 0 && !testing.Short() { // few histories need not have all
			t.Errorf("it never happened: %s", name)
		}
	}
}

// play plays the history.
func (h *reservedWalk) play() {
	h.percent = []int64{10, 40, 100}[h.draw(3)]
	monthly, _ := limiter.ParseRenewal("month", "UTC")
	h.w.System(limiter.Quota("tpm", 1000, monthly, limiter.Returning(int(h.percent))))
	for range 3 {
		h.start()
	}
	kinds := append(slices.Sorted(maps.Keys(reservedSteps)), "take", "take", "time", "settle")
	for len(h.dice) > 0 {
		kind := kinds[h.draw(len(kinds))]
		if reservedSteps[kind](h) {
			h.did[kind]++
		}
		h.look(kind)
	}
	h.end()
}

// stop cuts all processes off and closes them.
func (h *reservedWalk) stop() {
	for _, p := range h.all {
		p.pause()
	}
}

// end lets all processes that are not gone settle, and then all be lost.
func (h *reservedWalk) end() {
	for _, p := range h.all {
		if p.paused && !p.gone {
			p.goOn()
		}
	}
	if h.image() == nil {
		return
	}
	for _, p := range h.all {
		for !p.gone && len(p.open) > 0 {
			l := p.open[0]
			h.must(l.Commit(h.w.Context()))
			h.settled(p, 0, l.took)
		}
	}
	time.Sleep(3 * time.Minute)
	h.look("told")
	for _, p := range h.all {
		if !p.gone { // who was paused has debited again what went back
			delete(h.debts, h.nameOf(p))
		}
		p.pause()
	}
	time.Sleep(lostAge + time.Minute)
	for range 3 { // a write removes some entries at most
		lease, err := h.w.Acquire(h.w.Context(), ask(h.entity, "tpm", 1))
		if errors.Is(err, limiter.ErrExceeded) {
			break
		}
		h.must(err)
		h.must(lease.Rollback(h.w.Context()))
	}
	h.look("lost")
	img := h.image()
	tpm, _ := img.Limit("tpm")
	want := wholeBudget - h.used
	for _, p := range h.all {
		for _, l := range p.open { // of processes that are gone
			want -= l.took - l.back
		}
		want += h.debts[h.nameOf(p)]
	}
	for _, r := range img.Reservations() {
		if r.Milli != 0 && r.Entry[:8] != driverOf(h.w.Limiter).Ledger.Process() {
			want -= r.Milli // it is not gone back yet: nothing was left to take for that
		}
	}
	if left := tpm.Tokens; left != want {
		h.Fatalf("in the end: %d left, want %d; %+v", left, want, img)
	}
}
