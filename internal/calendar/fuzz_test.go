package calendar_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// Parse accepts what String writes, and Decode what Encode does: each gives the same pointer. Nothing panics or hangs, and
// all periods hold their instant.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"day", "week from monday at 06:30", "month from day 31", "last", "year from 29 february", "session 5h",
		"3 months since 2026-01-31T10:00:00Z", "*/15 9-17 * * MON-FRI; 0 0 29 2 */7", "5/20 1-23/3 28-31 */4 0",
	} {
		f.Add(seed, int64(1_700_000_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, at int64) {
		r, err := calendar.Parse(text, "America/St_Johns")
		if err != nil {
			checkError(t, text, err)
			return
		}
		if again, err := calendar.Parse(r.String(), "America/St_Johns"); again != r {
			t.Errorf("%q is written %q, which means %v, %v", text, r, again, err)
		}
		if compact, ok := r.Encode(); ok {
			if again, err := calendar.Decode(compact, "America/St_Johns"); again != r {
				t.Errorf("%q is stored as %q, which means %v, %v", text, compact, again, err)
			}
		}
		checkPeriod(t, r, at)
	})
}

// Decode accepts what Encode writes for whatever it accepted.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"1m0h0", "1m*/15h*/2D*/3M*/4w*/5", "z1m0h0E31", "z1m0h00E30", "z1N1T1769853600000", "1h9-17w1-5s500", "1M1,3w7a5p30;m5c7", "2m0"} {
		f.Add(seed, int64(1_700_000_000_000))
	}
	f.Fuzz(func(t *testing.T, compact string, at int64) {
		if r, err := calendar.Decode(compact, "Africa/Cairo"); err != nil {
			checkError(t, compact, err)
		} else {
			code, _ := r.Encode()
			if again, err := calendar.Decode(code, "Africa/Cairo"); again != r {
				t.Errorf("%q is stored as %q, which means %v, %v", compact, code, again, err)
			}
			if again, err := calendar.Parse(r.String(), "Africa/Cairo"); again != r {
				t.Errorf("%q is written %q, which means %v, %v", compact, r, again, err)
			}
			checkPeriod(t, r, at)
		}
		s, err := calendar.DecodeSchedule(compact, "Africa/Cairo")
		if err != nil {
			checkError(t, compact, err)
			return
		}
		if again, err := calendar.DecodeSchedule(s.Encode(), "Africa/Cairo"); again != s {
			t.Errorf("%q is stored as %q, which means %v, %v", compact, s.Encode(), again, err)
		}
		if next, ok := s.NextChange(at); ok && within(at) && next <= at {
			t.Errorf("%q changes after %d at %d", compact, at, next)
		}
	})
}

func checkError(t *testing.T, text string, err error) {
	t.Helper()
	var e *calendar.Error
	if !errors.As(err, &e) || e.Field == "" || e.Reason == "" || e.Advice == "" {
		t.Errorf("%q: %v says not what is wrong and what to do", text, err)
	}
}

// within reports whether an instant is within the bounds of the package.
func within(ms int64) bool {
	year := time.UnixMilli(ms).UTC().Year()
	return year >= 1970 && year < 2100
}

func checkPeriod(t *testing.T, r *calendar.Renewal, at int64) {
	t.Helper()
	if p := r.Period(at); within(at) && (at < p.Start || at >= p.End || p.End != r.Next(at)) {
		t.Errorf("%v: the period of %s is %s, and next %s", r, instant(at), span(p), instant(r.Next(at)))
	}
}
