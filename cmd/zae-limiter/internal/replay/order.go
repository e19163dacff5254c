package replay

import (
	"container/heap"
	"io"
	"time"
)

// Order returns the events of a source in the order of their instants, as far as an event
// comes at most window later than events after it. It holds back no more than most events.
// An event that comes later still is passed on in its turn; [Replayer.Add] counts it as
// late.
func Order(source Source, window time.Duration, most int) Source {
	if window <= 0 || most < 1 {
		return source
	}
	return &ordered{source: source, window: window.Milliseconds(), most: most}
}

// ordered holds events in a queue and a heap. An event that is not before the last of the
// queue joins the queue, and any other joins the heap. So a log that is in order costs no
// sorting.
type ordered struct {
	source Source
	window int64 // milliseconds
	most   int   // events

	queue  queue
	early  early
	next   held  // the event that was read last
	newest int64 // the latest instant read
	ended  bool
}

func (o *ordered) Next(e *Event) error {
	for !o.ended && !o.isDue() {
		err := o.source.Next(&o.next.Event)
		switch {
		case err == io.EOF: //nolint:errorlint // sources return io.EOF itself, as readers do
			o.ended = true
		case err != nil:
			return err
		default:
			o.hold()
		}
	}
	first, fromQueue := o.first()
	if first == nil {
		return io.EOF
	}
	e.copyFrom(&first.Event)
	if fromQueue {
		o.queue.drop()
	} else {
		o.early.drop()
	}
	return nil
}

// isDue reports whether the first event can be passed on.
func (o *ordered) isDue() bool {
	first, _ := o.first()
	return first != nil && (first.At <= o.newest-o.window || o.queue.count+len(o.early) >= o.most)
}

// hold takes in the event that was read last.
func (o *ordered) hold() {
	o.next.number++
	if o.next.number == 1 || o.next.At > o.newest {
		o.newest = o.next.At
	}
	if last := o.queue.last(); last == nil || last.At <= o.next.At {
		o.queue.extend().copyFrom(&o.next)
		return
	}
	heap.Push(&o.early, &o.next)
}

// first is the event to pass on next, nil if there is none.
func (o *ordered) first() (e *held, fromQueue bool) {
	queued := o.queue.first()
	if len(o.early) == 0 || queued != nil && queued.isBefore(&o.early[0]) {
		return queued, true
	}
	return &o.early[0], false
}

// A held event knows its place in the source, which orders events of one instant.
type held struct {
	Event

	number int64
}

func (h *held) copyFrom(other *held) {
	h.Event.copyFrom(&other.Event)
	h.number = other.number
}

func (h *held) isBefore(other *held) bool {
	return h.At < other.At || h.At == other.At && h.number < other.number
}

// A queue is a ring of events. Its places keep the memory of their amounts.
type queue struct {
	ring         []held
	start, count int
}

func (q *queue) at(i int) *held { return &q.ring[(q.start+i)&(len(q.ring)-1)] }

func (q *queue) first() *held {
	if q.count == 0 {
		return nil
	}
	return q.at(0)
}

func (q *queue) last() *held {
	if q.count == 0 {
		return nil
	}
	return q.at(q.count - 1)
}

func (q *queue) drop() {
	q.start = (q.start + 1) & (len(q.ring) - 1)
	q.count--
}

// extend adds a place at the end. The size of the ring is a power of two.
func (q *queue) extend() *held {
	const smallest = 64
	if q.count == len(q.ring) {
		grown := make([]held, max(smallest, 2*len(q.ring)))
		for i := range q.count {
			grown[i] = *q.at(i)
		}
		q.ring, q.start = grown, 0
	}
	q.count++
	return q.at(q.count - 1)
}

// early is a heap of the events that came after later ones.
type early []held

// Len is part of [heap.Interface], as are the methods below.
func (h *early) Len() int           { return len(*h) }
func (h *early) Less(i, j int) bool { return (*h)[i].isBefore(&(*h)[j]) }
func (h *early) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

// Push adds a copy of an event. A place beyond the end keeps the memory of its amounts.
func (h *early) Push(x any) {
	n := len(*h)
	if n < cap(*h) {
		*h = (*h)[:n+1]
	} else {
		*h = append(*h, held{})
	}
	if e, ok := x.(*held); ok {
		(*h)[n].copyFrom(e)
	}
}

// Pop removes the last event.
func (h *early) Pop() any {
	last := len(*h) - 1
	*h = (*h)[:last]
	return nil
}

func (h *early) drop() { heap.Pop(h) }
