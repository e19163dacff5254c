// Package limitarg reads and writes limits and amounts as the command line spells them: a rate
// is name:rate[/period][:burst], a quota is name:tokens@when[@zone][:rollover=tokens][:debt],
// an amount is name=tokens, and name:tokens where it is added.
package limitarg

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// units are the possible periods of a rate, the longest first. Output uses the name.
var units = []struct {
	name    string
	aliases []string
	period  time.Duration
}{
	{"day", []string{"d", "days"}, 24 * time.Hour},
	{"hour", []string{"h", "hours"}, time.Hour},
	{"min", []string{"m", "minute", "minutes"}, time.Minute},
	{"sec", []string{"s", "second", "seconds"}, time.Second},
}

const shape = "write name:rate[/period][:burst], rpm:100/min:150 for instance, or name:tokens@when[@zone] for a quota, rpd:1000@day for instance; each can end in ;cron xfactor[@zone], a quota in :rollover=tokens and :debt, and each limit in :soft, :shadow or :off, of which the last two may have =percent%, shadow=80% for instance, and in :returns=percent% of what a lost process took"

// soft is the end of a limit that is soft.
const soft = ":soft"

// The ends of a quota that takes what is left, or a debt, into its next period.
const (
	debt     = ":debt"
	rollover = ":rollover="
)

// returns is the end of a limit that gives back a part of what a lost process took.
const returns = ":returns="

// Parse reads a limit: name:rate[/period][:burst], or name:tokens@when[@zone]. The rate is
// the number of tokens added every period. The period is a unit of sec, min, hour or day,
// optionally with a number before it (5min); the default is one minute. The units s, m, h and
// d are understood too, and so are second, minute, and the plurals. The burst is the
// capacity, and defaults to the rate. A quota has the tokens whenever it renews, as
// [store.ParseRenewal] reads it; the zone defaults to UTC. After either, ";" begins the
// entries of a schedule, as [store.ParseSchedule] reads them, and "@" its zone. A limit that
// ends in ":soft" is soft, one that ends in a mode is in that (":shadow", or ":shadow=80%" of a part of
// the entities, see [store.Limit.InMode]), and a quota that ends in ":rollover=tokens", or ":debt", carries that. One that ends in ":returns=50%"
// gives back that part of what a lost process took, see [store.Limit.Returns].
// The returned limit is valid.
func Parse(s string) (store.Limit, error) {
	if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.HasPrefix(s[i:], returns) {
		return parseWith(s[:i], func(l *store.Limit) error {
			digits, has := strings.CutSuffix(s[i+len(returns):], "%")
			n, err := positive("returns", digits, store.MaxReturns)
			if err == nil && !has {
				err = fmt.Errorf("returns %q: give a percentage, returns=%d%% for instance", digits, n)
			}
			l.Returns = int(n)
			return err
		})
	}
	if is, mode, has := cutMode(s); has {
		return parseWith(is, func(l *store.Limit) (err error) {
			if *l, err = l.InMode(mode); err != nil {
				return err
			}
			return l.Validate()
		})
	}
	if is, has := strings.CutSuffix(s, soft); has {
		return parseWith(is, func(l *store.Limit) error { l.Soft = true; return nil })
	}
	if is, has := strings.CutSuffix(s, debt); has {
		return parseWith(is, func(l *store.Limit) error { l.Carries.Debt = true; return l.Validate() })
	}
	if i := strings.LastIndex(s, rollover); i >= 0 {
		return parseWith(s[:i], func(l *store.Limit) (err error) {
			if l.Carries.Rollover, err = positive("rollover", s[i+len(rollover):], store.MaxTokens); err != nil {
				return err
			}
			return l.Validate()
		})
	}
	rate, entries, varies := strings.Cut(s, ";")
	if name, rest, ok := strings.Cut(rate, ":"); ok && strings.Contains(rest, "@") {
		return parseQuota(name, s[len(name)+1:])
	}
	if varies {
		return parseScheduled(rate, entries)
	}
	return parseRated(s)
}

// parseRated reads a limit that is a rate: name:rate[/period][:burst].
func parseRated(s string) (store.Limit, error) {
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return store.Limit{}, fmt.Errorf("a limit has two or three parts between colons: %s", shape)
	}
	if err := store.CheckLimitName(parts[0]); err != nil {
		return store.Limit{}, err
	}
	l := store.Limit{Name: parts[0]}
	var err error
	if l.Amount, l.Period, err = ParseRate(parts[1]); err != nil {
		return store.Limit{}, err
	}
	l.Capacity = l.Amount
	if len(parts) == 3 {
		if l.Capacity, err = positive("burst", parts[2], store.MaxTokens); err != nil {
			return store.Limit{}, err
		}
	}
	return l, l.Validate()
}

// cutMode splits a mode from the end of a limit, in the words of [store.Limit.InMode].
func cutMode(s string) (is, mode string, has bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	name, percent, _ := strings.Cut(s[i+1:], "=")
	switch name {
	case store.Enforce.String(), store.Shadow.String(), store.Off.String():
		return s[:i], strings.TrimRight(name+" "+percent, " "), true
	}
	return s, "", false
}

