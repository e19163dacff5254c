package slots_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/test/histories"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A fleet is the processes that share the slots of a limit, on a table that carries out their
// writes. It knows the right time, which no process does.
type fleet struct {
	*rapid.T

	store *dynamo.Store
	key   store.SlotKey
	cap   int64
	most  int64 // the highest cap so far of those that a write may still have
	time  time.Duration
	all   []*process
	born  int
	late  []*store.Hold // writes that may be applied once more, or for the first time

	written []store.Holding // leases that were written down, and have not ended
	names   int             // of leases that are written down
	holder  *slots.Holder   // ends and extends those
	did     map[string]int
}

// A process of a fleet. Its answer is under way if sent is set.
type process struct {
	*slots.Book

	f       *fleet
	ahead   time.Duration // of its clock
	claims  []slots.Claim
	leases  []*slots.Lease
	leaving []leaving
	sent    bool
	write   *store.Hold // nil: a look
	out     store.SlotOutcome
	err     error
	written int64
}

// A leaving is a lease of a process that is written down, or was just now.
type leaving struct {
	slots.HandOver

	begun   time.Duration
	isKnown bool // the fleet counts it as written down
}

var errLost = errors.New("answer lost")

const clockSkew = 5 * time.Second

func (f *fleet) now() time.Time { return time.UnixMilli(1_700_000_000_000).Add(f.time) }

func (f *fleet) start() {
	f.born++
	p := &process{f: f, ahead: time.Duration(rapid.Int64Range(int64(-clockSkew), int64(clockSkew)).Draw(f.T, "ahead"))}
	p.Book = slots.NewBook(fmt.Sprintf("p%d", f.born), f.key, func(n int64) int64 { return n / 2 }, func() int64 { p.written++; return p.written })
	p.Up = func() time.Duration { return f.time }
	p.Now = func() int64 { return f.now().Add(p.ahead).UnixMilli() }
	f.all = append(f.all, p)
}

// any is one of the processes; nil if there is none.
func (f *fleet) any() *process {
	if len(f.all) == 0 {
		return nil
	}
	return f.all[rapid.IntRange(0, len(f.all)-1).Draw(f.T, "process")]
}

