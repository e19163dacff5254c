package manifest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultName is the name of a manifest that gives none. The Python peer has one record
// of ownership for each namespace; it is the record of this name.
const DefaultName = dynamo.DefaultManifest

// defaultPeriod is the refill period of a limit that gives none, in seconds.
const defaultPeriod = 60

// A Manifest declares levels of configuration of one namespace.
type Manifest struct {
	// Name is the owner of the declared levels.
	Name string
	// Namespace is the name of the namespace.
	Namespace string
	// Levels are the declared levels.
	Levels map[store.ConfigKey]Level
}

// A Level is what a manifest declares of a level. What it does not declare stays as it
// is: the limits, or OnUnavailable of the system level. A switch, too, unless the manifest has
// set it.
type Level struct {
	Limits        []store.Limit // by name
	OnUnavailable store.OnUnavailable
	// Disabled is the switch of a level of a resource or an entity. Once it has ended, it
	// declares nothing.
	Disabled store.Switch
}

// Keys are the declared levels in order: the system's, the resources' by name, the
// entities' by name and resource.
func (m *Manifest) Keys() []store.ConfigKey {
	return slices.SortedFunc(maps.Keys(m.Levels), compareKeys)
}

func compareKeys(a, b store.ConfigKey) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource))
}

// Hash identifies the manifest's content, however the file spells it.
func (m *Manifest) Hash() string {
	text, _ := json.Marshal(m.document()) // a document always has a JSON form
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// pending is the digest of a level whose change may not be complete.
const pending = "?"

// digestBytes is how much of a hash a digest keeps. It tells two states of one level
// apart, so that a collision is as unlikely as it needs to be.
const digestBytes = 6

// digest identifies what a level was set to: the limits, or "-" if they were not set,
// and, after a "+", what to do in an outage, and after a "!", the switch.
func (l Level) digest() string {
	d := "-"
	if len(l.Limits) > 0 {
		d = digestOf(l.Limits)
	}
	if l.OnUnavailable != "" {
		d += "+" + string(l.OnUnavailable)
	}
	return d + switchDigest(l.Disabled)
}

// digested is a limit in a digest. A rate has the form that it always had, so that digests in
// tables stay what they are.
type digested struct {
	Name             string
	Capacity, Amount int64
	Period           time.Duration
	Renews, Zone     string `json:",omitempty"`
	Varies           string `json:",omitempty"`
	Soft             bool   `json:",omitempty"`
}

func digestOf(limits []store.Limit) string {
	all := make([]digested, len(limits))
	for i, l := range limits {
		all[i] = digested{Name: l.Name, Capacity: l.Capacity, Amount: l.Amount, Period: l.Period, Soft: l.Soft}
		if l.Renews != nil {
			all[i].Renews, all[i].Zone = l.Renews.String(), l.Renews.Zone()
		}
		if l.Varies != nil {
			all[i].Varies, all[i].Zone = l.Varies.String(), l.Varies.Zone()
		}
	}
	text, _ := json.Marshal(all) // it always has a JSON form
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:digestBytes])
}

// drifted reports whether a level was changed since it was set to what digest
// identifies. It is false where the digest tells nothing.
func drifted(digest string, found *store.Config, now time.Time) bool {
	digest, set := cutSwitch(digest)
	if digest == "" || digest == pending {
		return false
	}
	if found == nil {
		return true
	}
	limits, on, hasOn := strings.Cut(digest, "+")
	return limits != "-" && (found.Features != 0 || limits != digestOf(found.Limits)) || hasOn && on != string(found.OnUnavailable) ||
		set.At(now.UnixMilli()) != store.Inherit && set != found.Disabled
}

// holds reports whether found is as l declares at an instant.
func (l Level) holds(found *store.Config, now time.Time) bool {
	if found == nil {
		return false
	}
	if s := l.switchAt(now); s.Policy != store.Inherit && s != found.Disabled {
		return false
	}
	return (len(l.Limits) == 0 || found.Features == 0 && slices.Equal(l.Limits, found.Limits)) &&
		(l.OnUnavailable == "" || l.OnUnavailable == found.OnUnavailable)
}

// A document is the form of a manifest in a file.
type document struct {
	Name      string                    `json:"name,omitempty" yaml:"name,omitempty"`
	Namespace string                    `json:"namespace" yaml:"namespace"`
	System    *levelDocument            `json:"system,omitempty" yaml:"system,omitempty"`
	Resources map[string]*levelDocument `json:"resources,omitempty" yaml:"resources,omitempty"`
	Entities  map[string]entityDocument `json:"entities,omitempty" yaml:"entities,omitempty"`
}

type entityDocument struct {
	Resources map[string]*levelDocument `json:"resources" yaml:"resources"`
}

