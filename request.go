package limiter

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Request asks for tokens of a resource, or of several, on behalf of one entity.
type Request struct {
	// Entity is the consumer. It need not have been created.
	Entity string
	// Resource is the thing consumed, "gpt-4" for instance.
	Resource string
	// Consume maps limit names to tokens, from 0 to [MaxTokens]. An amount of 0
	// declares a limit for a later [Lease.Adjust] and is always admitted. A request
	// names at least one limit, and at most [MaxLimits] for the entity and as many for
	// its parent.
	Consume map[string]int64
	// Fallback is the last level of limits. They hold only where no level of the
	// configuration has limits for the resource and the entity. They hold only for the
	// entity's own bucket, never for its parent's. They do not override configured
	// limits, and they remove no limit from a bucket.
	//
	// The bucket gets those of these limits that it lacks, full. If two requests bring
	// the same limit with different parameters, the later request's parameters hold. A
	// balance is trimmed to a lower capacity and never raised. Without Fallback, a
	// request for limits that no level configures is [ErrNotConfigured].
	Fallback []Limit
	// Also has what the request asks of further resources. The request is admitted for all
	// its resources or for none, and gets one lease: [Lease.Resource] has the part of each.
	// It names at most [MaxResources] resources, none twice. Parents do not count. Each part names
	// tokens, slots or both.
	Also []Part
	// Slots maps names of limits to slots that the request holds until its lease ends: how
	// many requests run at a time, see [Slots]. They are of the request's own resource. A request
	// that names slots need not name tokens. It gets all slots and tokens of all its resources, or
	// none.
	Slots map[string]int64
	// SlotFallback is as Fallback, for Slots: it holds where no level of the configuration has
	// slots for the resource and the entity.
	SlotFallback []SlotLimit
	// ClampPercent, if not 0, cuts what the acquire takes of each limit to that part of its
	// capacity, in percent from 1 to 100, rounded down, and at least a token. So no estimate holds a
	// whole limit. The rest is an adjustment of the lease, see [Lease.Clamped]: the commit takes it,
	// into debt if necessary, unless [Lease.Settle] says that less was used. Of an entity's limit
	// and its parent's, the smaller capacity counts.
	ClampPercent int
	// OnUnavailable, if not "", overrides the system's configuration.
	OnUnavailable OnUnavailable
}

// A Part is what a [Request] asks of one further resource.
type Part struct {
	// Resource, Consume and Fallback are as in a Request, for this resource.
	Resource string
	Consume  map[string]int64
	Fallback []Limit
	// Slots and SlotFallback are as in a Request, for this resource.
	Slots        map[string]int64
	SlotFallback []SlotLimit
}

// op names an operation on a request, for errors.
func (r *Request) op(verb string) string {
	if n := len(r.Also); n > 0 {
		return fmt.Sprintf("%s %s and %d more for %s", verb, r.Resource, n, r.Entity)
	}
	return verb + " " + r.Resource + " for " + r.Entity
}

// own is what a request asks of its own resource.
func (r *Request) own() Part {
	return Part{r.Resource, r.Consume, r.Fallback, r.Slots, r.SlotFallback}
}

// holds reports whether the request names slots.
func (r *Request) holds() bool {
	return len(r.Slots) > 0 || slices.ContainsFunc(r.Also, func(p Part) bool { return len(p.Slots) > 0 })
}

// parts yields what a request asks of each resource, first of its own.
func (r *Request) parts() iter.Seq[Part] {
	return func(yield func(Part) bool) {
		if !yield(r.own()) {
			return
		}
		for i := range r.Also {
			if !yield(r.Also[i]) {
				return
			}
		}
	}
}

