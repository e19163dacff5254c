package replay

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// Counts say what the events of a [Result] are.
type Counts string

// The counts.
const (
	Requests  Counts = "requests"
	HoursUsed Counts = "hours" // hours in which a bucket was used
)

// A Verdict says whether limits have refused anything. Hours are sums, which do not tell how requests lay
// in them: what some orders of the requests lead to may have happened.
type Verdict string

// The verdicts.
const (
	Certain Verdict = "certain" // whatever the order of the requests was
	Maybe   Verdict = "maybe"   // in some orders
	Never   Verdict = "never"   // in no order
)

// Verdicts are numbers of buckets.
type Verdicts struct {
	Certain int `json:"certain"` // limits have refused something, whatever the order of the requests was
	Maybe   int `json:"maybe"`   // limits may have refused something
	Never   int `json:"never"`   // limits have refused nothing
}

func (v *Verdicts) count(is Verdict) {
	switch is {
	case Certain:
		v.Certain++
	case Maybe:
		v.Maybe++
	case Never:
		v.Never++
	}
}

// Bounds are how many tokens a limit would have refused in hours that were used.
type Bounds struct {
	MaybeHours int64 `json:"maybe"`           // hours in which the limit may have refused something
	AtLeast    int64 `json:"tokens_at_least"` // tokens of the limit that were not admitted, whatever the order of the requests was
	AtMost     int64 `json:"tokens_at_most"`  // tokens of requests that the limit refused in the worst order of them
}

// A Sum is what a bucket consumed in an hour.
type Sum struct {
	Start   int64   // of the hour, in milliseconds since the Unix epoch
	Amounts []int64 // tokens, at least 0, in the order of [Options.Costs]
}

// Hours tell what limits would have done to what buckets consumed by the hour. They are not safe for
// concurrent use.
//
// A sum does not tell when its requests came. So an answer is a bound (ADR 073). Each limit of a bucket is looked at
// on two ways through its hours, with the arithmetic of the limiter:
//
//   - The most that any order of the requests can have been admitted: they take what is there as soon as it
//     is there. The rest was refused, for certain.
//   - The least that any order can have left: all requests of an hour come together. An hour that asked
//     for no more than that refused nothing.
//
// The first bounds what was admitted of the tokens of a limit, whichever limit or parent refused the rest. The
// second bounds what the limit refuses itself.
type Hours struct {
	options  Options
	rules    rules
	from, to int64
	counts
	buckets  int
	maybe    int64
	verdicts Verdicts
	timeline *Timeline
	refused  []BucketResult // of buckets that are not refused nothing
}

const hour = int64(time.Hour / time.Millisecond)

// NewHours returns hours from an instant on, in milliseconds, with buckets that are full there. It fails as
// [New] does.
func NewHours(o Options, from int64) (*Hours, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	h := &Hours{options: o, rules: newRules(o.Levels, o.Costs), from: from, to: from, timeline: newTimelineFrom(from, hour, slots)}
	for _, of := range h.rules {
		for _, r := range of {
			r.timeline = newTimelineFrom(from, hour, slots)
		}
	}
	return h, nil
}

// Add judges all hours of a bucket, in order of time. It fails with a [store.ValidationError] if an amount is
// negative or too large, if an hour has too few or too many amounts, or if it begins too early.
func (h *Hours) Add(entity, resource string, sums []Sum) error {
	next := h.from
	for i := range sums {
		if err := checkAmounts(sums[i].Amounts, h.options.Costs); err != nil {
			return err
		}
		if sums[i].Start < next {
			return &store.ValidationError{Field: "hour", Value: time.UnixMilli(sums[i].Start).UTC().Format(time.RFC3339), Reason: "give each hour once, in order of time, from the first instant on"}
		}
		next = sums[i].Start + hour
	}
	if len(sums) == 0 {
		return nil
	}
	h.to = max(h.to, sums[len(sums)-1].Start)
	h.buckets++
	held := h.rules.of(entity, resource)
	own, shadowed := slices.Repeat([]Verdict{Never}, len(sums)), make([]bool, len(sums))
	b := BucketResult{Entity: entity, Resource: resource, Verdict: Never}
	for _, r := range held {
		h.judge(&b, r, sums, own, shadowed)
	}
	h.note(&b, len(held) == 0, sums, own, shadowed)
	return nil
}

