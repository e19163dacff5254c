package calendar_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// Schedules as the peer stores them.
func TestSchedules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		compact string
		want    []calendar.Change
	}{
		{"1h9-17w1-5s500", []calendar.Change{{Cron: "* 9-17 * * 1-5", Permille: 500}}},
		{"1M1,3w7a5p30;m*/5h9-17w1-5s500", []calendar.Change{
			{Cron: "* * * 1,3 7", Amount: 5, Seconds: 30}, {Cron: "*/5 9-17 * * 1-5", Permille: 500},
		}},
		{"z1U1798736400000s2000;h0-5s3000", []calendar.Change{{Until: 1798736400000, Permille: 2000}, {Cron: "* 0-5 * * *", Permille: 3000}}},
		{"1c1000000000000000", []calendar.Change{{Cron: "* * * * *", Capacity: 1_000_000_000_000_000}}},
	} {
		s, err := calendar.DecodeSchedule(tt.compact, "")
		if err != nil {
			t.Errorf("%q: %v", tt.compact, err)
			continue
		}
		if !slices.Equal(s.Changes(), tt.want) || s.Encode() != tt.compact || s.Zone() != "UTC" {
			t.Errorf("%q has %+v in %s, and is stored as %q", tt.compact, s.Changes(), s.Zone(), s.Encode())
		}
		again, err := calendar.NewSchedule(tt.want, "UTC")
		if again != s {
			t.Errorf("%q: the same schedule is another pointer, %v", tt.compact, err)
		}
		if back, err := calendar.DecodeSchedule(tt.compact, "UTC"); back != s {
			t.Errorf("%q: decoded again it is another pointer, %v", tt.compact, err)
		}
	}
}

// The scale is computed as the peer does, and stays in bounds.
func TestScale(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ capacity, amount, permille, wantCapacity, wantAmount int64 }{
		{10_000, 0, 500, 5000, 0},
		{10_000, 1, 1, 10, 1},
		{1001, 3, 333, 333, 1},
		{1_000_000_000_000_000_000, 1000, 1_000_000_000, 1_000_000_000_000_000_000, 1_000_000_000},
	} {
		s, err := calendar.NewSchedule([]calendar.Change{{Cron: "* * * * *", Permille: tt.permille}}, "")
		if err != nil {
			t.Fatal(err)
		}
		got, _ := s.At(0, calendar.Params{Capacity: tt.capacity, Amount: tt.amount, Period: 7})
		if want := (calendar.Params{Capacity: tt.wantCapacity, Amount: tt.wantAmount, Period: 7}); got != want {
			t.Errorf("scaled by %d: %+v, want %+v", tt.permille, got, want)
		}
	}
}

// A code that no version writes is an error. So is a code that only a later version understands.
func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		compact, message string
		newer            bool
	}{
		{"", "it begins with no version", false},
		{"m0h0", "it begins with no version", false},
		{"0m0", "there is no version 0", false},
		{"1", "it has no entry", false},
		{"z1", "it has no entry", false},
		{"2m0h0", "its encoding is newer than this version: upgrade this client", true},
		{"10m0", "its encoding is newer", true},
		{"99999999999999999999m0", "its encoding is newer", true},
		{"z2m0h0E31", "its encoding is newer", true},
		{"1m0h0;", "matches every minute", false},
		{"1m0m0", "m occurs twice", false},
		{"1m0x5", `'x' is not one of the tags`, false},
		{"1mh0", "m has no value", false},
		{"1m60h0", "60 is not from 0 to 59", false},
		{"1m0h0s500", `'s' is not one of the tags`, false},
		{"1m0h0E31", `'E' is not one of the tags`, false},
		{"1N1T0", `'N' is not one of the tags`, false},
		{"z1m0h0D1E31", "E is one day", false},
		{"z1m0h0E31w1", "E is one day", false},
		{"z1E31", "E is one day", false},
		{"z1m0h0E1,31", "E is one day", false},
		{"z1m0h0E31M1,2", "E is one day", false},
		{"z1m0h0E32", "32 is not from 1 to 31", false},
		{"z1N1", "months and an anchor", false},
		{"z1N1T5m0", "months and an anchor", false},
		{"z1N0T5", "is not from 1 to 1200 months", false},
		{"z1N1T99999999999999", "it is not from 1900 to 2200", false},
	} {
		r, err := calendar.Decode(tt.compact, "UTC")
		checkDecodeError(t, tt.compact, r != nil, err, tt.message, tt.newer)
	}
	for _, tt := range []struct {
		compact, message string
		newer            bool
	}{
		{"m0s5", "it begins with no version", false},
		{"2s5", "newer", true},
		{"z1m0h0E31", `'E' is not one of the tags`, false},
		{"1U5s500", `'U' is not one of the tags`, false},
		{"z1U5h3s500", "an instant and no fields of cron", false},
		{"z1U0s500", "an instant and no fields of cron", false},
		{"z1U5-7s500", "an instant and no fields of cron", false},
		{"z1U99999999999999s5", "it is out of bounds", false},
		{"1m0h0", "it must either scale the limit, or set some of its parameters", false},
		{"1s500c10", "it must either scale the limit", false},
		{"1s0", "s is not a positive number", false},
		{"1c1,2", "c is not a positive number", false},
		{"1s1000000001", "it is out of bounds: give a number from 1 to 1000000000", false},
		{"1c1000000000000001", "it is out of bounds", false},
		{"1a1000000000000001", "it is out of bounds", false},
		{"1p1000000001", "it is out of bounds", false},
		{"1D30M2s5", "no month that is given has such a day", false},
	} {
		s, err := calendar.DecodeSchedule(tt.compact, "UTC")
		checkDecodeError(t, tt.compact, s != nil, err, tt.message, tt.newer)
	}
	if _, err := calendar.Decode("1m0h0", "Mars/Olympus"); err == nil {
		t.Error("a zone that is not known is UTC")
	}
	if _, err := calendar.DecodeSchedule("1s5", "Mars/Olympus"); err == nil {
		t.Error("a zone that is not known is UTC")
	}
	if _, err := calendar.NewSchedule(nil, ""); err == nil {
		t.Error("a schedule has no entry")
	}
}

func checkDecodeError(t *testing.T, compact string, decoded bool, err error, message string, newer bool) {
	t.Helper()
	var e *calendar.Error
	if decoded || !errors.As(err, &e) || !strings.Contains(err.Error(), message) || errors.Is(err, calendar.ErrNewer) != newer {
		t.Errorf("%q: decoded %t, %v, newer %t; want the error: %s", compact, decoded, err, errors.Is(err, calendar.ErrNewer), message)
	}
}
