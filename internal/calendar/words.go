package calendar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Parse reads when a quota renews, as people write it: one or several entries, separated by
// ";". The zone is an IANA name, "" means UTC. The error is an [*Error]. An entry is five
// fields of cron, or one of
//
//	day
//	week from monday
//	month                     on its first day
//	month from day 31         on its last day, where it is shorter
//	month from last day
//	year                      on its first day
//	year from 29 february     on the 28th in other years
//	month since 2026-01-31T10:00:00Z      (or 3 months, year, 2 years)
//	session 5h                            (alone)
//
// The first seven may end in a time, like "at 06:30". "day 31" and "last day" are short for a
// month from there.
func Parse(text, zone string) (*Renewal, error) {
	if length, ok := strings.CutPrefix(strings.TrimSpace(text), sessionPrefix); ok {
		if zone != "" {
			return nil, &Error{Field: "zone", Value: zone, Reason: "a session follows no clock of a place", Advice: "give a session no time zone"}
		}
		return parseSession(strings.TrimSpace(length))
	}
	z, err := LoadZone(zone)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for part := range strings.SplitSeq(text, ";") {
		e, err := parseEntry(z, strings.Fields(part))
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return newRenewal(z, entries)
}

var (
	weekdayNames = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
	monthNames   = []string{
		"", "january", "february", "march", "april", "may", "june",
		"july", "august", "september", "october", "november", "december",
	}
)

const entryAdvice = `write day, week from monday, month, month from day 31, month from last day, year, year from 29 february, ` +
	`month since 2026-01-31T10:00:00Z, each also with a time like at 06:30; or five fields of cron`

// wrongEntry is the error of words that mean nothing.
func wrongEntry(words []string, reason string) error {
	return &Error{Field: "renewal", Value: strings.Join(words, " "), Reason: reason, Advice: entryAdvice}
}

// parseEntry reads the words of an entry.
func parseEntry(z *Zone, words []string) (entry, error) {
	if i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, "since") }); i > 0 {
		return parseSince(z, lower(words[:i]), words[i+1:])
	}
	if len(words) == 0 || !isWord(words[0]) {
		return parseFields(words)
	}
	words = lower(words)
	rest, text, err := parseTime(words)
	if err != nil {
		return nil, err
	}
	switch phrase := strings.Join(rest, " "); {
	case len(rest) == 1 && rest[0] == "last", phrase == "last day", phrase == "month from last day":
		return onDate(text, 31)
	case phrase == "day":
		return newCron(text, false)
	case phrase == "week":
		text[inWeekday] = "1"
		return newCron(text, false)
	case phrase == "month":
		return onDate(text, 1)
	case phrase == "year":
		text[inMonth] = "1"
		return onDate(text, 1)
	case len(rest) == 3 && rest[0] == "week" && rest[1] == "from":
		i := slices.Index(weekdayNames[1:], rest[2]) + 1
		if i == 0 {
			return nil, &Error{Field: "weekday", Value: rest[2], Reason: "it is not a day of the week", Advice: "write week from monday, for instance"}
		}
		text[inWeekday] = strconv.Itoa(i)
		return newCron(text, false)
	case strings.HasPrefix(phrase, "month from day ") && len(rest) == 4, len(rest) == 2 && rest[0] == "day":
		return parseDate(text, rest[len(rest)-1])
	case len(rest) == 4 && rest[0] == "year" && rest[1] == "from":
		i := slices.Index(monthNames[1:], rest[3]) + 1
		if i == 0 {
			return nil, &Error{Field: "month", Value: rest[3], Reason: "it is not a month", Advice: "write year from 29 february, for instance"}
		}
		text[inMonth] = strconv.Itoa(i)
		return parseDate(text, rest[2])
	}
	return nil, wrongEntry(words, "it is not understood")
}

// isWord reports whether an entry begins with words, and not with the minutes of cron.
func isWord(s string) bool {
	return strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz") == ""
}

// lower is the words in lower case.
func lower(words []string) []string { return strings.Fields(strings.ToLower(strings.Join(words, " "))) }

