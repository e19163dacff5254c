// Package waiting orders the callers of one process that wait for tokens. It has no clock
// and does no I/O: its callers ask what their turn is, and tell what became of it.
package waiting

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Key names one limit of one entity's bucket.
type Key struct{ Entity, Resource, Limit string }

// A Line names the buckets whose callers may have to wait for each other: those of an entity,
// or of a parent and of everybody that cascades to it. It is the ID of that entity or parent.
//
// It has the buckets of all resources, because a caller may ask for several. Callers that have
// no resource in common do not see each other.
type Line string

// Forever is an instant that never comes.
const Forever time.Duration = math.MaxInt64

// A Room has the callers of a process that wait. L is what a caller is admitted with. The
// zero value is empty.
//
// Two callers of a line are in order if the one waits for a limit that the other names, or
// names a limit that the other waits for. The earlier one is then served first, whatever
// they ask for. Callers with nothing in common do not wait for each other.
//
// The first of the callers in order leads: it alone looks whether it would be admitted,
// and tries. While it tries, the next one leads, and may try once the tokens suffice for
// both. So a caller leads if all callers before it are provided for: each tries, or is about
// to get what another one was admitted with. What callers are admitted with goes out in the
// order of their arrival, so no caller overtakes another one. Callers that ask for exactly
// the same may have each other's:
//
//	first   tries ───────────────── refused: gets what the second was admitted with
//	second     tries ── admitted ──▶ waits for the first ──▶ goes on waiting
//
// If the second asks for something else, it keeps what it was admitted with, and waits until
// the first is admitted:
//
//	first   tries ───────────────── refused ── tries ── admitted
//	second     tries ── admitted ──▶ waits for the first ──▶ admitted
type Room[L any] struct {
	arrivals atomic.Uint64
	size     atomic.Int64 // callers in all lines

	mu    sync.Mutex
	lines map[Line]*line[L]
}

// A line is the callers of a [Line], in the order of their arrival.
type line[L any] struct {
	callers []*Caller[L]
	classes map[string]*class[L]
	paused  map[string]time.Duration // by resource: nobody may try before this instant
}

// A class is the callers of a line that ask for exactly the same.
type class[L any] struct {
	resources []string
	callers   int
	trying    int           // how many of them try now
	free      []L           // what others of them were admitted with, for those that arrived first
	until     time.Duration // when the next of them may try
	behind    bool          // until depends on tries under way

	// rank and found are scratch of passes over the line: how many of the class were passed,
	// and whether the next one of them to try was.
	rank  int
	found bool
}

// served is how many of the class are provided for: they try, or something is free for them.
func (cl *class[L]) served() int { return cl.trying + len(cl.free) }

// A Caller waits in a line. Its exported fields must not change once it has joined.
type Caller[L any] struct {
	Line      Line
	Resources []string        // that the caller names
	Arrival   uint64          // by [Room.Arrive]
	Class     string          // callers of a line with the same class ask for exactly the same
	Asks      map[Key]int64   // tokens of each limit that the caller names
	Wake      <-chan struct{} // receives when the caller's turn may have changed
	wake      chan<- struct{}
	class     *class[L]
	waits     []Key // limits that the caller has waited for
	tries     bool
	gift      *L // what the caller is admitted with
}

// A Turn is what a caller may do.
type Turn[L any] struct {
	// Gift is what the caller is admitted with; nil if it still waits. The caller has then
	// left the line.
	Gift *L
	// Leads says that the caller is the next one to try, and Until when it may. Ahead is
	// what callers that try now for its resources ask for, whose tokens come first; nil if
	// nobody tries.
	Leads bool
	Until time.Duration
	Ahead map[Key]int64
	// Hopes says that the caller gets what another one is about to be admitted with.
	Hopes bool
}

// Arrive counts an arrival.
func (r *Room[L]) Arrive() uint64 { return r.arrivals.Add(1) }

// Size is how many callers wait.
func (r *Room[L]) Size() int { return int(r.size.Load()) }