// clone returns a copy that may outlive the call.
func (r *Request) clone() Request {
	c := *r
	c.Consume, c.Fallback, c.Also = maps.Clone(r.Consume), slices.Clone(r.Fallback), slices.Clone(r.Also)
	c.Slots, c.SlotFallback = maps.Clone(r.Slots), slices.Clone(r.SlotFallback)
	for i := range c.Also {
		p := &c.Also[i]
		p.Consume, p.Fallback = maps.Clone(p.Consume), slices.Clone(p.Fallback)
		p.Slots, p.SlotFallback = maps.Clone(p.Slots), slices.Clone(p.SlotFallback)
	}
	return c
}

// Validate reports the first invalid field, as a [*ValidationError]. Only the acquire
// finds out whether the bucket has the limits.
func (r *Request) Validate() error {
	if err := store.CheckEntity(r.Entity); err != nil {
		return err
	}
	if err := r.OnUnavailable.Validate(); err != nil {
		return err
	}
	if err := r.validateClamp(); err != nil {
		return err
	}
	own := r.own()
	if err := own.validate(); err != nil || len(r.Also) == 0 {
		return err
	}
	return r.validateAlso()
}

// validateClamp checks to what part of a capacity a request is cut.
func (r *Request) validateClamp() error {
	const all = 100
	if r.ClampPercent < 0 || r.ClampPercent > all {
		return &ValidationError{Field: "clamp percent", Value: strconv.Itoa(r.ClampPercent), Reason: "give from 1 to 100 percent of the capacity, or 0 for no clamp"}
	}
	return nil
}

// validateSlots checks what the part asks for of slots.
func (p *Part) validateSlots() error {
	if len(p.Slots) > MaxLimits {
		return &ValidationError{Field: "slots", Value: strconv.Itoa(len(p.Slots)), Reason: fmt.Sprintf("name at most %d limits", MaxLimits)}
	}
	for name, n := range p.Slots {
		if err := store.CheckLimitName(name); err != nil {
			return err
		}
		if n < 1 || n > store.MaxSlots {
			return &ValidationError{
				Field: "slots of " + name, Value: strconv.FormatInt(n, 10), Reason: fmt.Sprintf("give from 1 to %d slots", store.MaxSlots),
			}
		}
	}
	return store.ValidateSlots(p.SlotFallback)
}

// validateAlso checks the further parts. The reason names the resource, and the field does
// not: a client may have chosen the name.
func (r *Request) validateAlso() error {
	if n := 1 + len(r.Also); n > MaxResources {
		return &ValidationError{
			Field: "also", Value: strconv.Itoa(n),
			Reason: fmt.Sprintf("name at most %d resources in one request; make several requests for more", MaxResources),
		}
	}
	named := map[string]bool{r.Resource: true}
	for i := range r.Also {
		p := &r.Also[i]
		if named[p.Resource] {
			return &ValidationError{Field: "also", Value: p.Resource, Reason: "name each resource once; add the amounts up"}
		}
		named[p.Resource] = true
		if err := p.validate(); err != nil {
			if e, ok := errors.AsType[*ValidationError](err); ok {
				e.Field, e.Reason = "also: "+e.Field, fmt.Sprintf("for %.50q, %s", p.Resource, e.Reason)
			}
			return err
		}
	}
	return nil
}

// validate reports the first invalid field.
func (p *Part) validate() error {
	if len(p.Slots) > 0 {
		if err := p.validateSlots(); err != nil {
			return err
		}
	}
	if err := store.CheckResource(p.Resource); err != nil {
		return err
	}
	if len(p.Consume) == 0 && len(p.Slots) == 0 {
		return &ValidationError{Field: "consume", Value: "", Reason: "name at least one limit; an amount of 0 declares it"}
	}
	if len(p.Consume) > 2*MaxLimits {
		return &ValidationError{
			Field: "consume", Value: strconv.Itoa(len(p.Consume)),
			Reason: fmt.Sprintf("name at most %d limits: an entity has up to %d, and its parent as many", 2*MaxLimits, MaxLimits),
		}
	}
	for name, tokens := range p.Consume {
		if err := store.CheckLimitName(name); err != nil {
			return err
		}
		if tokens < 0 || tokens > MaxTokens {
			return &ValidationError{
				Field: "consume " + name, Value: strconv.FormatInt(tokens, 10),
				Reason: fmt.Sprintf("give from 0 to %d tokens; the lease that took tokens returns them, by Release or Adjust", int64(MaxTokens)),
			}
		}
	}
	if err := store.ValidateLimits(p.Fallback); err != nil {
		if e, ok := errors.AsType[*ValidationError](err); ok && e.Field == "limits" {
			e.Field = "fallback"
		}
		return err
	}
	return nil
}