// carryOut applies a write, unless the item refuses it.
func (f *fleet) carryOut(h *store.Hold) store.SlotOutcome {
	out, err := f.store.Hold(f.Context(), h)
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// check checks the laws. The slots of a process that did not renew them in time are not its own: if
// it runs, it has given them up. A process that is stopped cannot, which is the exception of P14.
func (f *fleet) check() {
	var held int64
	for _, p := range f.all {
		if n, until := p.Held(); f.time < until {
			held += n
		}
	}
	for _, h := range f.written {
		if f.now().UnixMilli() < h.Until {
			held += h.Held
		}
	}
	if held > f.most {
		f.Fatalf("%d slots are held at the same time, of %d", held, f.most)
	}
	img := f.read()
	var sum int64
	for i := range img.Holdings {
		sum += img.Holdings[i].Held
	}
	if img.Used != sum {
		f.Fatalf("%d slots count as used, and the entries have %d", img.Used, sum)
	}
}

func (f *fleet) read() *store.SlotImage {
	img, err := f.store.Slots(f.Context(), f.key)
	if err != nil {
		f.Fatal(err)
	}
	if img == nil {
		img = &store.SlotImage{}
	}
	return img
}

// send sends what the book of a process says, under a fate.
func (p *process) send() bool {
	if p.sent {
		return false
	}
	var look bool
	p.write, look = p.Next()
	p.collect() // it may have served the line
	if p.write == nil && !look {
		return false
	}
	p.sent, p.err, p.out = true, nil, store.SlotOutcome{}
	if look {
		p.out.Image = p.f.read()
		return true
	}
	switch rapid.SampledFrom([]string{"", "", "", "", "lost", "late", "twice", "not sent"}).Draw(p.f.T, "fate") {
	case "":
		p.out = p.f.carryOut(p.write)
	case "lost": // applied, and not answered
		p.f.carryOut(p.write)
		p.err = errLost
		p.f.did["lost"]++
	case "late": // not answered, and applied later, perhaps
		p.f.late = append(p.f.late, p.write)
		p.err = errLost
	case "twice":
		p.out = p.f.carryOut(p.write)
		p.f.late = append(p.f.late, p.write)
	case "not sent":
		p.err = errLost
	}
	return true
}

// answer gives a process its answer.
func (p *process) answer() bool {
	if !p.sent {
		return false
	}
	p.sent = false
	p.Answer(p.write, p.out, p.err)
	p.collect()
	return p.out.Applied
}

// collect takes the leases of claims that were granted, and drops those that are lost.
func (p *process) collect() {
	p.claims = slices.DeleteFunc(p.claims, func(c slots.Claim) bool {
		if l := c.Lease(); l != nil {
			if _, until := p.Held(); p.f.time >= until {
				p.f.Fatal("slots were granted that others may have")
			}
			p.leases = append(p.leases, l)
			p.f.did["granted"]++
		}
		return c.IsDone()
	})
	p.leases = slices.DeleteFunc(p.leases, func(l *slots.Lease) bool {
		if isLost(l) {
			p.f.did["lost lease"]++
		}
		return isLost(l)
	})
	for i := range p.leaving {
		h := &p.leaving[i]
		done, err := h.Is()
		switch {
		case done && err == nil && !h.isKnown:
			p.f.written, h.isKnown = append(p.f.written, h.Entry()), true
			p.f.did["written down"]++
		case done && err != nil && !isLost(h.Lease()):
			p.f.Fatalf("a lease was not written down, and is not lost: %v", err)
		case !done && p.f.time-h.begun >= slots.HandOverTime:
			p.takeBack(h)
		}
	}
	p.leaving = slices.DeleteFunc(p.leaving, func(h leaving) bool {
		if h.HandOver == (slots.HandOver{}) {
			return true
		}
		done, err := h.Is()
		return done && (err != nil || p.f.time-h.begun >= slots.HandOverTime)
	})
}

// takeBack makes a lease one of the process again, as a caller does that cannot use its token.
func (p *process) takeBack(h *leaving) {
	if h.isKnown {
		p.f.written = slices.DeleteFunc(p.f.written, func(w store.Holding) bool { return w.Process == h.Entry().Process })
	}
	if p.TakeBack(h.HandOver); !isLost(h.Lease()) {
		p.leases = append(p.leases, h.Lease())
	}
	*h = leaving{}
	p.f.did["taken back"]++
}

func isLost(l *slots.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

var fleetSteps = map[string]func(*fleet) bool{
	"start": func(f *fleet) bool {
		if len(f.all) < 6 {
			f.start()
			return true
		}
		return false
	},
	"time": func(f *fleet) bool {
		f.time += time.Duration(rapid.SampledFrom([]int{1, 20, 100, 700, 2000, 5000}).Draw(f.T, "ms")) * time.Millisecond
		return true
	},
	"pause": func(f *fleet) bool { // of one process: the others run
		p := f.any()
		for range rapid.IntRange(1, 60).Draw(f.T, "s") {
			f.time += time.Second
			for _, other := range f.all {
				if other != p && other.send() {
					other.answer()
				}
				other.step()
			}
			f.check()
		}
		return p != nil
	},
	"crash": func(f *fleet) bool {
		if rapid.IntRange(0, 3).Draw(f.T, "is rare") > 0 {
			return false
		}
		p := f.any()
		f.all = slices.DeleteFunc(f.all, func(q *process) bool { return p == q })
		return p != nil
	},
	"join": func(f *fleet) bool {
		p := f.any()
		if p == nil {
			return false
		}
		n := rapid.SampledFrom([]int64{1, 1, 1, 2, 3}).Draw(f.T, "slots")
		p.claims = append(p.claims, p.Join(min(n, f.cap), f.cap, rapid.Bool().Draw(f.T, "waits")))
		p.collect()
		return true
	},
	"leave": func(f *fleet) bool {
		p := f.any()
		if p == nil || len(p.claims) == 0 {
			return false
		}
		p.Leave(p.claims[0])
		p.claims = p.claims[1:]
		return true
	},
	"return": func(f *fleet) bool {
		p := f.any()
		if p == nil || len(p.leases) == 0 {
			return false
		}
		p.Return(p.leases[0])
		p.leases = p.leases[1:]
		p.collect()
		return true
	},
	"hand over": func(f *fleet) bool {
		p := f.any()
		if p == nil || len(p.leases) == 0 {
			return false
		}
		f.names++
		within := rapid.SampledFrom([]time.Duration{slots.MinWritten, 2 * slots.MinWritten}).Draw(f.T, "within")
		p.leaving = append(p.leaving, leaving{HandOver: p.HandOver(p.leases[0], store.Holding{
			Process: fmt.Sprint(store.LeasePrefix, f.names), Until: p.Now() + within.Milliseconds(), Seq: within.Milliseconds(),
		}), begun: f.time})
		p.leases = p.leases[1:]
		return true
	},
	"take back": func(f *fleet) bool {
		p := f.any()
		if p == nil || len(p.leaving) == 0 {
			return false
		}
		p.takeBack(&p.leaving[0])
		p.leaving = p.leaving[1:]
		return true
	},
	"end": func(f *fleet) bool {
		if len(f.written) == 0 {
			return false
		}
		for range rapid.IntRange(1, 2).Draw(f.T, "times") {
			if err := f.holder.End(f.Context(), f.key, f.written[0]); err != nil {
				f.Fatal(err)
			}
		}
		f.forget(f.written[0].Process)
		return true
	},
	"extend": func(f *fleet) bool {
		if len(f.written) == 0 {
			return false
		}
		to := f.written[0]
		to.Until, to.Seq = to.Until+5000, to.Seq+5000
		switch err := f.holder.Extend(f.Context(), f.key, f.written[0], to); {
		case err == nil:
			if !rapid.Bool().Draw(f.T, "by an older token") {
				f.written[0] = to
			}
		case !errors.Is(err, slots.ErrLost) || f.now().UnixMilli() < to.Until-5000:
			f.Fatalf("extended: %v", err)
		}
		return true
	},
	"send":   func(f *fleet) bool { p := f.any(); return p != nil && p.send() },
	"answer": func(f *fleet) bool { p := f.any(); return p != nil && p.answer() },
	"late": func(f *fleet) bool {
		if len(f.late) == 0 {
			return false
		}
		i := rapid.IntRange(0, len(f.late)-1).Draw(f.T, "write")
		h := f.late[i]
		f.late = slices.Delete(f.late, i, i+1)
		return f.carryOut(h).Applied
	},
	"cap": func(f *fleet) bool {
		if rapid.IntRange(0, 5).Draw(f.T, "is rare") > 0 {
			return false
		}
		f.cap = rapid.Int64Range(1, 8).Draw(f.T, "cap")
		f.most = max(f.most, f.cap)
		return true
	},
}

// forget notes that a lease which was written down has ended. Its process cannot take it back.
func (f *fleet) forget(name string) {
	f.written = slices.DeleteFunc(f.written, func(h store.Holding) bool { return h.Process == name })
	for _, p := range f.all {
		p.leaving = slices.DeleteFunc(p.leaving, func(h leaving) bool { return h.Entry().Process == name })
	}
}

// step notes what the book of a process has decided, if nothing is under way.
func (p *process) step() {
	if !p.sent {
		p.collect()
	}
}

// P14 over any writes: never more slots than the cap, whatever becomes of writes, answers,
// processes and clocks. And all slots of processes that are gone come back in time.
func TestNeverAboveTheCap(t *testing.T) {
	t.Parallel()
	w := testbed.New(t, testbed.Options{})
	number, did := 0, map[string]int{}
	const rounds = 40 // the rarest races come once in some thousand histories
	histories.Check(t, rounds, func(t *rapid.T) {
		number++
		f := &fleet{T: t, store: w.Store, key: store.SlotKey{Entity: fmt.Sprintf("user-%d", number), Resource: "gpt-4", Limit: "inflight"}, did: did}
		f.cap = rapid.Int64Range(1, 8).Draw(t, "cap")
		f.holder = slots.New(w.Store, slots.Options{Now: func() int64 { return f.now().UnixMilli() }})
		f.most = f.cap
		f.start()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			name := rapid.SampledFrom(append(slices.Sorted(maps.Keys(fleetSteps)), "join", "join", "send", "send", "send", "answer", "answer", "answer", "return", "hand over")).Draw(t, "step")
			if fleetSteps[name](f) {
				did[name]++
			}
			f.check()
		}
		f.heal()
	})
	t.Logf("%v", did)
	for _, name := range append(slices.Sorted(maps.Keys(fleetSteps)), "lost", "lost lease", "granted", "written down", "taken back") {
		if did[name] == 0 {
			t.Errorf("it never happened: %s", name)
		}
	}
}

// heal stops all processes, and lets another one take all slots.
func (f *fleet) heal() {
	f.all = nil
	f.start()
	p, began := f.all[0], f.time
	var last time.Duration // the last of the leases that are written down
	for _, h := range f.read().Holdings {
		if h.IsLease() {
			last = max(last, time.UnixMilli(h.Until).Sub(f.now()))
		}
	}
	c := p.Join(f.cap, f.cap, true)
	for !c.IsDone() {
		if write, look := p.Next(); write != nil {
			p.Answer(write, f.carryOut(write), nil)
		} else if look {
			p.Answer(nil, store.SlotOutcome{Image: f.read()}, nil)
		} else {
			f.time += 100 * time.Millisecond
		}
		f.check()
		if waited := f.time - began; waited > max(slots.LeaseTime+slots.Skew, last+2*slots.Skew+time.Second) {
			f.Fatalf("the slots of processes that are gone are not back after %v, those written down end after %v: %+v", waited, last, f.read())
		}
	}
}