// parseWith reads a limit, and changes it by what its end says.
func parseWith(s string, change func(*store.Limit) error) (store.Limit, error) {
	l, err := Parse(s)
	if err == nil {
		err = change(&l)
	}
	if err != nil {
		return store.Limit{}, err
	}
	return l, nil
}

// ParseRate reads rate[/period], as [Parse] does: the tokens added every period.
func ParseRate(s string) (amount int64, period time.Duration, err error) {
	rate, span, hasSpan := strings.Cut(s, "/")
	if amount, err = positive("rate", rate, store.MaxTokens); err != nil {
		return 0, 0, err
	}
	period = time.Minute
	if hasSpan {
		period, err = parsePeriod(span)
	}
	return amount, period, err
}

func parsePeriod(s string) (time.Duration, error) {
	unit := strings.TrimLeft(s, digits)
	count := s[:len(s)-len(unit)]
	for _, u := range units {
		if unit != u.name && !slices.Contains(u.aliases, unit) {
			continue
		}
		if count == "" {
			return u.period, nil
		}
		n, err := positive("period", count, int64(store.MaxPeriod/u.period))
		return time.Duration(n) * u.period, err
	}
	return 0, fmt.Errorf("unknown period %q: use sec, min, hour or day, with a number in front if need be (5min)", s)
}

func positive(what, s string, most int64) (int64, error) {
	n, err := number(s)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s %q: give a whole number from 1 to %d", what, s, most)
	}
	return n, nil
}

const digits = "0123456789"

// number reads decimal digits, and nothing else: no sign, space or separator.
func number(s string) (int64, error) {
	if strings.Trim(s, digits) != "" {
		return 0, errors.New("not a number")
	}
	return strconv.ParseInt(s, 10, 64)
}

// Format writes a valid limit in the form that [Parse] reads, in the longest unit that
// divides the period: Parse(Format(l)) is l.
func Format(l store.Limit) string {
	s := l.Name + ":"
	switch {
	case l.Renews != nil:
		s += formatQuota(l)
	case l.Capacity != l.Amount:
		s += FormatRate(l) + ":" + strconv.FormatInt(l.Capacity, 10)
	default:
		s += FormatRate(l)
	}
	s += formatSchedule(l)
	if l.Carries.Rollover != 0 {
		s += rollover + strconv.FormatInt(l.Carries.Rollover, 10)
	}
	if l.Carries.Debt {
		s += debt
	}
	if l.Soft {
		s += soft
	}
	if l.Mode != store.Enforce {
		s += ":" + strings.Replace(l.ModeText(), " ", "=", 1)
	}
	if l.Returns != 0 {
		s += returns + strconv.Itoa(l.Returns) + "%"
	}
	return s
}

// FormatRate writes the rate of a limit in the form that [ParseRate] reads.
func FormatRate(l store.Limit) string {
	return strconv.FormatInt(l.Amount, 10) + "/" + period(l.Period)
}

// Display writes a limit for people: "rpm: 10,000/min (burst: 15,000)", or "rpd: 1,000@day
// (Europe/Berlin)" of a quota.
func Display(l store.Limit) string { return l.Name + ": " + Rate(l) }

// Rate is [Display] without the name.
func Rate(l store.Limit) string {
	if percent := l.Returns; percent != 0 {
		l.Returns = 0
		return Rate(l) + ", returns " + strconv.Itoa(percent) + "%"
	}
	if l.Soft {
		l.Soft = false
		return Rate(l) + ", soft"
	}
	if l.Mode != store.Enforce {
		mode := l.ModeText()
		l.Mode, l.Percent = store.Enforce, 0
		return Rate(l) + ", " + mode
	}
	if l.Renews != nil {
		return displayQuota(l)
	}
	s := Grouped(l.Amount) + "/" + period(l.Period)
	if l.Capacity != l.Amount {
		s += " (burst: " + Grouped(l.Capacity) + ")"
	}
	if l.Varies != nil {
		s += "; " + l.Varies.String()
		if zone := l.Zone(); zone != utc {
			s += " (" + zone + ")"
		}
	}
	return s
}

func period(d time.Duration) string {
	for _, u := range units {
		switch n := d / u.period; {
		case d%u.period != 0:
		case n == 1:
			return u.name
		default:
			return strconv.FormatInt(int64(n), 10) + u.name
		}
	}
	return d.String()
}

// Grouped is n with a comma before every third digit. Texts for people have such numbers, and
// JSON and CSV have plain ones.
func Grouped[N int | int64](n N) string { return GroupedDecimal(strconv.FormatInt(int64(n), 10)) }

// GroupedDecimal is a decimal number with commas as of [Grouped] in its whole part.
func GroupedDecimal(number string) string {
	const group = 3
	digits, sign := strings.CutPrefix(number, "-")
	digits, fraction, broken := strings.Cut(digits, ".")
	var b strings.Builder
	if sign {
		b.WriteByte('-')
	}
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%group == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(digits[i])
	}
	if broken {
		b.WriteString("." + fraction)
	}
	return b.String()
}