// escape begins the two hexadecimal digits of an encoded byte. It begins with a letter,
// because an ID must, and is rare in IDs.
const escape = "Z_"

const hexDigits = "0123456789ABCDEF"

// EncodeName makes an entity's ID of any name. Identity providers give names that
// are no IDs, "auth0|5f7c" or "alice+test@example.com" for instance.
//
// Letters, digits and "_.-:@" stay as they are. Any other byte becomes "Z_" and its two
// hexadecimal digits in upper case: "auth0Z_7C5f7c". So does a first byte that is no letter
// or digit, and a "Z" that would otherwise look like the beginning of an encoded byte.
// Every valid ID without "Z_" and two such digits is its own encoding.
//
// Different names have different encodings, and [DecodeName] reverses them. An encoding is a
// valid ID if the name is not empty and the encoding is not too long. Names of at most 64
// bytes never are.
func EncodeName(name string) string {
	kept := 0 // the first bytes that stay as they are
	for kept < len(name) && !needsEscape(name, kept) {
		kept++
	}
	if kept == len(name) {
		return name
	}
	var b strings.Builder
	b.Grow(len(name) + len(name)/2 + 8)
	b.WriteString(name[:kept])
	for i := kept; i < len(name); i++ {
		c := name[i]
		if !needsEscape(name, i) {
			b.WriteByte(c)
			continue
		}
		b.WriteString(escape)
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	return b.String()
}

// plainBytes are those that stay as they are: at the beginning of an ID, and later.
type plainBytes struct{ first, later [256]bool }

var plain = sync.OnceValue(func() *plainBytes {
	p := &plainBytes{}
	for c := range p.first {
		one := string([]byte{byte(c)}) //nolint:gosec // it is less than 256
		p.first[c], p.later[c] = store.CheckEntity(one) == nil, store.CheckEntity("a"+one) == nil
	}
	return p
})

// needsEscape reports whether EncodeName encodes the byte at an index.
func needsEscape(name string, i int) bool {
	switch c := name[i]; {
	case c == escape[0]:
		_, is := escapedAt(name, i)
		return is
	case i == 0:
		return !plain().first[c]
	default:
		return !plain().later[c]
	}
}

// escapedAt returns the byte that is encoded at an index, if one is.
func escapedAt(s string, i int) (c byte, ok bool) {
	const size = len(escape) + 2
	if len(s)-i < size || s[i:i+len(escape)] != escape {
		return 0, false
	}
	high, low := strings.IndexByte(hexDigits, s[i+size-2]), strings.IndexByte(hexDigits, s[i+size-1])
	return byte(high<<4 | low), high >= 0 && low >= 0 //nolint:gosec // two digits make a byte
}

// DecodeName returns the name of which [EncodeName] made an ID. It fails with a
// [*ValidationError] if EncodeName makes that ID of no name.
func DecodeName(id string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		if c, ok := escapedAt(id, i); ok {
			b.WriteByte(c)
			i += len(escape) + 1
			continue
		}
		b.WriteByte(id[i])
	}
	if name := b.String(); EncodeName(name) == id {
		return name, nil
	}
	return "", &ValidationError{Field: "encoded name", Value: id, Reason: "EncodeName makes this of no name; give an ID that it has made"}
}
