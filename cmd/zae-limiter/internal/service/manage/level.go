package manage

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Level is one level of configuration.
type Level struct {
	Entity   string  `json:"entity_id,omitempty"`
	Resource string  `json:"resource,omitempty"`
	Limits   []Limit `json:"limits"`
	// Slots are how many requests run at a time, by the names of the limits.
	Slots         map[string]int64      `json:"slots,omitempty"`
	OnUnavailable limiter.OnUnavailable `json:"on_unavailable,omitempty"`
	// Disabled is true if the level disables its buckets, and false if it enables them
	// whatever later levels disable.
	Disabled *bool `json:"disabled,omitempty"`
	// Bypassed says that the level's buckets admit everything, and only count it.
	Bypassed bool `json:"bypassed,omitempty"`
	// SwitchEndsAt is when that ends by itself.
	SwitchEndsAt *time.Time `json:"switch_ends_at,omitempty"`
	// Cascade is whether the level's buckets cascade, whatever later levels say.
	Cascade *bool `json:"cascade,omitempty"`
	// Unsupported is a feature of a peer that the limits use.
	Unsupported string `json:"unsupported,omitempty"`
	// Buckets counts the updated buckets, if the limits have just been set.
	Buckets *Buckets `json:"buckets,omitempty"`
	// Unconfigured are limits that do not hold, because another level holds, if the limits
	// have just been set.
	Unconfigured []Unconfigured `json:"unconfigured,omitempty"`
	// DryRun says that nothing was changed: the level would be so.
	DryRun bool `json:"dry_run,omitempty"`

	stored *store.Config
}

// Stored is the level as the table has it.
func (l *Level) Stored() *store.Config { return l.stored }

// LevelOf is a level as a document.
func LevelOf(k store.ConfigKey, c *store.Config) Level {
	l := Level{
		Entity: k.Entity, Resource: k.Resource, Limits: LimitsOf(c.Limits), Slots: limitarg.SlotNumbers(c.Slots),
		OnUnavailable: c.OnUnavailable, Cascade: manifest.BoolOf(c.Cascade), Unsupported: c.Features.Unsupported().String(), stored: c,
	}
	l.Disabled, l.Bypassed, l.SwitchEndsAt = SwitchOf(c.Disabled)
	return l
}

// Tag is the entity tag of a level: another one if anything else is configured there.
func (l *Level) Tag() string {
	is := *l
	is.Buckets, is.Unconfigured, is.DryRun = nil, nil, false
	return tagOf(is)
}

// tagOf is the entity tag of a document.
func tagOf(document any) string {
	sum := sha256.New()
	if err := Encode(sum, document); err != nil {
		panic(err) // these types have nothing that cannot be encoded
	}
	const bytes = 12
	return `"` + hex.EncodeToString(sum.Sum(nil)[:bytes]) + `"`
}

// A Limit is a limit in JSON. Its field Limit has the form that the flag --limit accepts.
type Limit struct {
	Limit string `json:"limit"`
	Name  string `json:"limit_name"`
	limitarg.Parameters
}

// LimitsOf are limits in JSON.
func LimitsOf(limits []store.Limit) []Limit {
	all := make([]Limit, len(limits))
	for i, l := range limits {
		all[i] = Limit{limitarg.Format(l), l.Name, limitarg.ParametersOf(l)}
	}
	return all
}

// SwitchOf is the switch of a level in JSON. A level that is bypassed is not disabled.
func SwitchOf(s store.Switch) (disabled *bool, bypassed bool, until *time.Time) {
	if s.Policy != store.Inherit && s.Until != 0 {
		t := time.UnixMilli(s.Until).UTC()
		until = &t
	}
	return manifest.BoolOf(s.Policy), s.Policy == store.Bypass, until
}

// An Unconfigured is a warning in JSON: limits do not hold, because another level holds.
type Unconfigured struct {
	Limits []string `json:"limit_names"` // names of the limits
	From   LevelKey `json:"from_level"`  // level that has them, or had them
	To     LevelKey `json:"to_level"`    // level that holds instead, and lacks them
}

// A LevelKey names a level of configuration in JSON; the system's is empty.
type LevelKey struct {
	Entity   string `json:"entity_id,omitempty"`
	Resource string `json:"resource,omitempty"`
}

// UnconfiguredOf are warnings in JSON.
func UnconfiguredOf(ended []store.UnconfiguredWarning) []Unconfigured {
	all := make([]Unconfigured, len(ended))
	for i, w := range ended {
		all[i] = Unconfigured{[]string{}, LevelKey(w.From), LevelKey(w.To)}
		for _, l := range w.Limits {
			all[i].Limits = append(all[i].Limits, l.Name)
		}
	}
	return all
}
