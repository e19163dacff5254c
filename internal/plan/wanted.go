package plan

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// Wanted is what a bucket is to be: the configuration that holds for it, and what its
// items copy of the entity's record. It is immutable.
//
// A process remembers the last wanted, and every request compares its images with
// that. An image that differs proves nothing: the item may follow a change that this
// process has not read yet. So once a request has the image, it reads the configuration
// again, consistently. It writes parameters only if the image still differs, and on
// condition that the item is as the image shows it:
//
//	operator    ── sets 10 ─▶ configuration            ── sets 10 ─▶ item
//	client        image: 100 ─▶ differs from 50 ─▶ reads 10 ─▶ writes 10, or finds it written
//
// A write that rests on an older configuration than the item's own cannot land: it is
// conditional on an image from before that configuration was read.
type Wanted struct {
	Limits   []store.Limit // by name; empty if no level configures limits
	Level    int           // the level of the limits, an index into [ConfigKeys]; [ConfigLevels] if no level has any or they came with a request
	Expires  bool          // whether the bucket expires when idle
	Owner    store.Owner
	Switches store.Switches
	Slots    []store.SlotLimit // of the first level that has any
	SlotsAt  int               // that level, as Level
	Features store.Features
	Read     time.Duration // when the read of the oldest level began, by the limiter's uptime
	Epoch    uint64        // the limiter's configuration epoch at that time
}

// Equals reports whether two reads had the same result, at the same time.
func (w *Wanted) Equals(other *Wanted) bool {
	return w.Read == other.Read && w.Epoch == other.Epoch && w.Owner == other.Owner && w.Level == other.Level &&
		w.Expires == other.Expires && w.Switches == other.Switches && w.Features == other.Features && slices.Equal(w.Limits, other.Limits) &&
		slices.Equal(w.Slots, other.Slots) && w.SlotsAt == other.SlotsAt
}

// IsEvaluable reports whether this version can evaluate all features of the limits.
func (w *Wanted) IsEvaluable() bool { return w.Features.Unsupported() == 0 }

// IsDisabled reports whether an operator has disabled the bucket, at an instant.
func (w *Wanted) IsDisabled(now int64) bool { return w.Switches.At(now).Disabled }

// IsUnlimited reports whether no level configures limits.
func (w *Wanted) IsUnlimited() bool { return len(w.Limits) == 0 && w.IsEvaluable() }

// IsWhole reports whether the bucket is to have exactly these limits. Limits that
// came with a request leave other limits of the bucket as they are.
func (w *Wanted) IsWhole() bool { return w.Level < ConfigLevels }

// Has reports whether the bucket is to have the named limit.
func (w *Wanted) Has(name string) bool { return w.Find(name) != nil }

// Find returns the wanted limit of a name; nil if there is none.
func (w *Wanted) Find(name string) *store.Limit { return Find(w.Limits, name) }

// Find returns the limit of a name; nil if there is none.
func Find(limits []store.Limit, name string) *store.Limit {
	for i := range limits {
		if limits[i].Name == name {
			return &limits[i]
		}
	}
	return nil
}

// Differs reports whether an item needs a repair at an instant to become what is wanted. An item
// or configuration that this version cannot evaluate needs none.
func (w *Wanted) Differs(img *store.Image, now int64) bool { return w.DiffersWith(w.Limits, img, now) }

// DiffersWith is differs for other wanted limits.
func (w *Wanted) DiffersWith(limits []store.Limit, img *store.Image, now int64) bool {
	if len(limits) == 0 || !w.IsEvaluable() || !img.IsEvaluable() {
		return false
	}
	found := 0
	for i := range img.Limits {
		s := &img.Limits[i]
		switch l := Find(limits, s.Name); {
		case l == nil && w.IsWhole():
			return true
		case l == nil:
		case !isAs(s, l):
			return true
		default:
			found++
		}
	}
	return found < len(limits) || w.Expires != (img.ExpiresAt != 0) || w.Owner != img.Owner() || w.differsInBypass(img, now)
}

// OtherZone is the error of a repair that gives an item calendars of one time zone and leaves
// it those of another: an item has one zone, so the repair would move the edges of those that
// it leaves. nil if the repair does not do that. Only limits that come with requests can.
func (w *Wanted) OtherZone(img *store.Image) error {
	for i := range img.Limits {
		s := &img.Limits[i]
		has := s.Zone()
		if has == "" || w.IsWhole() || w.Has(s.Name) {
			continue
		}
		for _, l := range w.Limits {
			if zone := l.Zone(); zone != "" && zone != has {
				return &store.ValidationError{
					Field: "limits", Value: l.Name + " in " + zone + ", " + s.Name + " in " + has,
					Reason: "the bucket has the second one from another request, and all quotas and schedules of a bucket have one time zone: give both in one zone",
				}
			}
		}
	}
	return nil
}

// NotConfigured is the error of a request for limits that a bucket is not to have.
func (w *Wanted) NotConfigured(b *store.Bucket, missing []string) *store.NotConfiguredError {
	e := &store.NotConfiguredError{Entity: b.Entity, Resource: b.Resource, Limits: missing}
	for i := range w.Limits {
		e.Known = append(e.Known, w.Limits[i].Name)
	}
	if w.IsWhole() {
		e.Level = ConfigKeys(b.Entity, b.Resource)[w.Level].String()
	}
	return e
}

// ConfigLevels is the number of levels at which limits may be configured.
const ConfigLevels = 4

// ConfigKeys returns the levels of an entity's configuration for a resource. The
// first level with limits wins.
func ConfigKeys(entity, resource string) [ConfigLevels]store.ConfigKey {
	return [ConfigLevels]store.ConfigKey{
		{Entity: entity, Resource: resource},
		{Entity: entity, Resource: store.DefaultResource},
		{Resource: resource},
		{},
	}
}

// EntityLevels is how many of the first levels are the entity's own. A bucket that
// they configure is kept for ever; other buckets expire when idle.
const EntityLevels = 2

// SlotsOf is how many slots the limit of a name has; 0 if there is none.
func SlotsOf(limits []store.SlotLimit, name string) int64 {
	for _, l := range limits {
		if l.Name == name {
			return l.Slots
		}
	}
	return 0
}

// LimitsOf are limits as they are for an entity, see [store.Limit.Of].
func LimitsOf(entity string, limits []store.Limit) []store.Limit {
	if !slices.ContainsFunc(limits, func(l store.Limit) bool { return l.Percent != 0 }) {
		return limits
	}
	own := slices.Clone(limits)
	for i := range own {
		own[i] = own[i].Of(entity)
	}
	return own
}
