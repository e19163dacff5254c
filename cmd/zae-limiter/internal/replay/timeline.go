package replay

import "time"

// A Timeline counts events in slots of equal width. When an instant lies beyond the last
// slot, the slots become twice as wide, so that their number has a bound.
type Timeline struct {
	start, width int64 // milliseconds
	events       []int64
	refused      []int64
}

// finest is the width of the slots of a new timeline, in milliseconds.
const finest = 1000

func newTimeline(slots int) *Timeline {
	return &Timeline{width: finest, events: make([]int64, 0, slots), refused: make([]int64, 0, slots)}
}

// newTimelineFrom is a timeline from an instant on, whose slots are at least so wide.
func newTimelineFrom(start, width int64, slots int) *Timeline {
	t := newTimeline(slots)
	t.start, t.width = start, width
	t.events, t.refused = append(t.events, 0), append(t.refused, 0)
	return t
}

// count counts an event. No instant is before the first one, or the timeline's start.
func (t *Timeline) count(at int64, refused bool) {
	if len(t.events) == 0 {
		t.start = at - (at%finest+finest)%finest
	}
	slot := (at - t.start) / t.width
	for slot >= int64(cap(t.events)) {
		t.fold()
		slot = (at - t.start) / t.width
	}
	for slot >= int64(len(t.events)) {
		t.events, t.refused = append(t.events, 0), append(t.refused, 0)
	}
	t.events[slot]++
	if refused {
		t.refused[slot]++
	}
}

// fold makes the slots twice as wide.
func (t *Timeline) fold() {
	t.events, t.refused = halved(t.events), halved(t.refused)
	t.width *= 2
}

func halved(counts []int64) []int64 {
	for i := range (len(counts) + 1) / 2 {
		sum := counts[2*i]
		if 2*i+1 < len(counts) {
			sum += counts[2*i+1]
		}
		counts[i] = sum
	}
	return counts[:(len(counts)+1)/2]
}

// A Slot is a part of a timeline.
type Slot struct {
	Start   time.Time `json:"start_at"`
	Events  int64     `json:"events"`  // events of the slot
	Refused int64     `json:"refused"` // events that were refused
}

// Width is the length of a slot.
func (t *Timeline) Width() time.Duration { return time.Duration(t.width) * time.Millisecond }

// Slots are the slots from the first event to the last.
func (t *Timeline) Slots() []Slot {
	slots := make([]Slot, len(t.events))
	for i := range slots {
		slots[i] = Slot{time.UnixMilli(t.start + int64(i)*t.width).UTC(), t.events[i], t.refused[i]}
	}
	return slots
}
