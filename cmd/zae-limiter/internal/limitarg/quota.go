package limitarg

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// utc is the zone of a calendar that names none.
const utc = "UTC"

// parseQuota reads tokens@when[@zone][; entries[@zone]]. No calendar and no zone has an @. The
// entries are those of a schedule. One zone is that of both.
func parseQuota(name, s string) (store.Limit, error) {
	if err := store.CheckLimitName(name); err != nil {
		return store.Limit{}, err
	}
	s, entries := cutEntries(s)
	tokens, rest, _ := strings.Cut(s, "@")
	capacity, err := positive("tokens of a quota", tokens, store.MaxTokens)
	if err != nil {
		return store.Limit{}, err
	}
	when, zone, _ := strings.Cut(rest, "@")
	entries, other, _ := strings.Cut(entries, "@")
	if other = strings.TrimSpace(other); other == "" {
		other = zone
	}
	l := store.Limit{Name: name, Capacity: capacity}
	if l.Renews, err = store.ParseRenewal(when, zone); err == nil && zone == "" && other != "" && l.Renews.Session() == 0 {
		l.Renews, err = store.ParseRenewal(when, other)
	}
	if err == nil && entries != "" {
		l.Varies, err = store.ParseSchedule(entries, other)
	}
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return store.Limit{}, err
	}
	return l, nil
}

// cutEntries divides a quota from the entries of its schedule, "" if there are none. Both
// calendars have entries between semicolons; the first one that ends in a factor or a parameter
// is of the schedule.
func cutEntries(s string) (quota, entries string) {
	parts := strings.Split(s, ";")
	for i, part := range parts {
		words := strings.Fields(part)
		if n := len(words); i > 0 && n > 1 && (strings.Contains(words[n-1], "=") || isFactor(words[n-1])) {
			return strings.Join(parts[:i], ";"), strings.Join(parts[i:], ";")
		}
	}
	return s, ""
}

// isFactor reports whether a word begins as a factor does, x0.5 for instance.
func isFactor(word string) bool {
	return len(word) > 1 && word[0] == 'x' && strings.ContainsRune(digits, rune(word[1]))
}

// formatQuota writes a quota without its name, as [Parse] reads it.
func formatQuota(l store.Limit) string {
	s := strconv.FormatInt(l.Capacity, 10) + "@" + l.Renews.String()
	if zone := l.Renews.Zone(); zone != "" && zone != utc {
		s += "@" + zone
	}
	return s
}

// displayQuota writes a quota without its name for people.
func displayQuota(l store.Limit) string {
	s := Grouped(l.Capacity) + "@" + l.Renews.String()
	if zone := l.Renews.Zone(); zone != "" && zone != utc {
		s += " (" + zone + ")"
	}
	if l.Varies != nil {
		s += "; " + l.Varies.String()
		if zone := l.Zone(); zone != l.Renews.Zone() && zone != utc { // of a session
			s += " (" + zone + ")"
		}
	}
	if most := l.Carries.Rollover; most != 0 {
		s += ", rollover " + Grouped(most)
	}
	if l.Carries.Debt {
		s += ", debt"
	}
	return s
}

// split divides limits at their commas. Fields of cron have commas, too: after an @ or a
// semicolon, a comma ends the limit only where the name of another one, and its colon,
// follow.
func split(s string) (limits []string) {
	for part := range strings.SplitSeq(s, ",") {
		name, _, hasColon := strings.Cut(part, ":")
		begins := hasColon && store.CheckLimitName(name) == nil
		if n := len(limits); n > 0 && strings.ContainsAny(limits[n-1], "@;") && !begins {
			limits[n-1] += "," + part
			continue
		}
		limits = append(limits, part)
	}
	return limits
}

// Parameters are those of a limit in JSON: a rate has an amount and a period, a quota says when
// it renews and what it carries, and either may say when it varies. A limit that is not soft does
// not say so.
type Parameters struct {
	Capacity int64  `json:"capacity"`
	Amount   int64  `json:"refill_amount,omitempty"`
	Seconds  int64  `json:"refill_period_seconds,omitempty"`
	Renews   string `json:"renews,omitempty"`
	Varies   string `json:"varies,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Soft     bool   `json:"soft,omitempty"`
	Mode     string `json:"mode,omitempty"` // "shadow" or "off", and a percentage of entities: "shadow 80%"
	Rollover int64  `json:"rollover,omitempty"`
	Debt     bool   `json:"carry_debt,omitempty"`
	Returns  int    `json:"returns,omitempty"` // the percentage of what a lost process took that goes back
}

// ParametersOf are the parameters of a limit in JSON.
func ParametersOf(l store.Limit) Parameters {
	p := Parameters{Capacity: l.Capacity, Amount: l.Amount, Seconds: int64(l.Period / time.Second), Soft: l.Soft, Rollover: l.Carries.Rollover, Debt: l.Carries.Debt, Returns: l.Returns}
	if l.Mode != store.Enforce {
		p.Mode = l.ModeText()
	}
	if l.Renews != nil {
		p.Renews, p.Zone = l.Renews.String(), l.Renews.Zone()
	}
	if l.Varies != nil {
		p.Varies, p.Zone = l.Varies.String(), l.Varies.Zone()
	}
	return p
}

// Limit is the limit of a name with these parameters. It reverses [ParametersOf]. The error is a
// [*store.ValidationError] that names the parameter.
func (p *Parameters) Limit(name string) (l store.Limit, err error) {
	invalid := func(field, value string, reason error) (store.Limit, error) {
		return store.Limit{}, &store.ValidationError{Field: field, Value: value, Reason: reason.Error()}
	}
	most := int64(store.MaxPeriod / time.Second)
	if p.Seconds < 0 || p.Seconds > most {
		return invalid("refill_period_seconds", strconv.FormatInt(p.Seconds, 10), fmt.Errorf("give from 1 to %d", most))
	}
	l = store.Limit{
		Name: name, Capacity: p.Capacity, Amount: p.Amount, Period: time.Duration(p.Seconds) * time.Second, Soft: p.Soft,
		Carries: store.Carry{Rollover: p.Rollover, Debt: p.Debt}, Returns: p.Returns,
	}
	if p.Renews != "" {
		if l.Renews, err = store.ParseRenewal(p.Renews, p.Zone); err != nil {
			return invalid("renews", p.Renews, err)
		}
	}
	if p.Varies != "" {
		if l.Varies, err = store.ParseSchedule(p.Varies, p.Zone); err != nil {
			return invalid("varies", p.Varies, err)
		}
	}
	if p.Zone != "" && l.Renews == nil && l.Varies == nil {
		return invalid("zone", p.Zone, errors.New("a limit that neither renews nor varies has none: leave it out"))
	}
	if p.Mode != "" {
		if l, err = l.InMode(p.Mode); err != nil {
			return invalid("mode", p.Mode, err)
		}
	}
	return l, l.Validate()
}