type levelDocument struct {
	OnUnavailable string                   `json:"on_unavailable,omitempty" yaml:"on_unavailable,omitempty"`
	Disabled      any                      `json:"disabled,omitempty" yaml:"disabled,omitempty"`
	Until         string                   `json:"until,omitempty" yaml:"until,omitempty"`
	Limits        map[string]limitDocument `json:"limits,omitempty" yaml:"limits,omitempty"`
}

// A limitDocument is a limit as the Python package writes it; in words if it is a quota that the
// package cannot evaluate.
type limitDocument struct {
	Capacity      int64           `json:"capacity,omitempty" yaml:"capacity,omitempty"`
	RefillAmount  int64           `json:"refill_amount,omitempty" yaml:"refill_amount,omitempty"`
	RefillPeriod  int64           `json:"refill_period,omitempty" yaml:"refill_period,omitempty"`
	Schedule      []entryDocument `json:"schedule,omitempty" yaml:"schedule,omitempty"`
	ResetSchedule []resetDocument `json:"reset_schedule,omitempty" yaml:"reset_schedule,omitempty"`
	ResetAfter    int64           `json:"reset_after_seconds,omitempty" yaml:"reset_after_seconds,omitempty"`
	Quota         int64           `json:"quota,omitempty" yaml:"quota,omitempty"`
	Renews        string          `json:"renews,omitempty" yaml:"renews,omitempty"`
	Zone          string          `json:"zone,omitempty" yaml:"zone,omitempty"`
	Soft          bool            `json:"soft,omitempty" yaml:"soft,omitempty"`
}

// An entryDocument says when a limit has other parameters, and which.
type entryDocument struct {
	Cron         string  `json:"cron,omitempty" yaml:"cron,omitempty"`
	Until        string  `json:"until,omitempty" yaml:"until,omitempty"`
	Zone         string  `json:"tz" yaml:"tz"`
	Scale        float64 `json:"scale,omitempty" yaml:"scale,omitempty"`
	Capacity     int64   `json:"capacity,omitempty" yaml:"capacity,omitempty"`
	RefillAmount int64   `json:"refill_amount,omitempty" yaml:"refill_amount,omitempty"`
	RefillPeriod int64   `json:"refill_period_seconds,omitempty" yaml:"refill_period_seconds,omitempty"`
}

// entriesOf are the entries of a schedule, none if there is none.
func entriesOf(s *store.Schedule) (entries []entryDocument) {
	if s == nil {
		return nil
	}
	for _, c := range s.Changes() {
		entries = append(entries, entryDocument{c.Cron, endOf(c), s.Zone(), float64(c.Permille) / 1000, c.Capacity, c.Amount, c.Seconds})
	}
	return entries
}

// endOf is when an entry ends by itself, "" if it does not.
func endOf(c store.ScheduleEntry) string {
	if c.Until == 0 {
		return ""
	}
	return time.UnixMilli(c.Until).UTC().Format(time.RFC3339Nano)
}

// A resetDocument says when a quota renews.
type resetDocument struct {
	Cron string `json:"cron" yaml:"cron"`
	Zone string `json:"tz" yaml:"tz"`
}

func documentOf(l *store.Limit) limitDocument {
	if l.Renews == nil {
		return limitDocument{Capacity: l.Capacity, RefillAmount: l.Amount, RefillPeriod: int64(l.Period / time.Second), Schedule: entriesOf(l.Varies), Soft: l.Soft}
	}
	if session := l.Renews.Session(); session != 0 {
		return limitDocument{Capacity: l.Capacity, ResetAfter: session / 1000, Soft: l.Soft}
	}
	patterns, zone := l.Renews.Patterns(), l.Renews.Zone()
	if len(patterns) == 0 {
		return limitDocument{Quota: l.Capacity, Renews: l.Renews.String(), Zone: zone, Soft: l.Soft}
	}
	d := limitDocument{Capacity: l.Capacity, Soft: l.Soft}
	for _, pattern := range patterns {
		d.ResetSchedule = append(d.ResetSchedule, resetDocument{pattern, zone})
	}
	return d
}

func (m *Manifest) document() document {
	d := document{Namespace: m.Namespace, Resources: map[string]*levelDocument{}, Entities: map[string]entityDocument{}}
	if m.Name != DefaultName {
		d.Name = m.Name
	}
	for k, l := range m.Levels {
		switch {
		case k.Entity != "":
			of, ok := d.Entities[k.Entity]
			if !ok {
				of = entityDocument{map[string]*levelDocument{}}
				d.Entities[k.Entity] = of
			}
			of.Resources[k.Resource] = l.document()
		case k.Resource != "":
			d.Resources[k.Resource] = l.document()
		default:
			d.System = l.document()
		}
	}
	return d
}

func (l Level) document() *levelDocument {
	d := &levelDocument{OnUnavailable: string(l.OnUnavailable), Limits: map[string]limitDocument{}}
	for i := range l.Limits {
		d.Limits[l.Limits[i].Name] = documentOf(&l.Limits[i])
	}
	d.Disabled, d.Until = l.Switch()
	return d
}
