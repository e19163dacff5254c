package calendar

import (
	"fmt"
	"strconv"
	"strings"
)

// The compact encoding is the peer's: a version, then entries joined by ";", each of tags and values in the order of
// tags. A field that is "*" is left out.
//
//	1m0h0w1           0 0 * * 1
//	1h9-17w1-5s500    * 9-17 * * 1-5, scaled by 500 thousandths
//
// What cron cannot express has a version of our own. The peer refuses to read it: a limiter
// that cannot evaluate a calendar must not guess. There, E is a day of the month that is
// clamped to the month's end, N and T are the months and the anchor of an anniversary, and U
// is the instant until which an entry of a schedule holds:
//
//	z1m0h0E31         month from last day
//	z1N1T1769853600000
//	z1U1769853600000s2000
const (
	peer = "1"
	own  = "z1"
)

// Tags that are not of fields. A clamped day has tagClamped in place of D.
const (
	tagClamped = 'E'
	tagMonths  = 'N'
	tagAnchor  = 'T'
	tagUntil   = 'U'
)

const changeTags = "scap"

// encode encodes the entries of a renewal.
func encode(entries []entry) string {
	var b strings.Builder
	version := peer
	for i, e := range entries {
		if e.beyondPeer() {
			version = own
		}
		if i > 0 {
			b.WriteByte(';')
		}
		e.compact(&b)
	}
	return version + b.String()
}

func (c *cron) beyondPeer() bool      { return c.clamp }
func (*anniversary) beyondPeer() bool { return true }

func (c *cron) compact(b *strings.Builder) {
	for i := range fields {
		switch text := c.text[i]; {
		case i == inDay && c.clamp:
			b.WriteByte(tagClamped)
			b.WriteString(text)
		case text != "*":
			b.WriteByte(fields[i].tag)
			b.WriteString(text)
		}
	}
}

func (a *anniversary) compact(b *strings.Builder) {
	fmt.Fprintf(b, "%c%d%c%d", tagMonths, a.months, tagAnchor, a.anchor)
}

func (s *Schedule) encode() string {
	var b strings.Builder
	version := peer
	for i := range s.entries {
		if i > 0 {
			b.WriteByte(';')
		}
		e := &s.entries[i]
		if e.Until != 0 {
			version = own
			fmt.Fprintf(&b, "%c%d", tagUntil, e.Until)
		} else {
			e.compact(&b)
		}
		for i, v := range [...]int64{e.Permille, e.Capacity, e.Amount, e.Seconds} {
			if v != 0 {
				b.WriteByte(changeTags[i])
				b.WriteString(strconv.FormatInt(v, 10))
			}
		}
	}
	return version + b.String()
}

// Encode returns the value of the attribute rsched: what [Decode] reads. ok is false for a session, which has no such
// value: its length is an attribute of its own.
func (r *Renewal) Encode() (compact string, ok bool) {
	if r.session != 0 {
		return "", false
	}
	return r.code, true
}

// ForPeer reports whether the Python package can evaluate the renewal. It refuses an item that has another one.
func (r *Renewal) ForPeer() bool { return !strings.HasPrefix(r.code, own) }

// ForPeer is as that of a [Renewal].
func (s *Schedule) ForPeer() bool { return !strings.HasPrefix(s.code, own) }

// Encode returns the value of the attribute sched: what [DecodeSchedule] reads.
func (s *Schedule) Encode() string { return s.code }

