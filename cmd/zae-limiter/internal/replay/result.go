package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Result is what the limits would have done. Its JSON form is documented in
// docs/replay.md. Shares are from 0 to 1.
//
// The events of a [Replayer] are requests. Those of [Hours] are hours in which a bucket was used: one
// counts as refused if the limits have refused something in it for certain.
type Result struct {
	Counts       Counts    `json:"counts"`  // what events are: requests or hours
	Events       int64     `json:"events"`  // events that were decided
	Refused      int64     `json:"refused"` // events that a limit refused
	RefusedShare float64   `json:"refused_share"`
	Late         int64     `json:"late"`               // events that came after the window of Order
	Unlimited    int64     `json:"unlimited"`          // events for which no level has limits
	Maybe        int64     `json:"maybe,omitempty"`    // of hours: those in which limits may have refused something
	From         time.Time `json:"start_at,omitzero"`  // instant of the first event, absent without events
	To           time.Time `json:"end_at,omitzero"`    // instant of the last event, absent without events
	Buckets      int       `json:"buckets"`            // number of buckets
	Verdicts     *Verdicts `json:"verdicts,omitempty"` // of hours: how many buckets have which verdict
	SlotSeconds  float64   `json:"slot_seconds"`
	Timeline     []Slot    `json:"timeline"`

	Limits []LimitResult  `json:"limits"`
	Top    []BucketResult `json:"top_refused"` // buckets by refusals
}

// A LimitResult is what one limit of one level did.
type LimitResult struct {
	Level string      `json:"level"` // level of configuration that has the limit
	Limit store.Limit `json:"-"`
	Name  string      `json:"limit_name"`
	limitarg.Parameters
	Buckets      int     `json:"buckets"` // buckets that have the limit
	Events       int64   `json:"events"`  // that asked for tokens of the limit
	Refused      int64   `json:"refused"` // events that the limit refused
	RefusedShare float64 `json:"refused_share"`
	WouldRefuse  int64   `json:"would_refuse,omitempty"` // events that the limit would have refused if it were not in shadow
	Asked        int64   `json:"asked"`                  // tokens
	*LimitInstants
	*Bounds

	Verdicts    *Verdicts `json:"verdicts,omitempty"` // of hours: how many buckets have which verdict of the limit
	SlotSeconds float64   `json:"slot_seconds"`
	Timeline    []Slot    `json:"timeline"`
}

// LimitInstants are what only instants tell of a limit. Hours have none.
type LimitInstants struct {
	Never    int64    `json:"never"`          // refused events that cost more than the capacity
	Taken    int64    `json:"taken"`          // tokens
	Wait     *Waits   `json:"wait,omitempty"` // waits after refusals
	Headroom Headroom `json:"headroom"`       // what was left of the capacity after admitted events, as shares
}

// Waits tell how long refused events would have waited. Events that cost more than the
// capacity are not among them.
type Waits struct {
	P50MS   int64     `json:"p50_ms"`
	P90MS   int64     `json:"p90_ms"`
	P99MS   int64     `json:"p99_ms"`
	Longest Moment    `json:"longest"`      // the longest wait
	Bars    []WaitBar `json:"distribution"` // distribution of the waits
}

// A WaitBar counts the waits from one bound up to and including another.
type WaitBar struct {
	OverMS  int64 `json:"over_ms"`  // lower bound of the waits
	UpToMS  int64 `json:"up_to_ms"` // upper bound of the waits
	Refused int64 `json:"refused"`  // refusals with such a wait
}

// Headroom tells how much of the capacity admitted events left, as shares. P10 says that a
// tenth of the admitted events left at most so much.
type Headroom struct {
	Lowest float64 `json:"lowest"` // the least
	P1     float64 `json:"p1"`     // 1st percentile
	P10    float64 `json:"p10"`    // 10th percentile
	P50    float64 `json:"p50"`    // median
	// Tenths count admitted events by what they left: less than 10 %, less than 20 %, …
	Tenths [10]int64 `json:"tenths"`
}

// A BucketResult is what became of the events of one bucket.
type BucketResult struct {
	Entity       string     `json:"entity_id"`
	Resource     string     `json:"resource"`
	Events       int64      `json:"events"`                 // events of the bucket
	Refused      int64      `json:"refused"`                // by its own limits
	WouldRefuse  int64      `json:"would_refuse,omitempty"` // admitted events that its own limits in shadow would have refused
	RefusedShare float64    `json:"refused_share"`
	First        *time.Time `json:"first_refused_at,omitempty"` // instant of the first refusal
	Last         *time.Time `json:"last_refused_at,omitempty"`  // instant of the last refusal
	*BucketInstants
	Maybe       int64   `json:"maybe,omitempty"`   // of hours: those in which its own limits may have refused something
	Verdict     Verdict `json:"verdict,omitempty"` // of hours: whether its own limits have refused anything
	Limits      []Met   `json:"limits"`
	SlotSeconds float64 `json:"slot_seconds,omitempty"`
	Timeline    []Slot  `json:"timeline,omitempty"` // of refusals by its own limits
}