// judge judges one limit of a bucket. It notes in which hours the bucket's limits have refused something,
// and in which limits in shadow would have.
func (h *Hours) judge(b *BucketResult, r *rule, sums []Sum, own []Verdict, shadowed []bool) {
	mode := r.limit.Of(b.Entity).Mode
	p := passage{limit: &r.held, sums: sums, cost: r.cost, verdicts: slices.Repeat([]Verdict{Never}, len(sums))}
	if !r.limit.Soft && mode != store.Off {
		p.judge()
	}
	met := p.met(r, mode)
	for i, is := range p.verdicts {
		switch {
		case mode == store.Shadow:
			shadowed[i] = shadowed[i] || is == Certain
		case is != Never && own[i] != Certain:
			own[i] = is
		}
	}
	verdict := Never
	switch {
	case met.AtLeast > 0:
		verdict = Certain
	case met.AtMost > 0:
		verdict = Maybe
	}
	r.accounts++
	r.verdicts.count(verdict)
	if mode != store.Shadow && (verdict == Certain || b.Verdict == Never) {
		b.Verdict = verdict
	}
	b.Limits = append(b.Limits, met)
}

// met counts the hours of a bucket that asked for tokens of a limit, on its rule, too.
func (p *passage) met(r *rule, mode store.Mode) Met {
	met := Met{Name: r.limit.Name, IsShadow: mode == store.Shadow, Bounds: &Bounds{AtLeast: up(p.atLeast)}}
	for i, is := range p.verdicts {
		tokens := p.sums[i].Amounts[p.cost]
		if tokens == 0 {
			continue
		}
		met.Asked += tokens
		r.judged(p.sums[i].Start, tokens, is == Certain)
		if is != Never {
			met.AtMost += tokens
		}
		switch {
		case is == Maybe:
			met.MaybeHours++
		case is == Certain && mode == store.Shadow:
			met.WouldRefuse++
		case is == Certain:
			met.Refused++
		}
	}
	r.refused, r.shadowed = r.refused+met.Refused, r.shadowed+met.WouldRefuse
	r.bounds = Bounds{r.bounds.MaybeHours + met.MaybeHours, r.bounds.AtLeast + met.AtLeast, r.bounds.AtMost + met.AtMost}
	return met
}

// note counts a bucket, and keeps it if its limits may have refused something.
func (h *Hours) note(b *BucketResult, isUnlimited bool, sums []Sum, own []Verdict, shadowed []bool) {
	when := newTimelineFrom(sums[0].Start, hour, bucketSlots)
	for i := range sums {
		at := sums[i].Start
		h.events++
		h.timeline.count(at, own[i] == Certain)
		if own[i] == Maybe {
			b.Maybe++
		}
		if isUnlimited {
			h.unlimited++
		}
		if own[i] != Certain && !shadowed[i] {
			continue
		}
		if shadowed[i] && own[i] != Certain {
			b.WouldRefuse++
		}
		if own[i] == Certain {
			b.Refused++
		}
		start := time.UnixMilli(at).UTC()
		if b.Last = &start; b.First == nil {
			b.First = &start
		}
		when.count(at, true)
	}
	b.Events = int64(len(sums))
	b.RefusedShare = share(b.Refused, b.Events)
	h.counts.refused, h.maybe = h.counts.refused+b.Refused, h.maybe+b.Maybe
	h.verdicts.count(b.Verdict)
	if b.First != nil {
		b.SlotSeconds, b.Timeline = when.Width().Seconds(), when.Slots()
	}
	if slices.ContainsFunc(b.Limits, func(m Met) bool { return m.AtMost > 0 }) {
		h.refused = append(h.refused, *b)
	}
}

// Result tells what the limits would have done. Of the buckets it has those first that were refused for certain,
// for the longest time.
func (h *Hours) Result() *Result {
	result := &Result{
		Counts: HoursUsed, Events: h.events, Refused: h.counts.refused, RefusedShare: share(h.counts.refused, h.events), Unlimited: h.unlimited,
		Maybe: h.maybe, Buckets: h.buckets, Verdicts: &h.verdicts, SlotSeconds: h.timeline.Width().Seconds(), Timeline: h.timeline.Slots(),
	}
	if h.events > 0 {
		result.From, result.To = time.UnixMilli(h.from).UTC(), time.UnixMilli(h.to+hour).UTC()
	}
	for _, one := range h.rules.sorted() {
		l := one.result()
		l.Bounds, l.Verdicts = &one.bounds, &one.verdicts
		result.Limits = append(result.Limits, l)
	}
	slices.SortFunc(h.refused, func(a, b BucketResult) int {
		return cmp.Or(strings.Compare(string(a.Verdict), string(b.Verdict)), // "certain" < "maybe" < "never"
			cmp.Compare(b.Refused+b.WouldRefuse, a.Refused+a.WouldRefuse), cmp.Compare(b.Maybe, a.Maybe),
			strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource))
	})
	result.Top = h.refused[:min(len(h.refused), h.options.Top)]
	return result
}

// up is millitokens in tokens, rounded up: requests ask for whole tokens.
func up(milli int64) int64 { return plus(milli, store.Milli-1) / store.Milli }

// plus adds, and stops at math.MaxInt64. Neither number is negative.
func plus(a, b int64) int64 { return min(a, math.MaxInt64-b) + b }

