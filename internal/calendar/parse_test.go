package calendar_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// A specification is written back and stored in one form. Specifications that mean the same are
// one pointer.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want, compact string }{
		{"day", "day", "1m0h0"},
		{"0 0 * * *", "day", "1m0h0"},
		{" Day  at 06:30 ", "day at 06:30", "1m30h6"},
		{"week", "week from monday", "1m0h0w1"},
		{"week from Sunday at 23:59", "week from sunday at 23:59", "1m59h23w7"},
		{"0 0 * * 0", "week from sunday", "1m0h0w7"},
		{"month", "month", "1m0h0D1"},
		{"month from day 15", "month from day 15", "1m0h0D15"},
		{"month from day 28", "month from day 28", "1m0h0D28"},
		{"month from day 29", "month from day 29", "z1m0h0E29"},
		{"day 31", "month from last day", "z1m0h0E31"},
		{"last", "month from last day", "z1m0h0E31"},
		{"last day at 12:00", "month from last day at 12:00", "z1m0h12E31"},
		{"month from last day", "month from last day", "z1m0h0E31"},
		{"0 0 31 * *", "0 0 31 * *", "1m0h0D31"},
		{"year", "year", "1m0h0D1M1"},
		{"year from 31 december", "year from 31 december", "1m0h0D31M12"},
		{"year from 31 april", "year from 30 april", "1m0h0D30M4"},
		{"year from 29 february at 01:00", "year from 29 february at 01:00", "z1m0h1E29M2"},
		{"0 0 29 2 *", "0 0 29 2 *", "1m0h0D29M2"},
		{"month since 2026-01-31T10:00:00Z", "month since 2026-01-31T10:00:00Z", "z1N1T1769853600000"},
		{"3 months since 2026-01-31T10:00:00.25+01:00", "3 months since 2026-01-31T09:00:00.25Z", "z1N3T1769850000250"},
		{"24 months since 2026-01-31T10:00:00Z", "2 years since 2026-01-31T10:00:00Z", "z1N24T1769853600000"},
		{"year since 2026-01-31T10:00:00Z", "year since 2026-01-31T10:00:00Z", "z1N12T1769853600000"},
		{"day; 0 12 * * mon-fri", "day; 0 12 * * 1-5", "1m0h0;m0h12w1-5"},
		{"*/15 */2 */3 jan,MAR sun", "*/15 */2 */3 1,3 7", "1m*/15h*/2D*/3M1,3w7"},
		{"0 0 * * SUN-THU", "0 0 * * 0-4", "1m0h0w0-4"},
		{"00 00 * * *", "00 00 * * *", "1m00h00"},
		{"last; day at 12:00", "month from last day; day at 12:00", "z1m0h0E31;m0h12"},
	} {
		r, err := calendar.Parse(tt.text, "Europe/Berlin")
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if got := r.String(); got != tt.want {
			t.Errorf("%q is written %q, want %q", tt.text, got, tt.want)
		}
		compact, ok := r.Encode()
		if compact != tt.compact || !ok || r.ForPeer() != strings.HasPrefix(tt.compact, "1") {
			t.Errorf("%q is stored as %q, %t, for the peer %t; want %q", tt.text, compact, ok, r.ForPeer(), tt.compact)
		}
		patterns := r.Patterns()
		if (len(patterns) > 0) != r.ForPeer() {
			t.Errorf("%q: the patterns are %q", tt.text, patterns)
		}
		if r.ForPeer() && parse(t, strings.Join(patterns, ";"), "Europe/Berlin") != r {
			t.Errorf("%q: the patterns %q are another renewal", tt.text, patterns)
		}
		if again, err := calendar.Decode(compact, "Europe/Berlin"); again != r {
			t.Errorf("%q: decoded from %q to %v, %v: want the same pointer", tt.text, compact, again, err)
		}
		if again := parse(t, tt.want, "Europe/Berlin"); again != r {
			t.Errorf("%q and %q are two renewals", tt.text, tt.want)
		}
		if other := parse(t, tt.text, "Europe/Paris"); other == r || other.Zone() != "Europe/Paris" {
			t.Errorf("%q: the renewal in another zone is the same, or in %s", tt.text, other.Zone())
		}
	}
}

func TestParseSession(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"session 5h": "session 5h", "session 90m": "session 90m", "session 7d": "session 7d", "session 3600s": "session 1h",
		"session 1h30m1s": "session 5401s", " session  24h ": "session 1d",
	} {
		r := parse(t, text, "")
		if r.String() != want || r != parse(t, want, "") {
			t.Errorf("%q is written %q, want %q, and the same pointer", text, r, want)
		}
		if compact, ok := r.Encode(); ok || r.Zone() != "" {
			t.Errorf("%q is stored as %q in zone %q", text, compact, r.Zone())
		}
	}
}

// A session begins with a use, and the first use after its end begins the next one.
func TestSession(t *testing.T) {
	t.Parallel()
	r := parse(t, "session 5h", "")
	for _, tt := range []struct{ opened, at, start int64 }{
		{0, 0, 0},
		{0, 5*hour - 1, 0},
		{0, 5 * hour, 5 * hour},
		{0, 9 * hour, 9 * hour},
		{2 * hour, hour, hour}, // a clock that is behind
	} {
		if got, want := r.Window(tt.opened, tt.at), (calendar.Period{Start: tt.start, End: tt.start + 5*hour}); got != want {
			t.Errorf("opened at %d, a use at %d: %v, want %v", tt.opened, tt.at, got, want)
		}
	}
	if r.Session() != 5*hour || r.Next(7) != 7+5*hour {
		t.Errorf("the session has %d ms, and the one of a use at 7 ends at %d", r.Session(), r.Next(7))
	}
	if day := parse(t, "day", ""); day.Window(-hour, hour) != day.Period(hour) || day.Session() != 0 || day.Zone() != "UTC" {
		t.Errorf("a day has window %v and session %d in %s", day.Window(-hour, hour), day.Session(), day.Zone())
	}
}