// NewCaller returns a caller that has not joined.
func NewCaller[L any](at Line, resources []string, arrival uint64, class string, asks map[Key]int64) *Caller[L] {
	wake := make(chan struct{}, 1)
	return &Caller[L]{Line: at, Resources: resources, Arrival: arrival, Class: class, Asks: asks, Wake: wake, wake: wake}
}

// Ahead reports whether a caller must wait for earlier ones, and what these ask for.
func (r *Room[L]) Ahead(c *Caller[L]) (asks map[Key]int64, must bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ln := r.lines[c.Line]
	if ln == nil {
		return nil, false
	}
	for _, other := range ln.callers {
		if other.Arrival > c.Arrival {
			break
		}
		if other != c && other.isInTheWayOf(c) {
			if asks == nil {
				asks = make(map[Key]int64)
			}
			other.addTo(asks)
		}
	}
	return asks, asks != nil
}

// addTo adds what a caller asks for. Sums stop where they would overflow.
func (c *Caller[L]) addTo(asks map[Key]int64) {
	for key, tokens := range c.Asks {
		if sum := asks[key] + tokens; sum >= 0 {
			asks[key] = sum
		} else {
			asks[key] = math.MaxInt64
		}
	}
}

// Join puts a caller into its line, unless that has most callers already for one of the
// caller's resources; a negative most is no bound. The caller waits for the given limits, and
// for those for which earlier callers wait that it names, too. The first of its class may try
// from the given instant on. others is how many callers the line had for one resource.
func (r *Room[L]) Join(c *Caller[L], waits []Key, until time.Duration, most int) (others int, joined bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ln := r.lines[c.Line]
	for _, resource := range c.Resources {
		others = max(others, ln.callersFor(resource))
	}
	if most >= 0 && others >= most {
		return most, false
	}
	if ln == nil {
		if r.lines == nil {
			r.lines = make(map[Line]*line[L])
		}
		ln = &line[L]{classes: make(map[string]*class[L]), paused: make(map[string]time.Duration)}
		r.lines[c.Line] = ln
	}
	c.waitFor(waits)
	at, _ := slices.BinarySearchFunc(ln.callers, c.Arrival, func(other *Caller[L], arrival uint64) int {
		if other.Arrival < arrival {
			return -1
		}
		return 1
	})
	for _, other := range ln.callers[:at] {
		c.waitFor(other.waits)
	}
	ln.callers = slices.Insert(ln.callers, at, c)
	if c.class = ln.classes[c.Class]; c.class == nil {
		c.class = &class[L]{resources: c.Resources, until: until}
		ln.classes[c.Class] = c.class
	}
	c.class.callers++
	r.size.Add(1)
	ln.rouse()
	return others, true
}

// Turn returns what a caller may do now.
func (r *Room[L]) Turn(c *Caller[L]) (t Turn[L]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.gift != nil {
		return Turn[L]{Gift: c.gift}
	}
	return r.lines[c.Line].turn(c)
}

// Postpone notes that a caller may try from an instant on, because the tokens do not yet
// suffice. behind says that tries under way were taken into account: the caller then looks
// again when one of them ends.
func (r *Room[L]) Postpone(c *Caller[L], until time.Duration, behind bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.gift != nil {
		return
	}
	if c.class.until = until; behind && r.lines[c.Line].isTriedBeside(c.class) {
		c.class.behind = true
	} else if behind { // they have ended meanwhile
		c.class.until = 0
	}
}

// Try begins a try at an instant. It reports whether the caller still leads and may try
// then; otherwise its turn has changed.
func (r *Room[L]) Try(c *Caller[L], at time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.gift != nil {
		return false
	}
	ln := r.lines[c.Line]
	if turn := ln.turn(c); !turn.Leads || at < turn.Until {
		return false
	}
	c.tries, c.class.until, c.class.behind = true, 0, false
	c.class.trying++
	for _, resource := range c.Resources {
		delete(ln.paused, resource)
	}
	ln.rouse()
	return true
}

