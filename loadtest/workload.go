package loadtest

import (
	"strconv"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A workload is the demand of a population of entities.
type workload struct {
	entities  []string
	parents   []string // of entities, in turn; none unless they cascade
	resources []string
	limits    []limiter.Limit
	// consume is one token of each limit.
	consume map[string]int64
	// settles means that operations reserve hundreds of tokens of [settled], and settle
	// later.
	settles bool
	// exhausted means that buckets are emptied before the load begins.
	exhausted bool
	// inTurn means that entities are used in turn and not at random.
	inTurn bool
}

// settled is the limit whose tokens are settled.
const settled = "tpm"

// far is a limit that no load comes near.
const far = 1_000_000

// childrenOfParent is the number of entities with the same parent.
const childrenOfParent = 32

func newWorkload(limits []limiter.Limit, resources int, name string, entities int) *workload {
	w := &workload{limits: limits, consume: make(map[string]int64, len(limits))}
	for _, l := range limits {
		w.consume[l.Name] = 1
	}
	for i := range entities {
		w.entities = append(w.entities, name+"-"+strconv.Itoa(i))
	}
	for i := range resources {
		w.resources = append(w.resources, "bench-"+strconv.Itoa(i))
	}
	return w
}

// workload is the workload of a scenario other than Attack.
func (o Options) workload() *workload {
	limits, resources := []limiter.Limit{limiter.PerSecond("rps", far)}, 1
	switch o.Scenario {
	case Refused:
		limits = []limiter.Limit{limiter.PerDay("rpd", 1)}
	case LLM:
		const models, perMinute = 8, 60
		limits, resources = []limiter.Limit{limiter.PerMinute("rpm", far*perMinute), limiter.PerMinute(settled, 1000*far*perMinute)}, models
	default:
	}
	if len(o.Limits) > 0 {
		limits = o.Limits
	}
	w := newWorkload(limits, resources, "entity", o.Entities)
	w.exhausted = o.Scenario == Refused
	w.settles = o.Scenario == LLM && w.consume[settled] > 0
	if o.Scenario == Cascade {
		for i := range (o.Entities + childrenOfParent - 1) / childrenOfParent {
			w.parents = append(w.parents, "parent-"+strconv.Itoa(i))
		}
	}
	return w
}

// parent is the number of an entity's parent.
func (w *workload) parent(entity int) int { return entity % len(w.parents) }

// request is the request of an operation.
func (w *workload) request(d draw) limiter.Request {
	r := limiter.Request{Entity: w.entities[d.entity], Resource: w.resources[d.resource], Consume: w.consume, OnUnavailable: limiter.Block}
	if w.settles || d.all {
		r.Consume = make(map[string]int64, len(w.limits))
		for i := range w.limits {
			r.Consume[w.limits[i].Name] = w.asked(d, i)
		}
	}
	return r
}

// asked is the number of tokens of limit i that an operation requests.
func (w *workload) asked(d draw, i int) int64 {
	switch {
	case d.all:
		return w.limits[i].Capacity
	case w.settles && w.limits[i].Name == settled:
		return d.reserve
	}
	return 1
}

// used is the number of those tokens that it uses in the end.
func (w *workload) used(d draw, i int) int64 {
	if w.settles && w.limits[i].Name == settled {
		return d.use
	}
	return w.asked(d, i)
}
