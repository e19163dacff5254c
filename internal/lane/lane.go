package lane

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

// A Lane is the queue of one process's callers for writes to one item (ADR 014). While
// writes are under way, callers that arrive wait. The next write has their claims
// together, as in the group commit of a log:
//
//	caller 1   ── write ──────▶ answer
//	caller 2     waits ▏
//	caller 3     waits ▏── one write for 2, 3, 4 ──▶ answer
//	caller 4       waits ▏
//
// Callers take turns in the order of their arrival. The caller at the front leads: it
// takes the callers behind it along, writes, and hands its place to the next in line.
// So no goroutine belongs to a lane.
//
// The zero value is ready for use.
type Lane[C Claim] struct {
	mu       sync.Mutex
	underWay int          // taken places
	line     []*Ticket[C] // in order of arrival; empty unless all places are taken
	expected int          // callers that one write has granted; they may come back soon
	granted  int          // callers that the last write has granted, times the writes under way
}

// A Claim is what a caller wants written.
type Claim interface {
	// Size is the claim's part of a write. Claims share a write while the sum of their
	// sizes is within a bound.
	Size() int64
}

// A Ticket is one caller's position in a lane.
type Ticket[C Claim] struct {
	Claim C
	Err   error // the result, once done

	turn chan Turn     // receives one value; nil if the caller did not wait
	room [1]*Ticket[C] // storage for a crowd of one
}

// A Turn is what the lane tells a caller in line.
type Turn uint8

// The values of a [Turn].
const (
	Lead Turn = iota // the caller is at the front and has a place
	Solo             // the claim cannot share a write
	Done             // another caller's write included the claim
)

// Bounds of the callers of one write.
const (
	// maxCrowd bounds the callers of one write.
	maxCrowd = 1024
	// maxYields is how often a caller at the front yields to other goroutines.
	maxYields = 32
	// several is how many callers for each place make a crowd.
	several = 4
)

// Attend enters a caller and waits for its turn. The lane has a number of places: so many
// writes may be under way. An error says that the caller is out of the line: it is
// [calls.ErrLeft] if left was closed, or the cause for which ctx ended. A caller that leads
// must call [Lane.Leave] in the end.
func (ln *Lane[C]) Attend(ctx context.Context, t *Ticket[C], places int, left <-chan struct{}) (Turn, error) {
	told := Lead
	if !ln.enter(t, places) {
		select {
		case told = <-t.turn:
		case <-left:
			if ln.quit(t) {
				return Solo, calls.ErrLeft
			}
			told = <-t.turn
		case <-ctx.Done():
			if ln.quit(t) {
				return Solo, context.Cause(ctx)
			}
			told = <-t.turn
		}
	}
	if told != Lead {
		return told, nil
	}
	// A caller that is gone no longer needs the place, so the next one gets it.
	select {
	case <-left:
		ln.Leave(places)
		return Solo, calls.ErrLeft
	case <-ctx.Done():
		ln.Leave(places)
		return Solo, context.Cause(ctx)
	default:
	}
	ln.wait()
	return Lead, nil
}

// enter gives a caller a place at once if one is free; otherwise the caller waits. It
// reports whether the caller leads.
func (ln *Lane[C]) enter(t *Ticket[C], places int) (leads bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.expected = max(0, ln.expected-1)
	if ln.underWay < places && len(ln.line) == 0 {
		ln.underWay++
		return true
	}
	t.turn = make(chan Turn, 1)
	ln.line = append(ln.line, t)
	return false
}

// Seize gives a caller a place if one is free and nobody else is expected. The caller then
// leads, as after [Lane.Attend].
func (ln *Lane[C]) Seize(places int) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.underWay >= places || len(ln.line) > 0 || ln.expected > 1 {
		return false
	}
	ln.expected = 0
	ln.underWay++
	return true
}

