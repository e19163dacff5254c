package app

import (
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
)

// A Level is the output form of one level of configuration.
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
	// Buckets counts the updated buckets, if the command has just set the limits.
	Buckets *Buckets `json:"buckets,omitempty"`
	// Unconfigured are limits that do not hold, because another level holds, if the command
	// has just set the limits.
	Unconfigured []Unconfigured `json:"unconfigured,omitempty"`
}

// A Limit is a limit in JSON. Its field Limit has the form that the flag --limit accepts.
type Limit struct {
	Limit string `json:"limit"`
	Name  string `json:"limit_name"`
	limitarg.Parameters
}

// LimitsOf are limits in JSON.
func LimitsOf(limits []limiter.Limit) []Limit {
	all := make([]Limit, len(limits))
	for i, l := range limits {
		all[i] = Limit{limitarg.Format(l), l.Name, limitarg.ParametersOf(l)}
	}
	return all
}

// PrintLevel writes a level of configuration, and the updated buckets and the limits that
// end if the command has just set it.
func (a *App) PrintLevel(k limiter.ConfigKey, c *limiter.Config, buckets *Buckets, ended []Unconfigured) error {
	return a.Print(shownLevel(k, c, buckets, ended))
}

// shownLevel is a level in JSON and as text, as [App.PrintLevel] writes it.
func shownLevel(k limiter.ConfigKey, c *limiter.Config, buckets *Buckets, ended []Unconfigured) (Level, func(*strings.Builder)) {
	level := Level{
		Entity: k.Entity, Resource: k.Resource,
		Limits: LimitsOf(c.Limits), OnUnavailable: c.OnUnavailable, Unsupported: c.Features.Unsupported().String(), Buckets: buckets, Unconfigured: ended,
	}
	level.Disabled, level.Bypassed, level.SwitchEndsAt = SwitchOf(c.Disabled)
	level.Cascade, level.Slots = manifest.BoolOf(c.Cascade), limitarg.SlotNumbers(c.Slots)
	rows := make([][]string, len(c.Limits))
	for i, l := range c.Limits {
		rows[i] = []string{l.Name, limitarg.Rate(l)}
	}
	return level, func(w *strings.Builder) {
		if len(rows) > 0 {
			Table(w, []string{"LIMIT", "RATE"}, rows)
		} else {
			w.WriteString("no limits\n")
		}
		if len(c.Slots) > 0 {
			Fields(w, "Slots", limitarg.FormatSlots(c.Slots))
		}
		if c.OnUnavailable != "" {
			Fields(w, "On unavailable", string(c.OnUnavailable))
		}
		if level.Bypassed {
			Fields(w, "Bypassed", switchText(true, level.SwitchEndsAt))
		} else if level.Disabled != nil {
			Fields(w, "Disabled", switchText(*level.Disabled, level.SwitchEndsAt))
		}
		if level.Cascade != nil {
			Fields(w, "Cascades", switchText(*level.Cascade, nil))
		}
		if !c.IsEvaluable() {
			Fields(w, "Not evaluated by this version", c.Features.Unsupported().String())
		}
		buckets.text(w)
	}
}

// switchText is the switch of a level for people.
func switchText(disabled bool, until *time.Time) string {
	text := "no, whatever later levels say"
	if disabled {
		text = "yes"
	}
	if until != nil {
		text += ", until " + until.Format(time.RFC3339)
	}
	return text
}
