package scenario

import (
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Scenario is a load.
type Scenario struct {
	Name  string
	About string // what it is for, one or several sentences
	// Seed determines entities, resources, amounts, think times and random arrivals.
	Seed uint64
	// WarmUp is how long the load of the first phase runs before the measurement.
	WarmUp time.Duration
	// Limiters is the number of limiters that the clients share. Each has its own store and
	// memory, as in that many processes.
	Limiters int
	// Sides are the systems that carry out the load, one after another.
	Sides []Side
	// Phases are measured one after another. There is at least one.
	Phases      []Phase
	Resources   []Resource
	Populations []Population
	Classes     []Class
}

// A Side is a system that carries out a load.
type Side string

// The sides.
const (
	// Limiter is the limiter. Classes that are [Class.Apart] have limiters of their own, as
	// in another process.
	Limiter Side = "limiter"
	// Shared is the limiter, with all classes in the same process.
	Shared Side = "shared"
	// Sticky is the limiter, with all operations of an entity at the same one of the limiters, as
	// behind a proxy that hashes the entity's name.
	Sticky Side = "sticky"
	// Bare is one conditional UpdateItem for each operation, on an item in the form of the
	// entity's bucket, on a table of its own whose GSI2 projects whole items.
	Bare Side = "bare"
)

// A Phase is a part of a run that is measured apart.
type Phase struct {
	Name string
	For  time.Duration
}

// A Resource is a resource and its limits.
type Resource struct {
	Name   string
	Limits []store.Limit
}

// A Population is a number of entities with names that begin alike.
type Population struct {
	Name  string
	Count int
	// Parents is the number of parents, to which the entities cascade in turn; 0 is none.
	Parents int
	// Limits are the entities' own limits, for every resource; nil leaves the resource's.
	// Parents have the resource's.
	Limits []store.Limit
	// Limited is the number of entities that have Limits, the first ones; 0 is all.
	Limited int
	// Exhausted means that the buckets are emptied before the load begins.
	Exhausted bool
	// New means that the buckets are made by the load, and not before it.
	New bool
}

// A Class is a stream of operations, or a number of users.
type Class struct {
	Name string
	// Apart gives the class limiters of its own on the side [Limiter].
	Apart bool
	// Phases are the phases in which the class is active, by index; nil is all of them.
	Phases []int
	// From chooses the entity of an operation, by weight.
	From []Share
	// Resources are the resources that an operation chooses from, by index, and their
	// weights.
	Resources []Weighted
	Calls     []Call
	Arrival   Arrival
}

// A Share is a part of the operations that concern one population.
type Share struct {
	Population int // its index
	Weight     int64
	Pick       Pick
	Spikes     Spikes
}

// Spikes are times in which all operations of a class are of one share, whatever the
// weights are. The zero value is none. Where the spikes of two shares coincide, the first
// share has them.
type Spikes struct {
	// For is the length of a spike. One begins at a random instant of each Every, and ends
	// within it.
	For, Every time.Duration
}

// A Pick says how an entity of a population is chosen.
type Pick struct {
	Kind  PickKind
	Alpha float64       // of a power law
	For   time.Duration // that an entity stays chosen by [PickRotating]
}

// A PickKind is a way to choose an entity.
type PickKind uint8

// The ways to choose an entity.
const (
	// PickRandom chooses every entity with the same probability.
	PickRandom PickKind = iota
	// PickInTurn chooses entity n modulo their number for operation n.
	PickInTurn
	// PickPowerLaw chooses entity k, counted from 1, with a probability in proportion to
	// k to the power of -Alpha.
	PickPowerLaw
	// PickRotating chooses one random entity for all operations of a time, then another.
	PickRotating
)

// A Weighted is an index and its weight among others.
type Weighted struct {
	Index  int
	Weight int64
}

// A Call is one kind of operation of a class.
type Call struct {
	Weight int64
	Kind   CallKind
	// Consume is what the call asks for, by name of limit.
	Consume []Amount
	// Settle is what an acquire has used in the end. The lease is adjusted to it. Limits
	// that are not named keep what they consumed.
	Settle []Amount
	// Hold is the time between the acquire and its commit.
	Hold Span
}

// A CallKind is what an operation calls.
type CallKind uint8

// The calls.
const (
	// Acquire takes tokens, holds them, and commits what it has used.
	Acquire CallKind = iota
	// Available reads what is available.
	Available
	// SetLimits sets the limits of the entity for the resource to what they are.
	SetLimits
	// GetLimits reads the entity's own limits for the resource.
	GetLimits
	// GetEntity reads the entity.
	GetEntity
	// GetChildren reads the entities with the same parent; of an entity without one, its own
	// children, of which there are none.
	GetChildren
	// SetResourceDefaults sets the limits of the resource to what they are.
	SetResourceDefaults
	// GetResourceDefaults reads the limits of the resource.
	GetResourceDefaults
	// GetSystemDefaults reads the limits of all resources, of which there are none.
	GetSystemDefaults
	// ListResources lists the resources that have limits.
	ListResources
)

// An Amount is a number of tokens from Least to Most.
type Amount struct {
	Limit       string
	Least, Most int64
	// Median makes the distribution log-normal, as sizes of prompts and answers are: half of
	// the numbers are below Median, and Most stands for the highest 1 %. A number out of
	// bounds counts as the nearest bound. With 0, every number has the same probability.
	Median int64
	// Percent means that Least and Most are percentages of what the call consumed, rounded
	// up to tokens. Only [Call.Settle] may have it.
	Percent bool
}

// A Span is a duration, evenly distributed from Least to Most.
type Span struct{ Least, Most time.Duration }

// An Arrival says when the operations of a class are due. It is either open, with a rate,
// or closed, with a number of users.
type Arrival struct {
	// Stages follow one another from the start of the measurement of the first phase in
	// which the class is active. After the last one, its last rate or number of users
	// stays until the end.
	Stages []Stage
	// Poisson spaces the operations of a rate at random, as independent callers do. Without
	// it they are evenly spaced.
	Poisson bool
	// Clients bounds the number of concurrent operations of a rate. An operation that finds
	// no free client waits, and the wait is part of its latency.
	Clients int
	// Think is the time between the end of an operation and the next of the same user. It
	// needs users.
	Think Span
}

// A Stage is a part of an arrival. Either the rates or the users are 0.
type Stage struct {
	// For is the length of the stage. 0 is until the end, in the last stage only.
	For time.Duration
	// Rate is the number of operations due per second. It changes evenly from the first to
	// the last value.
	FromRate, ToRate float64
	// Users is the number of users at the end of the ramp. Spawn is how many start or stop
	// per second; 0 is all at once.
	Users int
	Spawn float64
}

// Open reports whether the operations have a rate, and are not those of users.
func (a *Arrival) Open() bool {
	for _, s := range a.Stages {
		if s.FromRate > 0 || s.ToRate > 0 {
			return true
		}
	}
	return false
}

// Duration is the length of all phases together.
func (s *Scenario) Duration() time.Duration {
	var all time.Duration
	for _, p := range s.Phases {
		all += p.For
	}
	return all
}

// start is the instant at which a class is first active, from the start of the measurement.
func (s *Scenario) start(c *Class) time.Duration {
	var at time.Duration
	if len(c.Phases) == 0 {
		return 0
	}
	first := slices.Min(c.Phases)
	for _, p := range s.Phases[:first] {
		at += p.For
	}
	return at
}

// Active reports whether a class is active in a phase.
func (c *Class) Active(phase int) bool { return c.Phases == nil || slices.Contains(c.Phases, phase) }

// kinds are the names of calls in files.
var kinds = [...]string{
	Acquire: "acquire", Available: "available", SetLimits: "set-limits", GetLimits: "get-limits", GetEntity: "get-entity",
	GetChildren: "get-children", SetResourceDefaults: "set-resource-defaults", GetResourceDefaults: "get-resource-defaults",
	GetSystemDefaults: "get-system-defaults", ListResources: "list-resources",
}

// String is the name of the call in files.
func (k CallKind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return "CallKind(" + strconv.Itoa(int(k)) + ")"
}

// consumes reports whether a call asks for tokens.
func (k CallKind) consumes() bool { return k == Acquire || k == Available }
