package replay

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Numbers of slots of timelines: of all events and of each limit, and of a bucket.
const (
	slots       = 120
	bucketSlots = 30
)

// A tally is what one rule did.
type tally struct {
	accounts int      // buckets for which the rule holds
	events   int64    // events that asked for tokens of the limit
	asked    int64    // tokens
	taken    int64    // tokens
	refused  int64    // events for which the limit had too few tokens
	shadowed int64    // events that a limit in shadow would have refused
	bounds   Bounds   // of hours
	verdicts Verdicts // of hours
	never    int64    // those of them that cost more than the capacity

	waits    *hdrhistogram.Histogram    // of the refused events that would be served later, in ms; nil before the first
	bars     [len(waitBounds) + 1]int64 // the same waits, by the first bound that they do not exceed
	longest  *Moment
	left     [percent + 1]int64 // admitted events by the balance left, in percent of the capacity
	timeline *Timeline
}

const percent = 100

// waitBounds are the bounds of the bars of waits, in milliseconds.
var waitBounds = [...]int64{100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000}

func newTally() tally { return tally{timeline: newTimeline(slots)} }

// A Moment is the refusal with the longest wait.
type Moment struct {
	Entity   string        `json:"entity_id"`
	Resource string        `json:"resource"`
	At       time.Time     `json:"timestamp"`
	Wait     time.Duration `json:"-"`
	WaitMS   int64         `json:"wait_ms"` // Wait in milliseconds
}

// judged counts an event that asked for tokens.
func (t *tally) judged(now, tokens int64, short bool) {
	t.events++
	t.asked += tokens
	t.timeline.count(now, short)
}

// refuse counts an event for which the limit was short. ok says whether a wait serves it.
func (t *tally) refuse(a *account, now, wait int64, ok bool) {
	t.refused++
	if !ok {
		t.never++
		return
	}
	if t.waits == nil {
		const most, digits = int64(1) << 40, 2 // 34 years, to a percent
		t.waits = hdrhistogram.New(1, most, digits)
	}
	_ = t.waits.RecordValue(min(wait, t.waits.HighestTrackableValue())) // it is in the range
	bar, _ := slices.BinarySearch(waitBounds[:], wait)
	t.bars[bar]++
	if t.longest == nil || wait > t.longest.WaitMS {
		t.longest = &Moment{
			Entity: a.entity, Resource: a.resource, At: time.UnixMilli(now).UTC(),
			Wait: time.Duration(wait) * time.Millisecond, WaitMS: wait,
		}
	}
}

// admit counts tokens that were taken, and the share of the capacity that is left.
func (t *tally) admit(tokens int64, left float64) {
	t.taken += tokens
	t.left[max(0, int(left*percent))]++
}

// usage is what became of the events of a bucket.
type usage struct {
	events          int64
	refused         int64 // by the bucket's own limits
	refusedByParent int64 // by the parent's limits alone
	longest         int64 // the longest wait for its own limits, in milliseconds
	shadowedEvent   int64 // the number of the last of these events
	shadowed        int64 // admitted events that its own limits in shadow would have refused
	timeline        *Timeline
	first, last     int64 // instants of the refusals by its own limits, of those in shadow, too
}

// count counts an event of the bucket. byOwn and byParent say who refused it.
func (u *usage) count(now int64, byOwn, byParent bool) {
	u.events++
	switch {
	case byOwn:
		u.refused++
		u.mark(now)
	case byParent:
		u.refusedByParent++
	}
}

// shadow notes that a limit in shadow would have refused the event. It counts each event once.
func (u *usage) shadow(now int64) {
	if u.events != u.shadowedEvent {
		u.shadowed, u.shadowedEvent = u.shadowed+1, u.events
		u.mark(now)
	}
}

// mark notes when the bucket refused an event, or would have.
func (u *usage) mark(now int64) {
	if u.timeline == nil {
		u.first, u.timeline = now, newTimeline(bucketSlots)
	}
	u.last = now
	u.timeline.count(now, true)
}
