// Package mapping says what the descriptors of a proxy mean. A descriptor is a list of keys and
// values, such as Envoy makes of a request. Rules, read from files in YAML, map it to an entity,
// a resource, and amounts of limits. Mapping is a pure function, without a clock and without I/O
// (ADR 059).
package mapping

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// A Descriptor is what a proxy says of a request.
type Descriptor struct {
	Entries []Entry
	// Hits is what the request costs, from 0 to [limiter.MaxTokens]. With 0, the proxy asks whether there
	// is anything left, and takes nothing.
	Hits int64
	// Returns says that Hits are to be returned.
	Returns bool
	// IsLimited says that the descriptor brings its own limit.
	IsLimited bool
}

// An Entry is a key with its value. A descriptor may have a key several times.
type Entry struct{ Key, Value string }

// A Mode is what becomes of the amounts of a descriptor.
type Mode uint8

// The modes of a descriptor.
const (
	// Take takes the amounts if all limits of the call admit that, or nothing.
	Take Mode = iota
	// Shadow takes the amounts if its own limits admit that, and refuses nobody.
	Shadow
	// Charge takes the amounts in any case, into debt. It is for costs that are known after the
	// response: a refusal that takes nothing would make them free.
	Charge
	// Return returns the amounts.
	Return
	// Settle sets what a lease took to the amounts; what no amount names stays taken. Without a lease
	// it is a charge.
	Settle
)

// An Ask is what a descriptor asks for.
type Ask struct {
	Mode             Mode
	Entity, Resource string
	// Amounts has tokens by limit. An amount of 0 that is taken is a check: it asks for at least one
	// token, and takes none.
	Amounts map[string]int64

	// Slots has the slots by limit that are held until the lease ends, or until Within. Hits are of
	// tokens: a request without any runs, too.
	Slots map[string]int64
	// Within asks for a lease of what is taken, which is expected to be settled within that time; 0 is
	// none.
	Within time.Duration
	// Lease has the leases that a settlement may be of, as an answer gave them.
	Lease string

	// Counts says that the descriptor is decided alone, and that a refusal takes too, if there was
	// anything left: into a debt of at most one capacity. Files of envoyproxy/ratelimit mean that.
	Counts bool
	// Unlimited says that the descriptor takes nothing, and that there is no end to what it may take.
	Unlimited bool
	// Limit holds where no level configures limits; nil if the rule has none.
	Limit *limiter.Limit
	// Name is the name of the limit in such a file. Replaces has the names of limits that do not hold in
	// a call in which this one does.
	Name     string
	Replaces []string
	// Keys are the first two keys of the descriptor, each with the value if such a file has that, for
	// metrics; empty of a descriptor that brings its own limit.
	Keys [2]string
	// Quota says that the descriptor refuses only if all descriptors of the call that say so do.
	Quota bool
	// Metadata is for the proxy if the descriptor does not refuse: values of JSON.
	Metadata map[string]any
}

// Rules are the rules of all domains.
type Rules struct {
	domains map[string]*rules
	count   int
	leases  bool // a rule asks for leases, or settles them
	// metadata is the size of the metadata of all descriptors, in bytes and values.
	metadata int
}

// The rules of a domain are a list, or the tree of a file of envoyproxy/ratelimit.
type rules struct {
	list []rule
	tree *node
}

// Has reports whether a domain has rules.
func (r *Rules) Has(domain string) bool { return r.domains[domain] != nil }

// A rule maps the descriptors that have its entries, in this order, and no others.
type rule struct {
	entries          []pattern
	entity, resource template
	amounts          []amount
	slots            map[string]int64 // of what is taken with a lease
	mode             Mode
	within           time.Duration // of the lease; 0 is none
}

// A pattern is a key, and its value unless any will do.
type pattern struct {
	key, value string
	any        bool
}

// An amount is what a rule takes of a limit: a number for each call, or the hits of the descriptor.
type amount struct {
	limit  string
	tokens int64
	isHits bool
}

// Map maps a descriptor of a domain by the first of its rules that fits; false if none does.
func (r *Rules) Map(domain string, d *Descriptor) (Ask, bool) {
	of, ok := r.domains[domain]
	if !ok {
		return Ask{}, false
	}
	if of.tree != nil {
		return of.tree.ask(domain, d)
	}
	for i := range of.list {
		if of.list[i].fits(d.Entries) {
			return of.list[i].ask(d), true
		}
	}
	return Ask{}, false
}

func (r *rule) fits(entries []Entry) bool {
	return slices.EqualFunc(r.entries, entries, func(p pattern, e Entry) bool {
		return p.key == e.Key && (p.any || p.value == e.Value)
	})
}

// ask maps a descriptor that fits. A check asks for all limits of the rule. A return is of the
// hits only: the call itself was made.
func (r *rule) ask(d *Descriptor) Ask {
	a := Ask{
		Mode: r.mode, Amounts: make(map[string]int64, len(r.amounts)),
		Entity: r.entity.name(d.Entries, entityName), Resource: r.resource.name(d.Entries, resourceName),
	}
	switch {
	case d.Returns:
		a.Mode = Return
	case r.mode == Settle:
		a.Lease = d.Entries[r.leaseEntry()].Value
	default:
		a.Within, a.Slots = r.within, r.slots
	}
	for _, take := range r.amounts {
		switch {
		case take.isHits:
			a.Amounts[take.limit] = d.Hits
		case d.Hits == 0 && a.Mode != Settle:
			a.Amounts[take.limit] = 0
		case a.Mode != Return:
			a.Amounts[take.limit] = take.tokens
		}
	}
	return a
}

// leaseKey is the key of the entry that has the lease, in descriptors of settlements.
const leaseKey = "lease"

// leaseEntry is the number of the entry that has the lease; -1 if there is none.
func (r *rule) leaseEntry() int {
	return slices.IndexFunc(r.entries, func(p pattern) bool { return p.any && p.key == leaseKey })
}

// String is the key with its value, as metrics of envoyproxy/ratelimit have it.
func (p pattern) String() string {
	if p.any {
		return p.key
	}
	return p.key + "_" + p.value
}
