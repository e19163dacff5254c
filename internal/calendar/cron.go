package calendar

import (
	"fmt"
	"strconv"
	"strings"
)

// A field is one of the five fields of cron.
type field struct {
	name        string
	tag         byte // in the compact encoding
	first, last int
	names       []string // of the values, the first one first
	example     string
}

// fields are the fields of cron in their order. Sunday is 0 and 7.
var fields = [5]field{
	{"minute", 'm', 0, 59, nil, "0, */15 or 0-29"},
	{"hour", 'h', 0, 23, nil, "0, 9-17 or *"},
	{"day of the month", 'D', 1, 31, nil, "1, 15 or *"},
	{"month", 'M', 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}, "1, JAN or *"},
	{"weekday", 'w', 0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}, "1, MON-FRI or *"},
}

const (
	inMinute = iota
	inHour
	inDay
	inMonth
	inWeekday
)

// wrong is the error of a field's text.
func (f *field) wrong(text, reason string) error {
	advice := fmt.Sprintf("give numbers from %d to %d as *, a list, a range or a step, like %s", f.first, f.last, f.example)
	if strings.ContainsAny(strings.ToUpper(text), "LW#?@") && (f.tag == 'D' || f.tag == 'w') {
		reason = "L, W, # and ? are not understood"
		advice = `for the end of a month write "month from last day"; otherwise ` + advice
	}
	return &Error{Field: f.name, Value: text, Reason: reason, Advice: advice}
}

// parse reads a field as a set of its values.
func (f *field) parse(text string) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		bits, reason := f.item(item)
		if reason != "" {
			return 0, f.wrong(text, reason)
		}
		set |= bits
	}
	return set, nil
}

// item reads "*", "5", "5-10", or one of these and a step: "*/2". The step of a single value counts to the end: 5/20 is
// 5-59/20.
func (f *field) item(text string) (set uint64, reason string) {
	values, step, stepped := strings.Cut(text, "/")
	every := 1
	if stepped {
		var ok bool
		if every, ok = number(step); !ok || every == 0 {
			return 0, fmt.Sprintf("the step %q is not a positive number", step)
		}
	}
	first, last, reason := f.bounds(values)
	if stepped && first == last {
		last = f.last
	}
	for v := first; v <= last; v += min(every, f.last+1) { // no overflow
		set |= 1 << v
	}
	return set, reason
}

// bounds reads "*", a value or a range.
func (f *field) bounds(text string) (first, last int, reason string) {
	if text == "*" {
		return f.first, f.last, ""
	}
	from, to, ranged := strings.Cut(text, "-")
	if first, reason = f.value(from); reason != "" || !ranged {
		return first, first, reason
	}
	if last, reason = f.value(to); reason == "" && last < first {
		reason = fmt.Sprintf("the range %s runs backwards", text)
	}
	return first, last, reason
}

// value reads a number or a name.
func (f *field) value(text string) (n int, reason string) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return i + f.first, ""
		}
	}
	n, ok := number(text)
	switch {
	case !ok:
		return 0, fmt.Sprintf("%q is not a number", text)
	case n < f.first || n > f.last:
		return 0, fmt.Sprintf("%d is not from %d to %d", n, f.first, f.last)
	}
	return n, ""
}

// number reads digits only: no sign, no space.
func number(text string) (n int, ok bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// canonical is the text of a field as the peer stores it: names become numbers, and Sunday is 7 where it stands alone.
func (f *field) canonical(text string) string {
	items := strings.Split(text, ",")
	for i, item := range items {
		for n, name := range f.names {
			item = replaceFold(item, name, strconv.Itoa(n+f.first))
		}
		if f.tag == 'w' && item == "0" {
			item = "7"
		}
		items[i] = item
	}
	return strings.Join(items, ",")
}

// replaceFold replaces each occurrence of a name, in capitals or not.
func replaceFold(s, name, with string) string {
	for i := 0; i+len(name) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(name)], name) {
			s = s[:i] + with + s[i+len(name):]
		}
	}
	return s
}

// A cron is an entry of five fields, or of words that mean them.
type cron struct {
	pattern

	text [5]string // canonical
}

// newCron makes an entry of the texts of the five fields. clamp says that a date beyond the end of a month means its last
// day, which cron itself cannot say.
func newCron(text [5]string, clamp bool) (*cron, error) {
	var sets [5]uint64
	for i := range fields {
		set, err := fields[i].parse(text[i])
		if err != nil {
			return nil, err
		}
		sets[i] = set
		text[i] = fields[i].canonical(text[i])
	}
	c := &cron{text: text, pattern: pattern{
		months: uint16(sets[inMonth]), dates: uint32(sets[inDay]),
		weekdays: uint8(sets[inWeekday]&everyWeekday | sets[inWeekday]>>7),
		both:     strings.HasPrefix(text[inDay], "*") || strings.HasPrefix(text[inWeekday], "*"),
		clamp:    clamp,
		real:     strings.ContainsAny(text[inHour], "*/"),
	}}
	for m := range minutesPerDay {
		if sets[inHour]>>(m/60)&1 == 1 && sets[inMinute]>>(m%60)&1 == 1 {
			c.times.add(m)
		}
	}
	return c, c.check()
}

// check refuses a pattern that never matches, and finds out whether it always does.
func (c *cron) check() error {
	const leapYear = 2000
	some, all := false, c.times.full()
	for month := 1; month <= 12; month++ {
		// Each date falls on each weekday in some year, so that only the dates decide whether a day ever matches. On all
		// days of all years: the days of any year show it.
		possible := c.pattern
		if possible.both {
			possible.weekdays = everyWeekday
		}
		some = some || possible.days(leapYear, month) != 0
		all = all && c.days(leapYear, month) == monthMask(daysIn(leapYear, month))
	}
	c.always = all
	if !some {
		return &Error{
			Field: fields[inDay].name, Value: c.text[inDay], Reason: "no month that is given has such a day",
			Advice: fmt.Sprintf("give a day that month %s has", c.text[inMonth]),
		}
	}
	return nil
}

// parseCron reads five fields.
func parseCron(text string) (*cron, error) {
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return nil, &Error{
			Field: "pattern", Value: text, Reason: fmt.Sprintf("it has %d fields", len(parts)),
			Advice: `give five: minute, hour, day of the month, month and weekday, like "0 0 * * 1"; or words like "day" or "week from monday at 06:30"`,
		}
	}
	return newCron([5]string(parts), false)
}

// fieldsText writes the five fields.
func (c *cron) fieldsText() string { return strings.Join(c.text[:], " ") }
