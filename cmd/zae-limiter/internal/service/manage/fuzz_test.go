package manage_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

// Whatever is given as an end: it is refused with the name of the field, or it is after now, and the same however
// it is written. So many days are so many times 24 hours.
func FuzzUntil(f *testing.F) {
	now := time.Date(2026, time.November, 27, 12, 0, 0, 0, time.UTC)
	for _, seed := range []string{"2h", "3d", "fri", "Monday", "2026-12-24", "2026-11-27T13:00:00.5+02:00", "9999-12-31T23:59:59Z", "106752d", "213504d", "-5d", "+5d", "9223372036854775807d", "2562047h", "1ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := manage.ParseUntil(text, now)
		if err != nil {
			invalid, ok := errors.AsType[*store.ValidationError](err)
			if !ok || invalid.Field != "until" || !got.IsZero() {
				t.Errorf("%q: %v, %v", text, got, err)
			}
			return
		}
		if got.Before(now) || got.Nanosecond()%int(time.Millisecond) != 0 {
			t.Errorf("%q is %v", text, got)
		}
		if days, ok := strings.CutSuffix(text, "d"); ok {
			n, ok := new(big.Int).SetString(days, 10)
			is := big.NewInt(int64(got.Sub(now)))
			if !ok || n.Mul(n, big.NewInt(int64(24*time.Hour))).Cmp(is) != 0 {
				t.Errorf("%q is %v", text, got)
			}
		}
		if again, err := manage.ParseUntil(got.Format(time.RFC3339Nano), now); got.After(now) && (err != nil || !again.Equal(got)) {
			t.Errorf("%q is %v, and that is %v, %v", text, got, again, err)
		}
	})
}

// Whatever is given as a range: it is refused with the name of a field, or it is not empty.
func FuzzRange(f *testing.F) {
	for _, seed := range [][2]string{{"", ""}, {"2026-01-01", ""}, {"", "2026-01-01"}, {"2026-01-01", "2026-01-01"}, {"2026-01-02", "2026-01-01"}, {"0000-01-01", "9999-12-31"}, {"2026-01-01T00:00:00Z", "2026-01-01T00:00:00+01:00"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, start, end string) {
		from, to, err := manage.ParseRange(start, end)
		if err != nil {
			if invalid, ok := errors.AsType[*store.ValidationError](err); !ok || invalid.Field != "start" && invalid.Field != "end" {
				t.Errorf("%q, %q: %v", start, end, err)
			}
			return
		}
		if start != "" && from.IsZero() != strings.HasPrefix(start, "0001-01-01") || end != "" && !from.Before(to) || end == "" && !to.IsZero() {
			t.Errorf("%q, %q: %v, %v", start, end, from, to)
		}
	})
}
