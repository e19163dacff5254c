package calendar_test

import (
	"testing"
	"time"
)

// The table of docs/calendar.md: what happens on the days on which the clocks of a zone change. Edges are what the wall
// reads, with its zone.
func TestClocksThatChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, spec, zone string
		from             string // midnight in UTC
		days             int
		want             []string
	}{
		{
			"the time is skipped: the end of the gap", "day at 02:30", "America/New_York", "2026-03-08", 2,
			[]string{"2026-03-08 03:00 EDT", "2026-03-09 02:30 EDT"},
		},
		{
			"the time comes twice: once", "30 1 * * *", "America/New_York", "2026-11-01", 2,
			[]string{"2026-11-01 01:30 EDT", "2026-11-02 01:30 EST"},
		},
		{"no midnight", "day", "America/Sao_Paulo", "2018-11-04", 2, []string{"2018-11-04 01:00 -02", "2018-11-05 00:00 -02"}},
		{"no midnight", "day", "Africa/Cairo", "2026-04-23", 2, []string{"2026-04-24 01:00 EEST", "2026-04-25 00:00 EEST"}},
		{"no midnight", "day", "America/Havana", "2026-03-08", 2, []string{"2026-03-08 01:00 CDT", "2026-03-09 00:00 CDT"}},
		{"two midnights", "day", "America/Havana", "2026-11-01", 2, []string{"2026-11-01 00:00 CDT", "2026-11-02 00:00 CST"}},
		{
			"a gap of half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03", 2,
			[]string{"2026-10-04 02:30 +11", "2026-10-05 02:15 +11"},
		},
		{"a date is skipped", "day at 12:00", "Pacific/Apia", "2011-12-29", 3, []string{
			"2011-12-29 12:00 -10", "2011-12-31 00:00 +14", "2011-12-31 12:00 +14", "2012-01-01 12:00 +14",
		}},
		{"a date is skipped with its midnight", "day", "Pacific/Apia", "2011-12-29", 3, []string{
			"2011-12-29 00:00 -10", "2011-12-31 00:00 +14", "2012-01-01 00:00 +14",
		}},
		{"a time before a midnight that is skipped", "30 23 * * *", "America/Nuuk", "2024-03-31", 2, []string{
			"2024-03-31 00:00 -01", "2024-03-31 23:30 -01",
		}},
		{"hourly follows real time: 25 hours", "0 * * * *", "America/New_York", "2026-11-01", 1, []string{
			"2026-10-31 20:00 EDT", "2026-10-31 21:00 EDT", "2026-10-31 22:00 EDT", "2026-10-31 23:00 EDT",
			"2026-11-01 00:00 EDT", "2026-11-01 01:00 EDT", "2026-11-01 01:00 EST", "2026-11-01 02:00 EST",
			"2026-11-01 03:00 EST", "2026-11-01 04:00 EST", "2026-11-01 05:00 EST", "2026-11-01 06:00 EST",
			"2026-11-01 07:00 EST", "2026-11-01 08:00 EST", "2026-11-01 09:00 EST", "2026-11-01 10:00 EST",
			"2026-11-01 11:00 EST", "2026-11-01 12:00 EST", "2026-11-01 13:00 EST", "2026-11-01 14:00 EST",
			"2026-11-01 15:00 EST", "2026-11-01 16:00 EST", "2026-11-01 17:00 EST", "2026-11-01 18:00 EST",
		}},
		{"all hours written out are fixed times", "0 0-3 * * *", "America/New_York", "2026-11-01", 1, []string{
			"2026-11-01 00:00 EDT", "2026-11-01 01:00 EDT", "2026-11-01 02:00 EST", "2026-11-01 03:00 EST",
		}},
		{"a run of minutes is one edge", "* 9-17 * * *", "UTC", "2026-01-01", 2, []string{"2026-01-01 09:00 UTC", "2026-01-02 09:00 UTC"}},
		{"date or weekday", "0 0 1 * 1", "UTC", "2026-05-30", 10, []string{
			"2026-06-01 00:00 UTC", "2026-06-08 00:00 UTC",
		}},
		{"date and weekday, because one begins with *", "0 0 1 * */7", "UTC", "2026-05-30", 200, []string{"2026-11-01 00:00 UTC"}},
	} {
		r := parse(t, tt.spec, tt.zone)
		loc, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, err := time.Parse(time.DateOnly, tt.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		end := from.AddDate(0, 0, tt.days).UnixMilli()
		for at := r.Next(from.UnixMilli() - 1); at < end; at = r.Next(at) {
			got = append(got, time.UnixMilli(at).In(loc).Format("2006-01-02 15:04 MST"))
		}
		same(t, tt.name+": "+tt.spec+" in "+tt.zone, got, tt.want)
	}
}

