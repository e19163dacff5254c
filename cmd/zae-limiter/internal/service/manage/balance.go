package manage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// A Balance is a [limiter.Balance] in JSON: the status with respect to one token.
type Balance struct {
	decide.Status
	// FullAfter is the least time until the limit is full; null is for ever.
	FullAfter *int64 `json:"full_after_ms"`
	// Used is the share of the capacity that is used: 1 for an empty limit, more in debt.
	Used float64 `json:"used"`
	// Pending says that the bucket still has the former limit. The next acquire brings it the
	// new one, and the waits count from then.
	Pending bool `json:"pending"`
	// Shadowed is how many tokens a limit in shadow would have refused.
	Shadowed int64 `json:"shadowed,omitempty"`
	// ShadowedAt is when a limit in shadow would have refused a request last.
	ShadowedAt *time.Time `json:"shadowed_at,omitempty"`
}

// BalancesOf are balances in JSON.
func BalancesOf(balances []limiter.Balance) []Balance {
	views := make([]Balance, len(balances))
	for i := range balances {
		b := &balances[i]
		views[i] = Balance{decide.StatusOf(&b.Status), decide.Millis(b.FullAfter), b.Used, b.Pending, b.Shadowed, nil}
		if !b.ShadowedAt.IsZero() {
			views[i].ShadowedAt = &b.ShadowedAt
		}
	}
	return views
}

// A Standing is a [limiter.Standing] in JSON.
type Standing struct {
	Entity        string                `json:"entity_id"`
	Resource      string                `json:"resource"`
	Level         limiter.Level         `json:"level"`
	Disabled      bool                  `json:"disabled"`                 // an operator has switched the resource off for the entity
	Bypassed      bool                  `json:"bypassed,omitempty"`       // an operator has lifted the limits: everything is admitted, and counted
	DisabledBy    *limiter.Level        `json:"disabled_by,omitempty"`    // level that does one of both; none if only the bucket says so
	SwitchEndsAt  *time.Time            `json:"switch_ends_at,omitempty"` // when that ends by itself
	Shards        int                   `json:"shards"`
	OnUnavailable limiter.OnUnavailable `json:"on_unavailable,omitempty"`
	Limits        []Balance             `json:"limits"`
	Slots         []SlotUse             `json:"slots,omitempty"` // how many requests run at a time, and who holds these slots
	Parent        *Standing             `json:"parent"`          // standing of the parent that the entity cascades to; null without one

	is *limiter.Standing
}

// Is the standing as the limiter has it.
func (v *Standing) Is() *limiter.Standing { return v.is }

// StandingOf is a standing as a document; nil if there is none. on is what an outage does, "" if that is not known.
func StandingOf(s *limiter.Standing, on limiter.OnUnavailable) *Standing {
	if s == nil {
		return nil
	}
	v := &Standing{
		Entity: s.Entity, Resource: s.Resource, Level: s.Level, Disabled: s.Disabled, Bypassed: s.Bypassed, Shards: s.Shards, OnUnavailable: on,
		Limits: BalancesOf(s.Limits), Slots: SlotUsesOf(s.Slots), Parent: StandingOf(s.Parent, on), is: s,
	}
	if s.Disabled || s.Bypassed {
		v.DisabledBy = &s.DisabledBy
	}
	if !s.DisabledUntil.IsZero() {
		until := s.DisabledUntil.UTC()
		v.SwitchEndsAt = &until
	}
	return v
}

// GetStanding reads every limit of an entity for a resource, and of its parent, and what an outage does.
func GetStanding(ctx context.Context, l *limiter.Limiter, entity, resource string) (*Standing, error) {
	s, err := l.Standing(ctx, entity, resource)
	if err != nil {
		return nil, err
	}
	limits, err := l.Limits(ctx, entity, resource)
	if err != nil {
		return nil, err
	}
	return StandingOf(s, limits.OnUnavailable), nil
}

// A SlotUse is a [limiter.SlotUse] in JSON.
type SlotUse struct {
	Entity   string        `json:"entity_id"`
	Resource string        `json:"resource"`
	Limit    string        `json:"limit_name"`
	Slots    *int64        `json:"slots"` // how many there are; null if no level says so, and requests bring them
	Level    limiter.Level `json:"level"`
	Held     int64         `json:"held"`    // slots of all holders
	Waiting  int64         `json:"waiting"` // slots that their callers wait for
	Used     float64       `json:"used"`    // share that is held, 1 for all
	Holders  []Holder      `json:"holders"` // processes, those that hold most first
}

// A Holder is a [limiter.SlotHolder] in JSON.
type Holder struct {
	Process   string    `json:"process"`             // name that a process gives to itself, or of a lease
	IsLease   bool      `json:"is_lease,omitempty"`  // it is a lease that was written down: nobody renews it
	Held      int64     `json:"held"`                // slots that it has for requests, and keeps for the next ones
	Waiting   int64     `json:"waiting"`             // slots that its callers wait for
	RenewedAt time.Time `json:"renewed_at,omitzero"` // when the process last wrote that it is alive
	LeaseEnd  time.Time `json:"lease_end_at"`        // how long it may hold the slots without writing again
	Gone      bool      `json:"gone"`                // it did not, and whoever next wants slots takes them back
}