// Decode reads the attributes rsched and sched_tz of an item; the zone "" means UTC. The error is an [*Error], and
// [ErrNewer] if the encoding is of a later version than this one. Decoding a value again does not allocate.
func Decode(compact, zone string) (*Renewal, error) {
	if zone == "" {
		zone = "UTC"
	}
	if r := renewals.find(key{compact, zone}); r != nil {
		return r, nil
	}
	compact, zone = strings.Clone(compact), strings.Clone(zone) // the caller may use their memory again
	z, err := LoadZone(zone)
	if err != nil {
		return nil, err
	}
	body, version, err := versioned("reset schedule", compact)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for part := range strings.SplitSeq(body, ";") {
		e, err := decodeEntry(z, part, version == own)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return newRenewal(z, entries)
}

// DecodeSchedule reads the attributes sched and sched_tz of an item, as [Decode] does.
func DecodeSchedule(compact, zone string) (*Schedule, error) {
	if zone == "" {
		zone = "UTC"
	}
	if s := schedules.find(key{compact, zone}); s != nil {
		return s, nil
	}
	compact, zone = strings.Clone(compact), strings.Clone(zone) // as in Decode
	body, version, err := versioned("schedule", compact)
	if err != nil {
		return nil, err
	}
	tags := "mhDMw" + changeTags
	if version == own {
		tags += string(tagUntil)
	}
	var changes []Change
	for part := range strings.SplitSeq(body, ";") {
		c, err := decodeChange(part, tags)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return NewSchedule(changes, zone)
}

// decodeChange reads an entry of a schedule.
func decodeChange(part, tags string) (c Change, err error) {
	values, err := tagged(part, tags)
	if err != nil {
		return c, err
	}
	text := values.cron()
	c.Cron = strings.Join(text[:], " ")
	if until := values[tagUntil]; until != "" {
		n, ok := number(until)
		if !ok || n == 0 || text != everyMinute {
			return c, corrupt("schedule entry", part, "an entry with an end has an instant and no fields of cron")
		}
		c.Cron, c.Until = "", int64(n)
	}
	for i, v := range []*int64{&c.Permille, &c.Capacity, &c.Amount, &c.Seconds} {
		text := values[changeTags[i]]
		if text == "" {
			continue
		}
		n, ok := number(text)
		if !ok || n == 0 {
			return c, corrupt("schedule entry", part, fmt.Sprintf("%c is not a positive number", changeTags[i]))
		}
		*v = int64(n)
	}
	return c, nil
}

// versioned cuts the version from an encoding.
func versioned(what, compact string) (body, version string, err error) {
	body = strings.TrimLeft(compact, "0123456789")
	version = compact[:len(compact)-len(body)]
	n, isNumber := number(version)
	switch {
	case strings.HasPrefix(compact, own):
		body, version = compact[len(own):], own
	case isNumber && n == 1:
		version = peer
	case version == "" && !strings.HasPrefix(compact, own[:1]):
		return "", "", corrupt(what, compact, "it begins with no version")
	case isNumber && n == 0:
		return "", "", corrupt(what, compact, "there is no version 0")
	default:
		return "", "", &Error{
			Field: what, Value: compact, Reason: "its encoding is newer than this version",
			Advice: "upgrade this client", cause: ErrNewer,
		}
	}
	if body == "" {
		return "", "", corrupt(what, compact, "it has no entry, so it would never change anything")
	}
	return body, version, nil
}

func corrupt(what, value, reason string) error {
	return &Error{Field: what, Value: value, Reason: reason, Advice: "set the limit again"}
}

// values are the values of an entry by tag.
type values map[byte]string

// tagged splits an entry into its tags and values.
func tagged(part, tags string) (values, error) {
	all := values{}
	for rest := part; rest != ""; {
		tag := rest[0]
		if strings.IndexByte(tags, tag) < 0 {
			return nil, corrupt("entry", part, fmt.Sprintf("%q is not one of the tags %s", tag, tags))
		}
		if _, again := all[tag]; again {
			return nil, corrupt("entry", part, fmt.Sprintf("%c occurs twice", tag))
		}
		value := strings.TrimLeft(rest[1:], "0123456789*/,-")
		all[tag] = rest[1 : len(rest)-len(value)]
		if all[tag] == "" {
			return nil, corrupt("entry", part, fmt.Sprintf("%c has no value", tag))
		}
		rest = value
	}
	return all, nil
}

// everyMinute are five fields of cron without a value.
var everyMinute = [5]string{"*", "*", "*", "*", "*"}

// cron are the texts of the five fields.
func (v values) cron() (text [5]string) {
	text = everyMinute
	for i := range fields {
		if value, ok := v[fields[i].tag]; ok {
			text[i] = value
		}
	}
	return text
}

// decodeEntry reads an entry of a renewal. extended allows what the peer cannot read.
func decodeEntry(z *Zone, part string, extended bool) (entry, error) {
	tags := "mhDMw"
	if extended {
		tags += string([]byte{tagClamped, tagMonths, tagAnchor})
	}
	v, err := tagged(part, tags)
	if err != nil {
		return nil, err
	}
	if v[tagMonths] != "" || v[tagAnchor] != "" {
		months, ok := number(v[tagMonths])
		anchor, err := strconv.ParseInt(v[tagAnchor], 10, 64)
		if !ok || err != nil || len(v) != 2 {
			return nil, corrupt("entry", part, "an anniversary has months and an anchor")
		}
		return checkedAnniversary(z, anchor, months)
	}
	text := v.cron()
	clamped := v[tagClamped]
	if clamped == "" {
		return newCron(text, false)
	}
	n, ok := number(clamped)
	for _, i := range [...]int{inMinute, inHour, inMonth} {
		value, single := number(text[i])
		switch {
		case single:
			text[i] = strconv.Itoa(value) // 00 is 0, as in words
		case i != inMonth || text[i] != "*":
			ok = false
		}
	}
	if !ok || text[inDay] != "*" || text[inWeekday] != "*" {
		return nil, corrupt("entry", part, "E is one day, at one time, of one month or of all")
	}
	return onDate(text, n)
}
