// Package diary is the text in which a bucket keeps what it consumed in each hour. It is
// arithmetic on strings.
//
// A text is a sequence of names and hours. Two limits and acquires look like this:
//
//		[,rpm,tpm]alx8:1o=,1aao;1o=,1aao;o:2=,-.ya;[rpd]1,,,1;
//
//	  - Names in brackets join the list of limits. The empty name counts acquires.
//	  - An hour ends with a semicolon. It begins with the distance from the hour before and a
//	    colon, or with neither if the distance is 1. The first distance is from hour 0.
//	  - Then follow the amounts, in the order of the list, with a comma between two. Instead
//	    of a comma and an amount that is written as the one before, there is "=". An amount of
//	    0 is empty; those at the end are left out, with their commas.
//	  - An amount is in whole tokens, or after a dot in millitokens. Of acquires it is their
//	    number.
//
// All numbers have base 36. No character of a text needs an escape in JSON.
package diary

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// An Entry is what a bucket consumed in one hour.
type Entry struct {
	Hour int32 // hours since the epoch
	// Amounts are the consumption, each limit once, none of them 0. Amounts are negative if
	// more was returned than taken. The limit "" has the number of acquires, not
	// thousandths of it.
	Amounts []store.Amount
}

// Bounds of a text that is not full.
const (
	fullBytes   = 160
	fullEntries = 32
)

const (
	kilobyte = 1024
	// growth is by how many bytes the rest of an item may grow until the next turn: counts get
	// more digits. Two bytes are the name of the text.
	growth = 16
)

const (
	milliPerToken = 1000
	base          = 36
	dot           = "." // begins an amount of millitokens
)

// HourOf returns the hour of an instant in milliseconds since the epoch.
func HourOf(ms int64) int32 {
	return int32(ms / time.Hour.Milliseconds()) //nolint:gosec // it fits until the year 246,000
}

// Start returns the start of an hour.
func Start(hour int32) time.Time { return time.Unix(int64(hour)*int64(time.Hour/time.Second), 0).UTC() }

// Room is how long a text may be in an item that has so many bytes without it. A write costs
// a unit for each started KB of its item, so a text is to begin no other one.
func Room(itemBytes int) int {
	used := itemBytes + growth
	return min(fullBytes, (used+kilobyte-1)/kilobyte*kilobyte-used)
}

// Spare is how many bytes an item, with so many bytes without its text, has room for besides a text, or
// a short one if it has none yet; less than 0 if it has too little room for that.
func Spare(itemBytes int, text string) int {
	const leastText = 40
	used := itemBytes + growth
	return (used+kilobyte-1)/kilobyte*kilobyte - used - max(leastText, len(text))
}

// IsFull reports whether a text should be saved and cut, if there is so much [Room].
func IsFull(text string, room int) bool {
	return text != "" && len(text) >= room || strings.Count(text, ";") >= fullEntries
}

// Append returns a text with an entry at its end. It leaves out amounts of 0, amounts of
// names that no limit can have, and an entry without other amounts. Of a damaged text, it
// keeps what comes before the damage.
func Append(text string, e Entry) string {
	r := reader{text: text}
	for more := true; more; {
		_, more, _ = r.next()
	}
	amounts := make([]store.Amount, 0, len(e.Amounts))
	var added []string
	for _, a := range e.Amounts {
		if a.Milli == 0 || !isName(a.Limit) {
			continue
		}
		amounts = append(amounts, a)
		if !slices.Contains(r.names, a.Limit) {
			added = append(added, a.Limit)
		}
	}
	text = text[:r.at]
	if len(amounts) == 0 {
		return text
	}
	b := make([]byte, 0, len(text)+fullBytes/2) //nolint:mnd // room for most entries
	b = append(b, text...)
	if len(added) > 0 {
		b = append(b, '[')
		b = append(b, strings.Join(added, ",")...)
		b = append(b, ']')
		r.names = append(r.names, added...)
	}
	if distance := int64(e.Hour) - int64(r.hour); distance != 1 {
		b = append(strconv.AppendInt(b, distance, base), ':')
	}
	return string(append(appendAmounts(b, r.names, amounts), ';'))
}

// appendAmounts writes amounts in the order of names.
func appendAmounts(b []byte, names []string, amounts []store.Amount) []byte {
	before, left := "", len(amounts)
	for i := 0; left > 0; i++ {
		value := ""
		if j := slices.IndexFunc(amounts, func(a store.Amount) bool { return a.Limit == names[i] }); j >= 0 {
			value = write(amounts[j])
			left--
		}
		switch {
		case i == 0:
			b = append(b, value...)
		case value == before && value != "":
			b = append(b, '=')
		default:
			b = append(append(b, ','), value...)
		}
		before = value
	}
	return b
}