// Admit ends a try with what the caller was admitted with, which goes to the first caller
// of the class. It returns what nobody is left to be admitted with.
func (r *Room[L]) Admit(c *Caller[L], with L) (spare []L) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ln := r.lines[c.Line]
	ln.endTry(c)
	c.class.free, c.class.until = append(c.class.free, with), 0
	return r.shareLocked(ln, c.class)
}

// Refuse ends a try that was refused for some limits. The class may try again from an
// instant on.
func (r *Room[L]) Refuse(c *Caller[L], waits []Key, until time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ln := r.lines[c.Line]
	ln.endTry(c)
	c.waitFor(waits)
	c.class.until, c.class.behind = until, false
	r.shareLocked(ln, c.class) // the caller stays, so nothing is spare
}

// Leave takes a caller out of its line. It returns what nobody is left to be admitted with.
func (r *Room[L]) Leave(c *Caller[L]) (spare []L) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.gift != nil { // it has left the line already
		c.class.free = append(c.class.free, *c.gift)
		return r.shareLocked(r.lines[c.Line], c.class)
	}
	ln := r.lines[c.Line]
	if c.tries {
		ln.endTry(c)
	}
	r.removeLocked(ln, c)
	return r.shareLocked(ln, c.class)
}

// Pause lets no caller of a line that names one of the caller's resources try before an
// instant, or before it is roused.
func (r *Room[L]) Pause(c *Caller[L], until time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ln := r.lines[c.Line]
	for _, resource := range c.Resources {
		ln.paused[resource] = max(ln.paused[resource], until)
	}
}

// Rouse lets the callers of a line that name a resource look again at once: tokens may have
// come back.
func (r *Room[L]) Rouse(at Line, resource string) {
	if r.size.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ln := r.lines[at]; ln != nil && ln.callersFor(resource) > 0 {
		delete(ln.paused, resource)
		ln.lookAgain(func(cl *class[L]) bool { return slices.Contains(cl.resources, resource) })
	}
}

// RouseAll is Rouse for all lines and resources.
func (r *Room[L]) RouseAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ln := range r.lines {
		clear(ln.paused)
		ln.lookAgain(func(*class[L]) bool { return true })
	}
}

// endTry ends a caller's try. Callers that looked while it was under way look again.
func (ln *line[L]) endTry(c *Caller[L]) {
	c.tries = false
	c.class.trying--
	for _, cl := range ln.classes {
		if cl.behind && cl.names(c.Resources) {
			cl.until, cl.behind = 0, false
		}
	}
}

// isTriedBeside reports whether a caller of the line tries for one of a class's resources.
func (ln *line[L]) isTriedBeside(cl *class[L]) bool {
	for _, other := range ln.classes {
		if other.trying > 0 && other.names(cl.resources) {
			return true
		}
	}
	return false
}

// callersFor is how many callers of a line name a resource. The line may be nil.
func (ln *line[L]) callersFor(resource string) (n int) {
	if ln == nil {
		return 0
	}
	for _, cl := range ln.classes {
		if slices.Contains(cl.resources, resource) {
			n += cl.callers
		}
	}
	return n
}

// pausedFor is the instant before which no caller of a class may try.
func (ln *line[L]) pausedFor(cl *class[L]) (until time.Duration) {
	for _, resource := range cl.resources {
		until = max(until, ln.paused[resource])
	}
	return until
}

// names reports whether the class names one of several resources.
func (cl *class[L]) names(resources []string) bool {
	return slices.ContainsFunc(resources, func(name string) bool { return slices.Contains(cl.resources, name) })
}

// shareLocked gives what is free in a line to the first callers of each class, in the order
// of arrival. A caller that tries is waited for: it may be admitted itself. Nor does a caller
// get anything before those that are in its way. shareLocked returns what is free in a class
// beyond its callers, and wakes the callers of the line whose turn has come. The line is nil
// if all its callers have left.
func (r *Room[L]) shareLocked(ln *line[L], cl *class[L]) (spare []L) {
	if len(cl.free) > cl.callers {
		cl.free, spare = cl.free[:cl.callers:cl.callers], cl.free[cl.callers:]
	}
	if ln == nil {
		return spare
	}
	free := ln.beginPass()
	var waits []Key // for which callers wait that were passed
	for i := 0; free > 0 && i < len(ln.callers); {
		c := ln.callers[i]
		if cl := c.class; len(cl.free) > 0 && cl.rank == 0 && !c.tries && !c.isBlockedBy(waits) {
			with := cl.free[0]
			c.gift, cl.free = &with, cl.free[1:]
			free--
			r.removeLocked(ln, c)
			c.poke()
			continue
		}
		c.class.rank++
		waits = c.addWaits(waits)
		i++
	}
	ln.rouse()
	return spare
}