// Each mistake has an error that names the part, quotes it, and says what to write.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, zone, field, message string }{
		{"60 0 * * *", "", "minute", `invalid minute "60": 60 is not from 0 to 59: give numbers from 0 to 59 as *, a list, a range or a step, like 0, */15 or 0-29`},
		{"0 24 * * *", "", "hour", `invalid hour "24": 24 is not from 0 to 23`},
		{"0 17-9 * * *", "", "hour", `invalid hour "17-9": the range 17-9 runs backwards`},
		{"0 0 0 * *", "", "day of the month", `"0": 0 is not from 1 to 31`},
		{"0 0 * 13 *", "", "month", `13 is not from 1 to 12`},
		{"0 0 * MAI *", "", "month", `"MAI" is not a number: give numbers from 1 to 12`},
		{"0 0 * * 8", "", "weekday", `8 is not from 0 to 7`},
		{"0 0 * * FRI-SUN", "", "weekday", "the range FRI-SUN runs backwards"},
		{"0 0 * * 1#2", "", "weekday", "L, W, # and ? are not understood"},
		{"0 0 L * *", "", "day of the month", `write "month from last day"`},
		{"0 0 ? * 1", "", "day of the month", "L, W, # and ? are not understood"},
		{"*/0 0 * * *", "", "minute", `the step "0" is not a positive number`},
		{"0 1,,2 * * *", "", "hour", `"" is not a number`},
		{"+5 0 * * *", "", "minute", `"+5" is not a number`},
		{"0 0 30 2 *", "", "day of the month", `invalid day of the month "30": no month that is given has such a day: give a day that month 2 has`},
		{"0 0 31 2,4 *", "", "day of the month", "give a day that month 2,4 has"},
		{"0 0 30 2 */7", "", "day of the month", "no month that is given has such a day"},
		{"0 0 * *", "", "pattern", "it has 4 fields: give five"},
		{"0 0 0 * * *", "", "pattern", "it has 6 fields"},
		{"* * * * *", "", "pattern", "it matches every minute, so the quota would never renew"},
		{"day; 0-59 0-23 1-31 * *", "", "pattern", "it matches every minute"},
		{"* * 5 * 0-6", "", "pattern", "it matches every minute"},
		{"@daily", "", "pattern", "it has 1 fields"},
		{"day", "Mars/Olympus", "zone", `invalid zone "Mars/Olympus": it is not a name of the IANA time zone database`},
		{"day", "Local", "zone", "give a name like Europe/Berlin or UTC"},
		{"", "", "renewal", "an entry is empty: write day, week from monday"},
		{"day;", "", "renewal", "an entry is empty"},
		{"fortnight", "", "renewal", `invalid renewal "fortnight": it is not understood: write day`},
		{"month from 31", "", "renewal", "it is not understood"},
		{"day from 31", "", "renewal", "it is not understood"},
		{"week from mon", "", "weekday", "it is not a day of the week: write week from monday"},
		{"year from 29 febbraio", "", "month", "it is not a month: write year from 29 february"},
		{"month from day 32", "", "day of the month", "32 is not from 1 to 31"},
		{"year from 0 may", "", "day of the month", "0 is not from 1 to 31"},
		{"month from day first", "", "day of the month", "it is not a number: give a day from 1 to 31"},
		{"day at 24:00", "", "time", "it is not a time of day: write at 06:30"},
		{"day at 6:30", "", "time", "it is not a time of day"},
		{"day at", "", "time", "it is not a time of day"},
		{"month since yesterday", "", "anchor", "it is not an instant: write one like 2026-01-31T10:00:00Z"},
		{"month since 1850-01-01T00:00:00Z", "", "anchor", "it is not from 1900 to 2200"},
		{"0 months since 2026-01-31T10:00:00Z", "", "months", "is not from 1 to 1200 months"},
		{"101 years since 2026-01-31T10:00:00Z", "", "months", "is not from 1 to 1200 months"},
		{"9223372036854775807 years since 2026-01-31T10:00:00Z", "", "months", "is not from 1 to 1200 months"},
		{"2 weeks since 2026-01-31T10:00:00Z", "", "renewal", "it is not understood"},
		{"session", "", "renewal", "it is not understood"},
		{"session 0s", "", "session", "its length is not from 1 to 1000000000 seconds: give a length like 5h, 90m or 7d"},
		{"session 1ms", "", "session", "it is not a number of whole seconds"},
		{"session 5h", "Europe/Berlin", "zone", "a session follows no clock of a place: give a session no time zone"},
		{"session 5h; day", "", "session", "it is not a number of whole seconds"},
		{strings.Repeat("x", 60) + " 1 * * *", "", "renewal", `"` + strings.Repeat("x", 50) + `…"`},
	} {
		r, err := calendar.Parse(tt.text, tt.zone)
		var e *calendar.Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v, %v; want an error of the package", tt.text, r, err)
			continue
		}
		if e.Field != tt.field || !strings.Contains(err.Error(), tt.message) || e.Reason == "" || e.Advice == "" {
			t.Errorf("%q: the %s is wrong: %v\nwant the %s: %s", tt.text, e.Field, err, tt.field, tt.message)
		}
	}
}