func parseFields(words []string) (entry, error) {
	if len(words) == 0 {
		return nil, wrongEntry(words, "an entry is empty")
	}
	return parseCron(strings.Join(words, " "))
}

// parseTime cuts the time from the end of an entry, and returns it as fields of cron. The
// default is midnight.
func parseTime(words []string) (rest []string, text [5]string, err error) {
	text = [5]string{"0", "0", "*", "*", "*"}
	i := slices.Index(words, "at")
	if i < 0 {
		return words, text, nil
	}
	clock := strings.Join(words[i+1:], " ")
	at, err := time.Parse("15:04", clock)
	if err != nil || len(clock) != len("15:04") {
		return nil, text, &Error{Field: "time", Value: clock, Reason: "it is not a time of day", Advice: "write at 06:30, for instance"}
	}
	text[inMinute], text[inHour] = strconv.Itoa(at.Minute()), strconv.Itoa(at.Hour())
	return words[:i], text, nil
}

// parseDate makes an entry of a day of the month.
func parseDate(text [5]string, dayOfMonth string) (entry, error) {
	n, ok := number(dayOfMonth)
	if !ok {
		return nil, &Error{Field: fields[inDay].name, Value: dayOfMonth, Reason: "it is not a number", Advice: "give a day from 1 to 31, or write last day"}
	}
	return onDate(text, n)
}

// onDate makes an entry of a day of the month that is clamped to the month's end. Where no
// month is shorter it is an entry of cron, which the peer can read.
func onDate(text [5]string, n int) (entry, error) {
	shortest := 28
	if month, one := number(text[inMonth]); one && month >= 1 && month <= 12 {
		const year, leapYear = 2001, 2000
		shortest = daysIn(year, month)
		n = clampTo(n, daysIn(leapYear, month))
	}
	text[inDay] = strconv.Itoa(n)
	return newCron(text, n > shortest)
}

// clampTo returns the last day of a month of a length for a later day, up to 31. It leaves
// other numbers as they are.
func clampTo(n, length int) int {
	if n > length && n <= 31 {
		return length
	}
	return n
}

// parseSince reads an anniversary: "month", "3 months", "year" or "2 years", and an instant.
func parseSince(z *Zone, every, since []string) (entry, error) {
	words := slices.Concat(every, []string{"since"}, since)
	n, unit := 1, every[len(every)-1]
	if len(every) == 2 {
		var ok bool
		if n, ok = number(every[0]); !ok {
			return nil, wrongEntry(words, fmt.Sprintf("%q is not a number", every[0]))
		}
		unit = strings.TrimSuffix(unit, "s")
	}
	switch {
	case len(every) > 2, len(since) != 1, unit != "month" && unit != "year":
		return nil, wrongEntry(words, "it is not understood")
	case unit == "year" && n <= maxMonths: // n*12 does not overflow
		n *= 12
	}
	at, err := time.Parse(time.RFC3339, since[0])
	if err != nil {
		return nil, &Error{Field: "anchor", Value: since[0], Reason: "it is not an instant", Advice: "write one like 2026-01-31T10:00:00Z"}
	}
	return checkedAnniversary(z, at.UnixMilli(), n)
}

// maxMonths bounds the time between two anniversaries.
const maxMonths = 1200

// checkedAnniversary makes an entry of an anniversary.
func checkedAnniversary(z *Zone, anchor int64, months int) (entry, error) {
	switch {
	case months < 1 || months > maxMonths:
		return nil, &Error{
			Field: "months", Value: strconv.Itoa(months), Reason: fmt.Sprintf("the time from one to the next is not from 1 to %d months", maxMonths),
			Advice: "write month since 2026-01-31T10:00:00Z, or 3 months, year, 2 years",
		}
	case anchor != within(anchor):
		return nil, &Error{
			Field: "anchor", Value: time.UnixMilli(anchor).UTC().Format(time.RFC3339), Reason: "it is not from 1900 to 2200",
			Advice: "give the instant at which the first period begins",
		}
	}
	return newAnniversary(z, anchor, months), nil
}

