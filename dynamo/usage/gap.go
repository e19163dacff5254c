package usage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// milliWrites is what one write adds to an item's count of writes.
const milliWrites = 1000

// A numbered is a step with its sequence number in the stored form.
type numbered struct {
	*Step
	sequence string
	// healed is the step together with what a gap beside it consumed; nil without a gap.
	healed *Step
}

// counted is what the snapshot counts for the step.
func (n *numbered) counted() *Step {
	if n.healed != nil {
		return n.healed
	}
	return n.Step
}

// hasImages reports whether the step tells the counters of its shard.
func (n *numbered) hasImages() bool { return n.Before != nil || n.After != nil }

func (n *numbered) before() schema.UsagePoint { return n.point(n.Before) }
func (n *numbered) after() schema.UsagePoint  { return n.point(n.After) }

func (n *numbered) point(img *store.Image) schema.UsagePoint {
	if !n.hasImages() {
		return schema.UsagePoint{}
	}
	return schema.PointOf(img)
}

// Restarts reports whether counters begin at 0 again with a change: it creates the item, or
// removes a limit, which may come back. Such a change is a step even if it consumes
// nothing. Otherwise the counters would seem to have gone back, as if tokens were returned.
func Restarts(before, after *store.Image) bool {
	switch {
	case after == nil:
		return false
	case before == nil:
		return true
	}
	return slices.ContainsFunc(before.Limits, func(l store.LimitState) bool {
		_, there := after.Limit(l.Name)
		return !there
	})
}

// low is the low end of what is counted if the step is the first.
func (n *numbered) low() string {
	if !n.hasImages() {
		return schema.UsageLowAlone(n.sequence)
	}
	return schema.UsageLow(n.sequence, n.Before)
}

// high is the sequence attribute if the step is the last one counted.
func (n *numbered) high() string {
	if !n.hasImages() {
		return n.sequence
	}
	return schema.UsageSequence(n.sequence, n.After)
}

// marks are what a snapshot has counted of some shards; nil is a shard of which it has
// counted nothing. Shards that are not there are not known.
type marks map[int]*schema.UsageMark

// read reads the marks of the shards of some steps.
func (m marks) read(it schema.Item, steps []numbered) error {
	clear(m)
	for i := range steps {
		if !startsShard(steps, i) {
			continue
		}
		mark, err := schema.DecodeUsageMark(it, steps[i].Shard)
		if err != nil {
			return err
		}
		m[steps[i].Shard] = mark
	}
	return nil
}

// forget makes the shards of some steps unknown, because they have been counted.
func (m marks) forget(steps []numbered) {
	for i := range steps {
		delete(m, steps[i].Shard)
	}
}

// has reports whether a step is counted.
func (m marks) has(n *numbered) bool {
	mark := m[n.Shard]
	return mark != nil && n.sequence >= mark.Low.Sequence && n.sequence <= mark.High.Sequence
}

// arrange orders steps as [marks.heal] and [Snapshots.update] need them, by shard. Within a
// shard, the steps below the low end come last and downwards. So every write of a part of
// the steps extends what is counted without a hole.
func (m marks) arrange(steps []numbered) {
	slices.SortStableFunc(steps, func(a, b numbered) int {
		upwards := strings.Compare(a.sequence, b.sequence)
		switch aBelow, bBelow := m.isBelow(&a), m.isBelow(&b); {
		case a.Shard != b.Shard:
			return cmp.Compare(a.Shard, b.Shard)
		case aBelow && bBelow:
			return -upwards
		case aBelow:
			return 1
		case bBelow:
			return -1
		default:
			return upwards
		}
	})
}

// isBelow reports whether a step comes before everything that its shard has counted.
func (m marks) isBelow(n *numbered) bool {
	mark := m[n.Shard]
	return mark != nil && n.sequence < mark.Low.Sequence
}

// heal adds to each step what the gap beside it consumed. Between two steps, or between a
// step and what is counted, the counters of the shard must not have changed. If they have,
// changes are missing, and what they consumed counts with the step that is further from
// what is counted. The steps are arranged, and none is counted.
func (m marks) heal(steps []numbered) {
	for i := range steps {
		n, mark := &steps[i], m[steps[i].Shard]
		n.healed = nil
		isFirst := startsShard(steps, i)
		switch {
		case m.isBelow(n) && (isFirst || !m.isBelow(&steps[i-1])):
			n.add(n.after(), mark.Low)
		case isFirst && mark != nil:
			n.add(mark.High, n.before())
		case isFirst:
		case m.isBelow(n) && !continues(n.After, steps[i-1].Before):
			n.add(n.after(), steps[i-1].before())
		case !m.isBelow(n) && !continues(steps[i-1].After, n.Before):
			n.add(steps[i-1].after(), n.before())
		}
	}
}

// continues reports whether one image has the counters at which the other ended. It is so
// nearly always, and takes no memory.
func continues(ended, begins *store.Image) bool {
	return ended != nil && begins != nil && ended.CreatedAt == begins.CreatedAt && slices.EqualFunc(ended.Limits, begins.Limits, func(a, b store.LimitState) bool {
		return a.Name == b.Name && a.Consumed == b.Consumed
	})
}

// add adds to a step what a shard consumed between two states. Its sums must fit 64 bits;
// otherwise the gap stays.
func (n *numbered) add(from, to schema.UsagePoint) {
	tokens, events := between(from, to)
	if len(tokens) == 0 {
		return
	}
	s := *n.counted()
	s.Tokens = slices.Concat(s.Tokens, tokens)
	total, ok := added(s.Events, events)
	merged, err := s.merged()
	if !ok || err != nil {
		return
	}
	if merged == &s {
		s.Events = total
		n.healed = &s
		return
	}
	merged.Events = total
	n.healed = merged
}

// between returns what a shard consumed between two states, and how many acquires that
// was. The item's count of writes tells the number, and also has writes that took nothing.
// The counters began at 0 in between if the item was deleted and created anew. The time of
// creation says so. An item of the peer, or of an earlier version, has none: there, the
// count of writes says so if it went back.
func between(from, to schema.UsagePoint) (tokens []store.Amount, events int64) {
	if !from.HasCounters || !to.HasCounters {
		return nil, 0
	}
	isAnother := from.CreatedAt != to.CreatedAt && from.CreatedAt != 0 && to.CreatedAt != 0
	if isAnother || to.Writes-from.Writes < 0 { // counts wrap
		from = schema.UsagePoint{}
	}
	taken := false
	for _, a := range to.Consumed {
		i, there := slices.BinarySearchFunc(from.Consumed, a.Limit, func(b store.Amount, limit string) int { return strings.Compare(b.Limit, limit) })
		if there {
			a.Milli -= from.Consumed[i].Milli
		}
		if a.Milli != 0 {
			tokens = append(tokens, a)
			taken = taken || a.Milli > 0
		}
	}
	if taken {
		events = (to.Writes - from.Writes) / milliWrites
	}
	return tokens, events
}
