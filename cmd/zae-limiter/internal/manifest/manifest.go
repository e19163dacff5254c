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
	// Levels are the declared levels. An entity without a resource is the entity's record.
	Levels map[store.ConfigKey]Level
	// Source is where the manifest was read.
	Source Source
}

// A Level is what a manifest declares of a level. What it does not declare stays as it
// is: the limits, or OnUnavailable of the system level. Policies, too, unless the manifest has
// set them.
type Level struct {
	Limits        []store.Limit // by name
	OnUnavailable store.OnUnavailable
	Policies
	// Parent is the parent of an entity's record, "" for none; nil if it is not declared.
	Parent *string
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
// and, after a "+", what to do in an outage, and the policies. Of an entity's record it has,
// after a ">", the parent.
func (l Level) digest() string {
	d := "-"
	if len(l.Limits) > 0 {
		d = digestOf(l.Limits)
	}
	if l.Parent != nil {
		d = parentMark + *l.Parent
	}
	if l.OnUnavailable != "" {
		d += "+" + string(l.OnUnavailable)
	}
	return d + l.Policies.digest()
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
	Mode             string `json:",omitempty"`
	Returns          int    `json:",omitempty"`
	Rollover         int64  `json:",omitempty"`
	Debt             bool   `json:",omitempty"`
}

func digestOf(limits []store.Limit) string {
	all := make([]digested, len(limits))
	for i, l := range limits {
		all[i] = digested{Name: l.Name, Capacity: l.Capacity, Amount: l.Amount, Period: l.Period, Soft: l.Soft, Mode: modeOf(&l), Returns: l.Returns, Rollover: l.Carries.Rollover, Debt: l.Carries.Debt}
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
	digest, set := cutPolicies(digest)
	if digest == "" || digest == pending {
		return false
	}
	if found == nil {
		return true
	}
	limits, on, hasOn := strings.Cut(digest, "+")
	return limits != "-" && (found.Features != 0 || limits != digestOf(found.Limits)) || hasOn && on != string(found.OnUnavailable) ||
		!set.at(now).hold(policiesOf(found))
}

// holds reports whether found is as l declares at an instant.
func (l Level) holds(found *store.Config, now time.Time) bool {
	return found != nil && l.at(now).hold(policiesOf(found)) &&
		(len(l.Limits) == 0 || found.Features == 0 && slices.Equal(l.Limits, found.Limits)) &&
		(l.OnUnavailable == "" || l.OnUnavailable == found.OnUnavailable)
}

// A document is the form of a manifest in a file.
type document struct {
	Name      string                     `json:"name,omitempty" yaml:"name,omitempty"`
	Namespace string                     `json:"namespace" yaml:"namespace"`
	System    *levelDocument             `json:"system,omitempty" yaml:"system,omitempty"`
	Resources map[string]*levelDocument  `json:"resources,omitempty" yaml:"resources,omitempty"`
	Entities  map[string]*entityDocument `json:"entities,omitempty" yaml:"entities,omitempty"`
}

type entityDocument struct {
	Parent    *string                   `json:"parent,omitempty" yaml:"parent,omitempty"`
	Cascade   *bool                     `json:"cascade,omitempty" yaml:"cascade,omitempty"`
	Resources map[string]*levelDocument `json:"resources,omitempty" yaml:"resources,omitempty"`
}

type levelDocument struct {
	OnUnavailable string                   `json:"on_unavailable,omitempty" yaml:"on_unavailable,omitempty"`
	Disabled      any                      `json:"disabled,omitempty" yaml:"disabled,omitempty"`
	Until         string                   `json:"until,omitempty" yaml:"until,omitempty"`
	Cascade       *bool                    `json:"cascade,omitempty" yaml:"cascade,omitempty"`
	Limits        map[string]limitDocument `json:"limits,omitempty" yaml:"limits,omitempty"`
	Slots         map[string]int64         `json:"slots,omitempty" yaml:"slots,omitempty"`
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
	Mode          string          `json:"mode,omitempty" yaml:"mode,omitempty"`
	Returns       int             `json:"returns,omitempty" yaml:"returns,omitempty"`
	Rollover      int64           `json:"rollover,omitempty" yaml:"rollover,omitempty"`
	CarryDebt     bool            `json:"carry_debt,omitempty" yaml:"carry_debt,omitempty"`
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

// modeOf is the mode of a limit as text, "" if it is enforced.
func modeOf(l *store.Limit) string {
	if l.Mode == store.Enforce {
		return ""
	}
	return l.ModeText()
}

func documentOf(l *store.Limit) limitDocument {
	if l.Renews == nil {
		return limitDocument{Capacity: l.Capacity, RefillAmount: l.Amount, RefillPeriod: int64(l.Period / time.Second), Schedule: entriesOf(l.Varies), Soft: l.Soft, Mode: modeOf(l), Returns: l.Returns}
	}
	if session := l.Renews.Session(); session != 0 {
		return limitDocument{Capacity: l.Capacity, ResetAfter: session / 1000, Schedule: entriesOf(l.Varies), Soft: l.Soft, Mode: modeOf(l), Returns: l.Returns}
	}
	patterns, zone := l.Renews.Patterns(), l.Renews.Zone()
	d := limitDocument{Schedule: entriesOf(l.Varies), Soft: l.Soft, Mode: modeOf(l), Returns: l.Returns, Rollover: l.Carries.Rollover, CarryDebt: l.Carries.Debt}
	if len(patterns) == 0 || l.Carries != (store.Carry{}) { // in words, if the package would not know it
		d.Quota, d.Renews, d.Zone = l.Capacity, l.Renews.String(), zone
		return d
	}
	d.Capacity = l.Capacity
	for _, pattern := range patterns {
		d.ResetSchedule = append(d.ResetSchedule, resetDocument{pattern, zone})
	}
	return d
}

func (m *Manifest) document() document {
	d := document{Namespace: m.Namespace, Resources: map[string]*levelDocument{}, Entities: map[string]*entityDocument{}}
	if m.Name != DefaultName {
		d.Name = m.Name
	}
	for k, l := range m.Levels {
		switch {
		case k.Entity != "":
			of, ok := d.Entities[k.Entity]
			if !ok {
				of = &entityDocument{Resources: map[string]*levelDocument{}}
				d.Entities[k.Entity] = of
			}
			if isRecord(k) {
				of.Parent, of.Cascade = l.Parent, BoolOf(l.Cascade)
				break
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
	d.Cascade, d.Slots = BoolOf(l.Cascade), l.SlotNumbers()
	return d
}