// beginPass prepares a pass over the callers. It returns how much is free.
func (ln *line[L]) beginPass() (free int) {
	for _, cl := range ln.classes {
		cl.rank, cl.found = 0, false
		free += len(cl.free)
	}
	return free
}

// removeLocked takes a caller out of its line, and the line and the class away with their
// last caller.
func (r *Room[L]) removeLocked(ln *line[L], c *Caller[L]) {
	i := slices.Index(ln.callers, c)
	ln.callers = slices.Delete(ln.callers, i, i+1)
	if c.class.callers--; c.class.callers == 0 {
		delete(ln.classes, c.Class)
	}
	if len(ln.callers) == 0 {
		delete(r.lines, c.Line)
	}
	r.size.Add(-1)
}

// turn returns what a caller of the line may do.
func (ln *line[L]) turn(c *Caller[L]) (t Turn[L]) {
	ln.beginPass()
	leads := true
	for _, other := range ln.callers {
		cl := other.class
		if other == c {
			served := cl.served()
			t = Turn[L]{Leads: leads && cl.rank == served && !c.tries, Until: max(cl.until, ln.pausedFor(cl)), Hopes: cl.rank < served}
			break
		}
		if cl.rank >= cl.served() && cl != c.class && other.isInTheWayOf(c) {
			leads = false
		}
		cl.rank++
	}
	if !t.Leads {
		return t
	}
	for _, other := range ln.callers {
		if other.tries && other.class.names(c.Resources) {
			if t.Ahead == nil {
				t.Ahead = make(map[Key]int64)
			}
			other.addTo(t.Ahead)
		}
	}
	return t
}

// rouse wakes the callers that lead, and perhaps others, once for each class.
func (ln *line[L]) rouse() {
	ln.beginPass()
	var waits []Key // for which callers wait that are not provided for
	for left, i := len(ln.classes), 0; left > 0 && i < len(ln.callers); i++ {
		c := ln.callers[i]
		cl := c.class
		if cl.rank >= cl.served() {
			if !cl.found {
				cl.found = true
				left--
				if !c.tries && !c.isBlockedBy(waits) {
					c.poke()
				}
			}
			waits = c.addWaits(waits)
		}
		cl.rank++
	}
}

// lookAgain lets callers look again at once.
func (ln *line[L]) lookAgain(who func(*class[L]) bool) {
	for _, cl := range ln.classes {
		if who(cl) {
			cl.until, cl.behind = 0, false
		}
	}
	ln.rouse()
}

// isInTheWayOf reports whether a later caller must wait for this one.
func (c *Caller[L]) isInTheWayOf(later *Caller[L]) bool {
	return later.isBlockedBy(c.waits)
}

// isBlockedBy reports whether the caller names one of the limits for which others wait.
func (c *Caller[L]) isBlockedBy(waits []Key) bool {
	return slices.ContainsFunc(waits, func(key Key) bool { _, names := c.Asks[key]; return names })
}

// addWaits adds the limits for which the caller waits.
func (c *Caller[L]) addWaits(waits []Key) []Key {
	for _, key := range c.waits {
		if !slices.Contains(waits, key) {
			waits = append(waits, key)
		}
	}
	return waits
}

// waitFor adds limits that the caller names to those that it waits for.
func (c *Caller[L]) waitFor(keys []Key) {
	for _, key := range keys {
		if _, names := c.Asks[key]; names && !slices.Contains(c.waits, key) {
			c.waits = append(c.waits, key)
		}
	}
}

func (c *Caller[L]) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