// A passage is the way of one limit of a bucket through its hours.
type passage struct {
	limit    *bucket.Limit
	sums     []Sum
	cost     int
	verdicts []Verdict
	atLeast  int64 // millitokens
}

func (p *passage) need(i int) int64 { return p.sums[i].Amounts[p.cost] * store.Milli }

func (p *passage) judge() {
	if p.limit.Renewal != nil && p.limit.Renewal.Session() != 0 {
		p.judgeSession()
		return
	}
	var most, low balance
	carriesNothing := *p.limit // it may not have begun yet: other limits may have refused all requests so far
	carriesNothing.Capacity, carriesNothing.Rollover = carriesNothing.Capacity-carriesNothing.Rollover, 0
	begins := p.begins()
	spare := begins
	for i := range p.sums {
		need, from := p.need(i), p.sums[i].Start
		if need > 0 && need > lowest(&carriesNothing, &low, from, from+hour) {
			p.verdicts[i] = Maybe
		}
		full := balance{tokens: p.limit.At(from).Capacity, as: from, used: true}
		if drain(p.limit, &full, from, need) > begins { // whatever the hours before had left
			p.verdicts[i] = Certain
		}
		rest := drain(p.limit, &most, from, need)
		taken := min(rest, spare)
		spare, p.atLeast = spare-taken, plus(p.atLeast, rest-taken)
		left := low.at(&carriesNothing, from+hour-1) - need
		if p.limit.Renewal == nil || p.limit.Varies == nil {
			left = max(left, 0) // a debit never leads below. A change of a quota that varies does.
		}
		low.set(&carriesNothing, left, from+hour-1)
	}
}

// begins is how much more an account can begin with, than one had that was full at any instant before: a schedule may
// have cut that one, and the other is full in a later piece.
func (p *passage) begins() int64 {
	if p.limit.Renewal != nil || p.limit.Varies == nil {
		return 0
	}
	return p.limit.Most() - least(p.limit)
}

// least is the smallest capacity that a limit ever has.
func least(l *bucket.Limit) int64 {
	least := l.Most()
	for is := range l.Pieces() {
		least = min(least, is.Capacity)
	}
	return least
}

// edge is the first instant after from at which a limit renews, or its parameters may change.
func edge(l *bucket.Limit, from int64) int64 {
	until := l.Until(from)
	if l.Renewal != nil {
		until = min(until, l.Renewal.End(0, from))
	}
	return until
}

// lowest is the lowest balance from one instant until before another if nothing is taken.
func lowest(l *bucket.Limit, b *balance, from, to int64) int64 {
	least := b.at(l, from)
	for at := edge(l, from); at < to; at = edge(l, at) {
		least = min(least, b.at(l, at))
	}
	return least
}

// drain takes what it can get of a need in an hour, each token as soon as it is there, and returns the rest. No
// order of requests gets more, over all hours so far: a token that is taken early is one that the capacity
// does not cut, and the end of a period does not take away.
func drain(l *bucket.Limit, b *balance, from, need int64) (rest int64) {
	end, tokens := from+hour, b.at(l, from)
	for from < end {
		taken := min(need, max(tokens, 0))
		tokens, need = tokens-taken, need-taken
		until := min(end, edge(l, from))
		if need > 0 && l.Renewal == nil { // and there are no tokens
			earned := l.Earned(from, until)
			taken = min(need, earned)
			need -= taken
			tokens = l.Balance(min(earned-taken, l.At(from).Capacity), until, until)
		} else {
			tokens = l.Balance(tokens, from, until)
		}
		from = until
	}
	b.set(l, tokens, end)
	return need
}

// judgeSession judges a quota whose periods begin with a use. In hours that follow each other, at most so many
// sessions can have been under way as fit, and one more. The hours are divided so that most was refused.
// Requests of some hours can have been of one session if the last begins before a session of the
// first has ended.
func (p *passage) judgeSession() {
	length, amount, smallest := p.limit.Renewal.Session(), p.limit.Most(), least(p.limit)
	refused := make([]int64, len(p.sums)+1) // in the hours before, for certain
	for i := range p.sums {
		end := p.sums[i].Start + hour
		refused[i+1] = refused[i]
		for first, sum := i, int64(0); first >= 0; first-- {
			sum = plus(sum, p.need(first))
			start := p.sums[first].Start
			sessions := 1 + (end-start+length-1)/length
			over := int64(0)
			if amount <= sum/sessions { // amount·sessions fits
				over = sum - amount*sessions
			}
			refused[i+1] = max(refused[i+1], plus(refused[first], over))
			switch {
			case p.need(i) == 0:
			case first == i && over > 0:
				p.verdicts[i] = Certain
			case p.verdicts[i] == Never && sum > smallest && p.sums[i].Start-(start+hour) < length:
				p.verdicts[i] = Maybe
			}
		}
	}
	p.atLeast = refused[len(p.sums)]
}