// BucketInstants are what only instants tell of a bucket. Hours have none.
type BucketInstants struct {
	RefusedByParent int64 `json:"refused_by_parent"` // by the parent's limits alone
	LongestMS       int64 `json:"longest_wait_ms"`   // the longest wait after a refusal
}

// Met is how a bucket met one of its limits.
type Met struct {
	Name        string   `json:"limit_name"`
	Refused     int64    `json:"refused"`                   // events that the limit refused
	WouldRefuse int64    `json:"would_refuse,omitempty"`    // events that the limit would have refused if it were not in shadow
	Lowest      *float64 `json:"lowest_headroom,omitempty"` // after an admitted event, as a share of the capacity; absent for hours
	Asked       int64    `json:"asked,omitempty"`           // of hours: tokens
	IsShadow    bool     `json:"in_shadow,omitempty"`       // of hours: the limit is in shadow for the entity, and would have refused what is here
	*Bounds
}

// Result tells what came of the events so far.
func (r *Replayer) Result() *Result {
	result := &Result{
		Counts: Requests, Events: r.events, Refused: r.refused, RefusedShare: share(r.refused, r.events),
		Late: r.late, Unlimited: r.unlimited, Buckets: len(r.ordered),
		SlotSeconds: r.timeline.Width().Seconds(), Timeline: r.timeline.Slots(),
	}
	if r.events > 0 {
		result.From, result.To = time.UnixMilli(r.from).UTC(), time.UnixMilli(r.now).UTC()
	}
	for _, one := range r.rules.sorted() {
		l := one.result()
		l.LimitInstants = &LimitInstants{Never: one.never, Taken: one.taken, Headroom: one.headroom()}
		if one.waits != nil {
			l.Wait = one.waitsResult()
		}
		result.Limits = append(result.Limits, l)
	}
	for _, a := range r.top() {
		result.Top = append(result.Top, a.result())
	}
	return result
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func (r *rule) result() LimitResult {
	return LimitResult{
		Level: levelName(r.key), Limit: r.limit, Name: r.limit.Name, Parameters: limitarg.ParametersOf(r.limit),
		Buckets: r.accounts, Events: r.events, Refused: r.refused, RefusedShare: share(r.refused, r.events),
		WouldRefuse: r.shadowed, Asked: r.asked, SlotSeconds: r.timeline.Width().Seconds(), Timeline: r.timeline.Slots(),
	}
}

func (t *tally) waitsResult() *Waits {
	const p50, p90, p99 = 50, 90, 99
	at := func(p float64) int64 { return min(t.waits.ValueAtQuantile(p), t.longest.WaitMS) }
	w := &Waits{P50MS: at(p50), P90MS: at(p90), P99MS: at(p99), Longest: *t.longest}
	over := int64(0)
	for i, n := range t.bars {
		upTo := t.longest.WaitMS
		if i < len(waitBounds) {
			upTo = waitBounds[i]
		}
		if n > 0 {
			w.Bars = append(w.Bars, WaitBar{over, upTo, n})
		}
		over = upTo
	}
	return w
}

func (t *tally) headroom() (h Headroom) {
	admitted, seen := int64(0), int64(0)
	for i, n := range t.left {
		admitted += n
		h.Tenths[min(i/len(h.Tenths), len(h.Tenths)-1)] += n
	}
	const p1, p10, p50 = 0.01, 0.1, 0.5
	marks := []struct {
		at     float64
		target *float64
	}{{0, &h.Lowest}, {p1, &h.P1}, {p10, &h.P10}, {p50, &h.P50}}
	for i, n := range t.left {
		for len(marks) > 0 && n > 0 && float64(seen+n) >= marks[0].at*float64(admitted) {
			*marks[0].target = float64(i) / percent
			marks = marks[1:]
		}
		seen += n
	}
	return h
}

// top are the buckets with the most refusals, the most refused first.
func (r *Replayer) top() []*account {
	refused := slices.DeleteFunc(slices.Clone(r.ordered), func(a *account) bool { return a.refused+a.refusedByParent+a.shadowed == 0 })
	slices.SortFunc(refused, func(a, b *account) int {
		return cmp.Or(cmp.Compare(b.refused+b.refusedByParent+b.shadowed, a.refused+a.refusedByParent+a.shadowed), cmp.Compare(a.number, b.number))
	})
	return refused[:min(len(refused), r.options.Top)]
}

func (a *account) result() BucketResult {
	b := BucketResult{
		Entity: a.entity, Resource: a.resource, Events: a.events, Refused: a.refused, WouldRefuse: a.shadowed,
		RefusedShare: share(a.refused+a.refusedByParent, a.events), BucketInstants: &BucketInstants{a.refusedByParent, a.longest},
	}
	for i := range a.meters {
		m := &a.meters[i]
		b.Limits = append(b.Limits, Met{Name: m.rule.limit.Name, Refused: m.refused, WouldRefuse: m.shadowed, Lowest: &m.lowest})
	}
	if a.timeline != nil {
		first, last := time.UnixMilli(a.first).UTC(), time.UnixMilli(a.last).UTC()
		b.First, b.Last = &first, &last
		b.SlotSeconds, b.Timeline = a.timeline.Width().Seconds(), a.timeline.Slots()
	}
	return b
}