// nextLocked tells the first in line to lead.
func (ln *Lane[C]) nextLocked() {
	next := ln.line[0]
	ln.line = slices.Delete(ln.line, 0, 1)
	next.turn <- Lead
}

// quit removes a caller from the line; false if it has left the line already.
func (ln *Lane[C]) quit(t *Ticket[C]) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	i := slices.Index(ln.line, t)
	if i < 0 {
		return false
	}
	ln.line = slices.Delete(ln.line, i, i+1)
	return true
}

// wait makes the caller at the front wait briefly for the expected callers. Otherwise
// the first caller of a crowd to come back would write for itself alone. The others
// would then wait for the write after that.
func (ln *Lane[C]) wait() {
	for yields := 0; ; yields++ {
		ln.mu.Lock()
		if yields == maxYields {
			ln.expected = 0
		}
		expected := ln.expected
		ln.mu.Unlock()
		if expected == 0 {
			return
		}
		runtime.Gosched()
	}
}

// Leave hands a place to the first in line. If the line is empty, or too many places are
// taken by now, it gives the place up.
func (ln *Lane[C]) Leave(places int) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if len(ln.line) == 0 || ln.underWay > places {
		ln.underWay--
		return
	}
	ln.nextLocked()
}

// Disperse tells every caller in line to go alone.
func (ln *Lane[C]) Disperse() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for _, t := range ln.line {
		t.turn <- Solo
	}
	ln.line = nil
}

// Back puts callers back at the front of the line.
func (ln *Lane[C]) Back(crowd []*Ticket[C]) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.line = slices.Insert(ln.line, 0, crowd...)
}

// Along takes callers in line along with the front caller, while the sum of their sizes
// is at most most. A caller whose claim does not fit the write goes alone.
func (ln *Lane[C]) Along(front *Ticket[C], most int64, fits func(C) bool) []*Ticket[C] {
	return ln.Join(append(front.room[:0], front), most, fits)
}

// Join adds callers in line to a crowd, in the same way.
func (ln *Lane[C]) Join(crowd []*Ticket[C], most int64, fits func(C) bool) []*Ticket[C] {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	var sum int64
	add := func(c C) bool {
		sum += min(c.Size(), most+1-sum) // no overflow
		return sum <= most
	}
	for _, t := range crowd {
		add(t.Claim)
	}
	n := 0
	for ; n < len(ln.line) && len(crowd) < maxCrowd; n++ {
		t := ln.line[n]
		if !fits(t.Claim) {
			t.turn <- Solo
			continue
		}
		if !add(t.Claim) {
			break
		}
		crowd = append(crowd, t)
	}
	ln.line = slices.Delete(ln.line, 0, n)
	return crowd
}

// Expect records that so many callers are about to be granted.
func (ln *Lane[C]) Expect(callers int) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.expected += callers
	ln.granted = callers * ln.underWay
}

// Crowded reports whether so many callers come in the time of a write that they had better
// share one: several for each of a number of places.
func (ln *Lane[C]) Crowded(places int) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.granted >= several*places
}

// IsBlank reports whether a new lane would do as well: nobody is in it, and the callers that
// it has granted do not matter. One caller that is expected does not: if it comes, it is the
// next one to enter.
func (ln *Lane[C]) IsBlank() bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.underWay == 0 && len(ln.line) == 0 && ln.expected <= 1 && ln.granted < several
}

// Line goes through the claims of the callers in line.
func (ln *Lane[C]) Line() iter.Seq[C] {
	return func(yield func(C) bool) {
		ln.mu.Lock()
		defer ln.mu.Unlock()
		for _, t := range ln.line {
			if !yield(t.Claim) {
				return
			}
		}
	}
}

// Waiting is how many callers have a place or are in line.
func (ln *Lane[C]) Waiting() int {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.underWay + len(ln.line)
}

// Tell tells a caller whose claim shared a write that it is done, with the result.
func (t *Ticket[C]) Tell(err error) {
	t.Err = err
	if t.turn != nil {
		t.turn <- Done
	}
}
