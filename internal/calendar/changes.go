package calendar

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// settings are the parameters that an entry may set, by the names that its words have.
var settings = [...]struct {
	name string
	of   func(*Change) *int64
}{
	{"capacity=", func(c *Change) *int64 { return &c.Capacity }},
	{"amount=", func(c *Change) *int64 { return &c.Amount }},
	{"seconds=", func(c *Change) *int64 { return &c.Seconds }},
}

const changeAdvice = `write five fields of cron and then a factor, like "* 9-17 * * mon-fri x0.5"; or capacity=, amount= and seconds=, like "* 0-5 * * * capacity=1000 amount=1000"; or in place of cron an end, like "until 2026-12-31T18:00 x2"`

// until begins an entry that holds until an instant.
const until = "until"

// ParseSchedule reads a schedule as people write it: one or several entries, separated by
// ";". The zone is an IANA name, "" means UTC. The error is an [*Error]. An entry is five
// fields of cron, or "until" and a time, and one of
//
//	x0.5                                    the factor of capacity and amount, with up to three decimals
//	capacity=1000 amount=1000 seconds=60    one or several of these, each in place of the limit's own
func ParseSchedule(text, zone string) (*Schedule, error) {
	z, err := LoadZone(zone)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for part := range strings.SplitSeq(text, ";") {
		words := strings.Fields(part)
		when := len(fields)
		if len(words) > 0 && strings.EqualFold(words[0], until) {
			when = 2
		}
		if len(words) <= when {
			return nil, &Error{Field: "schedule", Value: strings.Join(words, " "), Reason: "it does not say when, or not what", Advice: changeAdvice}
		}
		var c Change
		if when == len(fields) {
			c.Cron = strings.Join(words[:when], " ")
		} else if c.Until, err = z.parseInstant(words[1]); err != nil {
			return nil, err
		}
		for _, word := range words[when:] {
			if !read(&c, word) {
				return nil, &Error{Field: "schedule", Value: word, Reason: "it is no factor and no parameter of a limit", Advice: changeAdvice}
			}
		}
		changes = append(changes, c)
	}
	return NewSchedule(changes, zone)
}

// parseInstant reads an instant of RFC 3339, or a civil time of the zone.
func (z *Zone) parseInstant(text string) (int64, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UnixMilli(), nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return z.place(t.UnixMilli()), nil
		}
	}
	return 0, &Error{Field: until, Value: text, Reason: "it is not a time", Advice: "write one like 2026-12-31T18:00 or 2026-12-31T17:00:00Z"}
}

// read reads a word of an entry, each once; false if it means nothing.
func read(c *Change, word string) bool {
	if factor, ok := strings.CutPrefix(word, "x"); ok {
		n, ok := thousandths(factor)
		ok = ok && n > 0 && c.Permille == 0
		c.Permille = n
		return ok
	}
	for _, s := range settings {
		if value, ok := strings.CutPrefix(word, s.name); ok {
			n, ok := number(value)
			ok = ok && n > 0 && *s.of(c) == 0
			*s.of(c) = int64(n)
			return ok
		}
	}
	return false
}

// thousandths reads a decimal number of up to three decimals.
func thousandths(text string) (n int64, ok bool) {
	const decimals = 3
	whole, part, _ := strings.Cut(text, ".")
	if len(part) > decimals || strings.HasSuffix(text, ".") {
		return 0, false
	}
	all, ok := number(whole + part + strings.Repeat("0", decimals-len(part)))
	return int64(all), ok && whole != ""
}

// String writes the schedule as [ParseSchedule] reads it.
func (s *Schedule) String() string {
	entries := make([]string, len(s.entries))
	for i := range s.entries {
		entries[i] = s.entries[i].Change.String()
	}
	return strings.Join(entries, "; ")
}

// String writes an entry as [ParseSchedule] reads it.
func (c Change) String() string {
	words := []string{c.when()}
	if c.Permille != 0 {
		words = append(words, "x"+c.Scale())
	}
	for _, s := range settings {
		if v := *s.of(&c); v != 0 {
			words = append(words, s.name+strconv.FormatInt(v, 10))
		}
	}
	return strings.Join(words, " ")
}

// when says when an entry holds, as [ParseSchedule] reads it.
func (c Change) when() string {
	if c.Until != 0 {
		return until + " " + time.UnixMilli(c.Until).UTC().Format(time.RFC3339Nano)
	}
	return c.Cron
}

// Scale is the factor of an entry as a decimal number, "0" if it has none.
func (c Change) Scale() string {
	const thousand = 1000
	factor := strconv.FormatInt(c.Permille/thousand, 10)
	if rest := c.Permille % thousand; rest != 0 {
		factor += "." + strings.TrimRight(fmt.Sprintf("%03d", rest), "0")
	}
	return factor
}

// Equal reports whether two Schedules are the same. It is == as a method, for packages that
// compare structs by reflection.
func (s *Schedule) Equal(other *Schedule) bool { return s == other }