// SlotUsesOf are uses of slots in JSON.
func SlotUsesOf(uses []limiter.SlotUse) []SlotUse {
	views := make([]SlotUse, len(uses))
	for i := range uses {
		u := &uses[i]
		v := SlotUse{
			Entity: u.Entity, Resource: u.Resource, Limit: u.Limit.Name, Level: u.Level, Slots: orNull(u.Limit.Slots), Held: u.Held, Waiting: u.Waiting, Used: u.Used,
			Holders: make([]Holder, len(u.Holders)),
		}
		for j, h := range u.Holders {
			v.Holders[j] = Holder{h.Process, h.IsLease, h.Held, h.Waiting, h.RenewedAt.UTC(), h.LeaseEnd.UTC(), h.Gone}
		}
		views[i] = v
	}
	return views
}

// Slots are those of an entity for a resource in JSON.
type Slots struct {
	Entity   string    `json:"entity_id"`
	Resource string    `json:"resource"`
	Slots    []SlotUse `json:"slots"`          // the limits of the entity, and then those of its parent
	Note     string    `json:"note,omitempty"` // why there are none

	uses []limiter.SlotUse
}

// Uses are the slots as the limiter has them.
func (v *Slots) Uses() []limiter.SlotUse { return v.uses }

// GetSlots reads which processes hold the slots of an entity for a resource, and those of its parent.
func GetSlots(ctx context.Context, l *limiter.Limiter, entity, resource string) (Slots, error) {
	s, err := l.Standing(ctx, entity, resource)
	if err != nil {
		return Slots{}, err
	}
	v := Slots{Entity: entity, Resource: resource}
	for side := s; side != nil; side = side.Parent {
		v.uses = append(v.uses, side.Slots...)
	}
	v.Slots = SlotUsesOf(v.uses)
	if len(v.uses) == 0 {
		v.Note = fmt.Sprintf("no level has slots of %s for %s: set some with zae-limiter resource set-slots", resource, entity)
	}
	return v, nil
}

// A TopQuery selects the most used limits, or slots.
type TopQuery struct {
	limiter.TopQuery
	// Above is the least part of the capacity that is used, in percent.
	Above float64
	// Slots asks for slots, and not for limits.
	Slots bool
}

// A Top is the most used limits in JSON.
type Top struct {
	Resource *string   `json:"resource"`
	Limits   []Balance `json:"limits"`          // the limits, the most used first; none with --slots
	Slots    []SlotUse `json:"slots,omitempty"` // with --slots, those that are held, the most used first
	Note     string    `json:"note,omitempty"`  // why there are none

	balances []limiter.Balance
	uses     []limiter.SlotUse
}

// Balances are the limits as the limiter has them.
func (v *Top) Balances() []limiter.Balance { return v.balances }

// Uses are the slots as the limiter has them.
func (v *Top) Uses() []limiter.SlotUse { return v.uses }

// percent is the whole of a share.
const percent = 100

// GetTop reads the most used limits or slots of a resource, or of all resources. namespace is named in
// notes.
func GetTop(ctx context.Context, l *limiter.Limiter, q TopQuery, namespace string) (Top, error) {
	v := Top{Resource: orNull(q.Resource)}
	if q.Slots {
		uses, err := l.TopSlots(ctx, q.TopQuery)
		if err != nil {
			return v, err
		}
		v.uses = slices.DeleteFunc(slices.Clone(uses), func(u limiter.SlotUse) bool { return percent*u.Used < q.Above })
		v.Limits, v.Slots, v.Note = []Balance{}, SlotUsesOf(v.uses), q.note(len(uses), len(v.uses), namespace)
		return v, nil
	}
	top, err := l.Top(ctx, q.TopQuery)
	if err != nil {
		return v, err
	}
	v.balances = slices.DeleteFunc(slices.Clone(top), func(b limiter.Balance) bool { return percent*b.Used < q.Above })
	v.Limits, v.Note = BalancesOf(v.balances), q.note(len(top), len(v.balances), namespace)
	return v, nil
}

// note says why there is nothing of what was found; "" if there is something.
func (q *TopQuery) note(found, left int, namespace string) string {
	switch {
	case left > 0:
		return ""
	case found > 0 && q.Slots:
		return fmt.Sprintf("of no slots as much as %v%% is held", q.Above)
	case found > 0:
		return fmt.Sprintf("of no limit as much as %v%% is used", q.Above)
	case q.Slots && q.Resource == "":
		return "nobody holds slots in namespace " + namespace
	case q.Slots:
		return fmt.Sprintf("nobody holds slots of resource %s in namespace %s", q.Resource, namespace)
	case q.Shadow:
		return "no limit in shadow would have refused anything"
	case q.Resource == "":
		return fmt.Sprintf("no entity of namespace %s has a bucket: nobody has acquired anything lately", namespace)
	}
	return fmt.Sprintf("no entity of namespace %s has a bucket of resource %s: it is spelled otherwise (see zae-limiter resource list), or nobody has acquired it lately", namespace, q.Resource)
}