// parseSession reads the length of a session: a duration of package time, or a number of days
// like 7d.
func parseSession(length string) (*Renewal, error) {
	d, err := time.ParseDuration(length)
	if days, ok := strings.CutSuffix(length, "d"); ok {
		if n, isNumber := number(days); isNumber && n <= 100_000 {
			d, err = time.Duration(n)*24*time.Hour, nil
		}
	}
	if err != nil || d%time.Second != 0 {
		return nil, &Error{Field: "session", Value: length, Reason: "it is not a number of whole seconds", Advice: "give a length like 5h, 90m or 7d"}
	}
	return NewSession(int64(d / time.Second))
}

// String writes the renewal as [Parse] reads it, without the zone.
func (r *Renewal) String() string {
	if r.session != 0 {
		return sessionPrefix + sessionText(r.session/1000)
	}
	texts := make([]string, len(r.entries))
	for i, e := range r.entries {
		texts[i] = e.String()
	}
	return strings.Join(texts, "; ")
}

// Patterns writes the renewal as the Python package does: five fields of cron for each entry.
// There are none if the package cannot evaluate the renewal, or it is a session.
func (r *Renewal) Patterns() (patterns []string) {
	if !r.ForPeer() {
		return nil
	}
	for _, e := range r.entries {
		if c, ok := e.(*cron); ok {
			patterns = append(patterns, c.fieldsText())
		}
	}
	return patterns
}

// sessionText writes seconds in the largest unit that leaves no rest.
func sessionText(seconds int64) string {
	for _, unit := range []struct {
		seconds int64
		name    string
	}{{86_400, "d"}, {3600, "h"}, {60, "m"}} {
		if seconds%unit.seconds == 0 {
			return strconv.FormatInt(seconds/unit.seconds, 10) + unit.name
		}
	}
	return strconv.FormatInt(seconds, 10) + "s"
}

// String writes words where there are some for the pattern, and fields otherwise.
func (c *cron) String() string {
	m, h := c.single(inMinute), c.single(inHour)
	d, month, weekday := c.single(inDay), c.single(inMonth), c.single(inWeekday)
	free := func(i int) bool { return c.text[i] == "*" }
	// Cron leaves out a day in a month that is shorter. Words do not.
	longest := c.clamp || d >= 1 && d <= 28
	var words string
	switch {
	case m < 0 || h < 0:
		return c.fieldsText()
	case free(inDay) && free(inMonth) && free(inWeekday):
		words = "day"
	case free(inDay) && free(inMonth) && weekday > 0:
		words = "week from " + weekdayNames[weekday]
	case !free(inWeekday) || d < 0 || !longest && (month < 0 || d > daysIn(2001, month)):
		return c.fieldsText()
	case free(inMonth) && d == 1:
		words = "month"
	case free(inMonth) && d == 31:
		words = "month from last day"
	case free(inMonth):
		words = "month from day " + strconv.Itoa(d)
	case month == 1 && d == 1:
		words = "year"
	case month > 0:
		words = fmt.Sprintf("year from %d %s", d, monthNames[month])
	default:
		return c.fieldsText()
	}
	if m != 0 || h != 0 {
		words += fmt.Sprintf(" at %02d:%02d", h, m)
	}
	return words
}

// single is the value of a field that is one number, or -1. A number with zeros before it is
// not one: it is another text.
func (c *cron) single(i int) int {
	n, ok := number(c.text[i])
	if !ok || strconv.Itoa(n) != c.text[i] {
		return -1
	}
	return n
}

// String writes the anniversary in words.
func (a *anniversary) String() string {
	n, unit := a.months, "month"
	if n%12 == 0 {
		n, unit = n/12, "year"
	}
	since := " since " + time.UnixMilli(a.anchor).UTC().Format(time.RFC3339Nano)
	if n == 1 {
		return unit + since
	}
	return strconv.Itoa(n) + " " + unit + "s" + since
}
