package estimate

import "time"

// A timeline runs events in the order of their instants, in virtual time. Events of one
// instant run in the order in which they were added.
type timeline struct {
	now    time.Duration
	added  uint64
	events []event // a heap
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

func (e *event) isBefore(f *event) bool {
	return e.at < f.at || e.at == f.at && e.order < f.order
}

// after adds an event.
func (t *timeline) after(d time.Duration, do func()) {
	t.added++
	t.events = append(t.events, event{t.now + d, t.added, do})
	h := t.events
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].isBefore(&h[up]) {
			return
		}
		h[i], h[up], i = h[up], h[i], up
	}
}

// run runs events until there are none, or until stop says so.
func (t *timeline) run(stop func() bool) {
	for len(t.events) > 0 && !stop() {
		first := t.pop()
		t.now = first.at
		first.do()
	}
}

func (t *timeline) pop() event {
	h := t.events
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(h) && h[child].isBefore(&h[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least], i = h[least], h[i], least
	}
	t.events = h
	return first
}

// A queue is how callers of one process share writes to one item, as those of package lane
// do: a caller leads if there is a place, and else waits. The next write serves all that
// wait.
type queue struct {
	underWay, more int // taken places, and how many of them are those of a long line
	line           []*claim
}

// A places is the number of writes that may be under way: always, and more for a long line.
type places struct{ base, more int }

// enter reports whether a caller leads; otherwise it waits. If next is set, a long line gave
// a place to the first that waits.
func (q *queue) enter(c *claim, p places) (leads bool, next *claim) {
	const longLine = 16
	if q.underWay < p.base && len(q.line) == 0 {
		q.underWay++
		return true, nil
	}
	q.line = append(q.line, c)
	if len(q.line) >= longLine && q.more < p.more {
		q.underWay++
		q.more++
		return false, q.first()
	}
	return false, nil
}

func (q *queue) first() *claim {
	c := q.line[0]
	q.line = append(q.line[:0], q.line[1:]...)
	return c
}

// leave gives a place back, or to the caller that leads next.
func (q *queue) leave(p places) (next *claim) {
	switch {
	case q.more > 0:
		q.more--
		q.underWay--
	case len(q.line) == 0 || q.underWay > p.base:
		q.underWay--
	default:
		return q.first()
	}
	return nil
}

// along takes all that wait along with the first.
func (q *queue) along(first *claim) []*claim {
	return append([]*claim{first}, q.rest()...)
}

// rest takes all that wait.
func (q *queue) rest() []*claim {
	crowd := append([]*claim(nil), q.line...)
	q.line = q.line[:0]
	return crowd
}
