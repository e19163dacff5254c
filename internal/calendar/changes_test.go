package calendar_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// What people write becomes what the peer stores, and is written back in one way.
func TestScheduleInWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, compact, again string }{
		{"* 9-17 * * mon-fri x0.5", "1h9-17w1-5s500", "* 9-17 * * 1-5 x0.5"},
		{"* 9-17 * * MON-FRI  x.5", "", ""},
		{"0-29 * * * * x10;* * * * sat,sun x1.025", "1m0-29s10000;w6,7s1025", "0-29 * * * * x10; * * * * 6,7 x1.025"},
		{" * 0-5 * * * amount=1000 capacity=2000 ", "1h0-5c2000a1000", "* 0-5 * * * capacity=2000 amount=1000"},
		{"* * 24-26 12 * seconds=3600", "1D24-26M12p3600", "* * 24-26 12 * seconds=3600"},
		{"* * * * * x0.001", "1s1", "* * * * * x0.001"},
		{"until 2026-12-31T18:00 x2", "z1U1798736400000s2000", "until 2026-12-31T17:00:00Z x2"},
		{"UNTIL 2027-01-01 amount=5; * 0-5 * * * x3", "z1U1798758000000a5;h0-5s3000", "until 2026-12-31T23:00:00Z amount=5; * 0-5 * * * x3"},
		{"until 2026-12-31T17:00:00.5Z x2", "z1U1798736400500s2000", "until 2026-12-31T17:00:00.5Z x2"},
	} {
		s, err := calendar.ParseSchedule(tt.text, "Europe/Berlin")
		if tt.compact == "" {
			if err == nil {
				t.Errorf("%q is read as %v", tt.text, s)
			}
			continue
		}
		if err != nil || s.Encode() != tt.compact || s.String() != tt.again || s.Zone() != "Europe/Berlin" {
			t.Errorf("%q is %v, %v; want %s, %s", tt.text, s, err, tt.compact, tt.again)
			continue
		}
		if back, err := calendar.ParseSchedule(s.String(), "Europe/Berlin"); back != s {
			t.Errorf("%v is read as %v, %v", s, back, err)
		}
	}
}

// Each wrong part is named, and what to write in its place.
func TestScheduleErrors(t *testing.T) {
	t.Parallel()
	for text, value := range map[string]string{
		"":                                  "",
		"* * * * *":                         "* * * * *",
		"until 2026-12-31T18:00":            "until 2026-12-31T18:00",
		"until":                             "until",
		"until friday x2":                   "friday",
		"until 2200-01-02T00:00:00Z x2":     "7258204800000",
		"until 2026-12-31T18:00 * x2":       "*",
		"* * * * * 0.5":                     "0.5",
		"* * * * * x0":                      "x0",
		"* * * * * x":                       "x",
		"* * * * * x1.":                     "x1.",
		"* * * * * x1.2345":                 "x1.2345",
		"* * * * * x-1":                     "x-1",
		"* * * * * x2 x3":                   "x3",
		"* * * * * capacity=0":              "capacity=0",
		"* * * * * capacity=1 capacity=2":   "capacity=2",
		"* * * * * x2 capacity=1":           "* * * * *",
		"* 25 * * * x2":                     "25",
		"* 9 * * * x2; day x3":              "day x3",
		"* * * * * x99999999999999999999":   "x99999999999999999999",
		"* * * * * amount=2000000000000000": "2000000000000000",
	} {
		_, err := calendar.ParseSchedule(text, "")
		e, ok := errors.AsType[*calendar.Error](err)
		if !ok || e.Value != value || e.Advice == "" || e.Field == "" {
			t.Errorf("%q: %v, want one that names %q", text, err, value)
		}
	}
	if _, err := calendar.ParseSchedule("* * * * * x2", "Mars/Olympus"); err == nil || !strings.Contains(err.Error(), "Mars/Olympus") {
		t.Error(err)
	}
}