func write(a store.Amount) string {
	switch {
	case a.Limit == "":
		return strconv.FormatInt(a.Milli, base)
	case a.Milli%milliPerToken == 0:
		return strconv.FormatInt(a.Milli/milliPerToken, base)
	}
	return dot + strconv.FormatInt(a.Milli, base)
}

// After returns a text without its entries up to an hour and of that hour.
func After(text string, hour int32) string {
	kept := ""
	for e, err := range entries(text) {
		if err == nil && e.Hour > hour {
			kept = Append(kept, e)
		}
	}
	return kept
}

// Parse returns the entries of a text, in the order in which they were appended. It fails
// with a [*TextError] and the entries before the damage.
func Parse(text string) ([]Entry, error) {
	var found []Entry
	for e, err := range entries(text) {
		if err != nil {
			return found, err
		}
		found = append(found, e)
	}
	return found, nil
}

// A TextError says why a text cannot be read.
type TextError struct {
	Text   string
	At     int // the offset of the names or the entry that cannot be read
	Reason string
}

func (e *TextError) Error() string {
	return fmt.Sprintf("read diary %q at %d: %s", e.Text, e.At, e.Reason)
}

// entries yields the entries of a text, and an error at the damage, if any.
func entries(text string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r := reader{text: text}
		for {
			e, more, err := r.next()
			if err == nil && !more || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// A reader reads a text. Its other fields are those of the text up to at.
type reader struct {
	text  string
	at    int
	names []string
	hour  int32
}

// next reads an entry and the names before it; more is false at the end of the text, and
// with an error.
func (r *reader) next() (e Entry, more bool, err error) {
	for strings.HasPrefix(r.text[r.at:], "[") {
		names, _, closed := strings.Cut(r.text[r.at+1:], "]")
		if !closed {
			return Entry{}, false, r.damaged("names have no end")
		}
		known := r.names
		for name := range strings.SplitSeq(names, ",") {
			if !isName(name) || slices.Contains(known, name) {
				return Entry{}, false, r.damaged(fmt.Sprintf("%q is no name of another limit", name))
			}
			known = append(known, name)
		}
		r.names = known
		r.at += len(names) + len("[]")
	}
	if r.at == len(r.text) {
		return Entry{}, false, nil
	}
	entry, _, closed := strings.Cut(r.text[r.at:], ";")
	if !closed {
		return Entry{}, false, r.damaged("the hour has no end")
	}
	distance, amounts := int64(1), entry
	if before, after, has := strings.Cut(entry, ":"); has {
		if distance, err = strconv.ParseInt(before, base, 64); err != nil {
			return Entry{}, false, r.damaged("the distance of the hour is no number")
		}
		amounts = after
	}
	hour := int64(r.hour) + distance
	if distance < -math.MaxUint32 || distance > math.MaxUint32 || hour != int64(int32(hour)) { //nolint:gosec // that is the check
		return Entry{}, false, r.damaged("the hour is out of range")
	}
	e.Hour = int32(hour) //nolint:gosec // checked
	if e.Amounts, err = r.amounts(amounts); err != nil {
		return Entry{}, false, err
	}
	r.hour = e.Hour
	r.at += len(entry) + len(";")
	return e, true, nil
}

// amounts reads the amounts of an entry.
func (r *reader) amounts(text string) (found []store.Amount, err error) {
	value := ""
	for i := 0; i == 0 || text != ""; i++ {
		switch {
		case i > 0 && text[0] == '=':
			text = text[1:]
		default:
			if i > 0 {
				text = text[1:] // the comma
			}
			end := strings.IndexAny(text, ",=")
			if end < 0 {
				end = len(text)
			}
			value, text = text[:end], text[end:]
		}
		if value == "" {
			continue
		}
		if i >= len(r.names) {
			return nil, r.damaged("the hour has an amount without a name")
		}
		a := store.Amount{Limit: r.names[i]}
		var ok bool
		if a.Milli, ok = read(a.Limit, value); !ok {
			return nil, r.damaged(fmt.Sprintf("%q is no amount", value))
		}
		found = append(found, a)
	}
	if len(found) == 0 {
		return nil, r.damaged("the hour has no amount")
	}
	return found, nil
}

// read is the inverse of [write]; it refuses 0.
func read(limit, value string) (int64, bool) {
	digits, isMilli := strings.CutPrefix(value, dot)
	n, err := strconv.ParseInt(digits, base, 64)
	switch {
	case err != nil || n == 0:
		return 0, false
	case limit == "":
		return n, !isMilli
	case isMilli:
		return n, true
	case n > math.MaxInt64/milliPerToken || n < math.MinInt64/milliPerToken:
		return 0, false
	}
	return n * milliPerToken, true
}

func (r *reader) damaged(reason string) error {
	return &TextError{Text: r.text, At: r.at, Reason: reason}
}

// isName reports whether a name may stand in a text.
func isName(name string) bool { return name == "" || store.CheckLimitName(name) == nil }