// A pattern that follows real time, and matches in an hour that repeats and then not for a year: the change of the clocks is
// far from the next day that matches, and counts all the same.
func TestRareHourThatRepeats(t *testing.T) {
	t.Parallel()
	r := parse(t, "30 1/23 1 11 *", "America/New_York") // 1/23 is 1 alone, in real time
	at := func(text string) int64 {
		instant, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return instant.UnixMilli()
	}
	first, second := at("2026-11-01T01:30:00-04:00"), at("2026-11-01T01:30:00-05:00")
	if got := r.Next(at("2026-11-01T01:45:00-04:00")); got != second {
		t.Errorf("the edge after the first 01:45 is %s, want %s", instant(got), instant(second))
	}
	if got := r.Period(at("2026-11-01T01:15:00-05:00")).Start; got != first {
		t.Errorf("the period of the second 01:15 begins at %s, want %s", instant(got), instant(first))
	}
}

// The ends of months: a day that is clamped comes back, cron leaves a month out, and a leap day is never farther than the
// eight years from 2096 to 2104.
func TestEndsOfMonths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spec string
		from string
		want []string
	}{
		{"month from day 31", "2027-12-31", []string{"2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30", "2028-05-31"}},
		{"month from last day", "2026-12-31", []string{"2027-01-31", "2027-02-28", "2027-03-31"}},
		{"month from last day", "2100-01-31", []string{"2100-02-28", "2100-03-31"}},
		{"month from last day", "2000-01-31", []string{"2000-02-29", "2000-03-31"}},
		{"month from day 29", "2026-12-31", []string{"2027-01-29", "2027-02-28", "2027-03-29"}},
		{"month", "2026-12-31", []string{"2027-01-01", "2027-02-01"}},
		{"0 0 31 * *", "2026-01-31", []string{"2026-03-31", "2026-05-31", "2026-07-31", "2026-08-31"}},
		{"month since 2026-01-31T00:00:00Z", "2026-01-31", []string{"2026-02-28", "2026-03-31", "2026-04-30"}},
		{"year from 29 february", "2026-01-01", []string{"2026-02-28", "2027-02-28", "2028-02-29", "2029-02-28"}},
		{"0 0 29 2 *", "2092-01-01", []string{"2092-02-29", "2096-02-29", "2104-02-29"}},
		{"year since 2024-02-29T00:00:00Z", "2024-02-29", []string{"2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"}},
		{"week from monday", "2026-11-27", []string{"2026-11-30", "2026-12-07"}},
		{"day 15; last day", "2026-01-01", []string{"2026-01-15", "2026-01-31", "2026-02-15", "2026-02-28"}},
		// The peer finds no edge before 15 March, because it looks 31 days back.
		{"0 0 31 * *", "2026-01-30", []string{"2026-01-31", "2026-03-31"}},
	} {
		r := parse(t, tt.spec, "UTC")
		at, err := time.Parse(time.DateOnly, tt.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range tt.want {
			next := r.Next(at.UnixMilli())
			at = time.UnixMilli(next).UTC()
			got = append(got, at.Format(time.DateOnly))
			if p := r.Period(next + 1); p.Start != next {
				t.Errorf("%s: after its edge at %s, the period is %s", tt.spec, at, span(p))
			}
		}
		same(t, tt.spec, got, tt.want)
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("%s: %q\nwant %q", what, got, want)
			return
		}
	}
}
