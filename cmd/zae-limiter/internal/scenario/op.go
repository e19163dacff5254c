package scenario

import "time"

// An Op is one operation. A caller keeps one and has [Plan.Op] fill it again and again.
type Op struct {
	Kind     CallKind
	Entity   int // index in [Plan.Entities]
	Resource int // index in [Scenario.Resources]
	Call     int // index in [Class.Calls]
	// Limits are the positions, among the limits of the resource, of those that the call
	// names. Consume and Settle have an element for every limit of the resource: what the
	// call asks for, and what it has used in the end. Elements of other limits are 0.
	// The plan owns Limits.
	Limits          []int
	Consume, Settle []int64
	// Hold is the time between the acquire and its commit. Think is the time between the
	// end of the operation and the next of the same user.
	Hold, Think time.Duration
}

// Adjusts reports whether the operation used other amounts than it asked for.
func (o *Op) Adjusts() bool {
	for i, n := range o.Consume {
		if o.Settle[i] != n {
			return true
		}
	}
	return false
}

// Op computes operation n of a class. at is the instant of the operation, from the start of
// the measurement; only [PickRotating] and [Spikes] depend on it. The result depends on nothing but the
// scenario and the arguments. Op allocates only until the slices of op are as long as the
// longest list of limits.
func (p *Plan) Op(class int, n int64, at time.Duration, op *Op) {
	c := &p.classes[class]
	random := seeded(p.Seed, c.key, uint64(n))
	which := c.shares.pick(&random)
	if c.spikes {
		which = p.spiking(c, at, which)
	}
	s := &c.from[which]
	op.Entity = s.first + p.entity(c, which, n, at, &random)
	r := c.resources.pick(&random)
	op.Resource = c.index[r]
	op.Call = c.calls.pick(&random)
	from := &c.call[op.Call]
	op.Kind, op.Limits = from.kind, from.named[r]
	op.Consume = zeros(op.Consume, from.size[r])
	op.Settle = zeros(op.Settle, from.size[r])
	for i, at := range from.named[r] {
		op.Consume[at] = random.tokens(&from.consume[i])
		op.Settle[at] = op.Consume[at]
	}
	for i, at := range from.adjusted[r] {
		op.Settle[at] = random.used(&from.settle[i], op.Consume[at])
	}
	op.Hold, op.Think = random.within(from.hold), random.within(c.think)
}

// spiking is the share that has a spike at an instant, otherwise the one that was chosen.
func (p *Plan) spiking(c *class, at time.Duration, chosen int) int {
	for i := range c.from {
		s := &c.from[i].spikes
		if s.For == 0 {
			continue
		}
		into := floorMod(int64(at), int64(s.Every))
		turn := (int64(at) - into) / int64(s.Every)
		const spikes = 1 << 48 // keeps these numbers apart from those of operations and rotations
		random := seeded(p.Seed, c.key+spikes*uint64(i+1), uint64(turn))
		if begin := random.between(0, int64(s.Every-s.For)); into >= begin && into < begin+int64(s.For) {
			return i
		}
	}
	return chosen
}

// entity chooses an entity of a share.
func (p *Plan) entity(c *class, which int, n int64, at time.Duration, random *source) int {
	s := &c.from[which]
	switch s.pick.Kind {
	case PickInTurn:
		return int(floorMod(n, int64(s.count)))
	case PickPowerLaw:
		return s.law.pick(random)
	case PickRotating:
		turn := (int64(at) - floorMod(int64(at), int64(s.pick.For))) / int64(s.pick.For)
		const rotations = 1 << 32 // keeps these numbers apart from those of operations
		chosen := seeded(p.Seed, c.key+rotations*uint64(which+1), uint64(turn))
		return int(chosen.below(uint64(s.count)))
	default:
		return int(random.below(uint64(s.count)))
	}
}

// tokens returns a number of an amount's distribution.
func (s *source) tokens(a *Amount) int64 {
	if a.Median == 0 {
		return s.between(a.Least, a.Most)
	}
	return s.logNormal(a.Least, a.Median, a.Most)
}

// used returns what was used of a number of tokens that was asked for.
func (s *source) used(a *Amount, asked int64) int64 {
	n := s.tokens(a)
	if !a.Percent {
		return n
	}
	const percent = 100 // maxPercent and store.MaxTokens leave room for the product
	return (n*asked + percent - 1) / percent
}

func (s *source) within(d Span) time.Duration {
	return time.Duration(s.between(int64(d.Least), int64(d.Most)))
}

// floorMod is the remainder of n divided by m, from 0 to m-1 also for negative n.
func floorMod(n, m int64) int64 {
	r := n % m
	if r < 0 {
		r += m
	}
	return r
}

// zeros returns n zeros, in s if there is room.
func zeros(s []int64, n int) []int64 {
	if cap(s) < n {
		return make([]int64, n)
	}
	s = s[:n]
	clear(s)
	return s
}
