package limitarg_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

// A rate may end in a schedule, with a zone or without. It is written back in one form, which is
// read again.
func TestSchedules(t *testing.T) {
	t.Parallel()
	checkForms(t, map[string]forms{
		"rpm:100; * 9-17 * * mon-fri x0.5":                                      {"rpm:100/min; * 9-17 * * 1-5 x0.5", "rpm: 100/min; * 9-17 * * 1-5 x0.5"},
		"rpm:100/min:150;* 0-5 * * * x10@Europe/Berlin":                         {"rpm:100/min:150; * 0-5 * * * x10@Europe/Berlin", "rpm: 100/min (burst: 150); * 0-5 * * * x10 (Europe/Berlin)"},
		"a:5/day; * * 1,2 * * capacity=7 ; 0-29 * * * * seconds=9 @ Asia/Tokyo": {"a:5/day; * * 1,2 * * capacity=7; 0-29 * * * * seconds=9@Asia/Tokyo", "a: 5/day; * * 1,2 * * capacity=7; 0-29 * * * * seconds=9 (Asia/Tokyo)"},
	})
	for text, says := range map[string]string{
		"rpm:100;":                                         "it does not say when",
		"rpm:100; * 9-17 * * mon-fri":                      "it does not say when",
		"rpm:0; * 9-17 * * mon-fri x2":                     "rate",
		"rpm; * 9-17 * * mon-fri x2":                       "two or three parts",
		"rpm:1; * 9-17 * * mon-fri x2@Mars":                "Mars",
		"rpd:5@day; * 9-17 * * mon-fri xx":                 "it has 6 fields",
		"rpd:5@day; * 9-17 * * 1-5 amount=2":               "a quota earns nothing",
		"rpd:5@day@Asia/Tokyo; * * * * 6 x2@Europe/Berlin": "the same time zone",
		"rpd:5@day; * * * * 6 x2:rollover=3":               "neither rollover nor carried debt",
	} {
		if l, err := limitarg.Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v; want an error that says %q", text, l, err, says)
		}
	}
}

// A quota may end in a schedule, after the entries of its calendar. One zone is that of both.
func TestSchedulesOfQuotas(t *testing.T) {
	t.Parallel()
	checkForms(t, map[string]forms{
		"rpd:1000@day; * * * * 6-7 x0.2":                             {"rpd:1000@day; * * * * 6-7 x0.2", "rpd: 1,000@day; * * * * 6-7 x0.2"},
		"rpd:9@day@Europe/Berlin; * 9-16 * * 1-5 x0.5":               {"rpd:9@day@Europe/Berlin; * 9-16 * * 1-5 x0.5", "rpd: 9@day (Europe/Berlin); * 9-16 * * 1-5 x0.5"},
		"rpd:9@day;* * * * 6 capacity=3@Europe/Berlin":               {"rpd:9@day@Europe/Berlin; * * * * 6 capacity=3", "rpd: 9@day (Europe/Berlin); * * * * 6 capacity=3"},
		"rpd:9@week from monday;month; * * 1,2 * * x2; * 0 * * * x3": {"rpd:9@week from monday; month; * * 1,2 * * x2; * 0 * * * x3", "rpd: 9@week from monday; month; * * 1,2 * * x2; * 0 * * * x3"},
		"rpd:9@0 0 * * *;0 12 * * *; * * * * 6 x2":                   {"rpd:9@day; day at 12:00; * * * * 6 x2", "rpd: 9@day; day at 12:00; * * * * 6 x2"},
		"chat:9@session 5h; * * * * 6 x2@Asia/Tokyo":                 {"chat:9@session 5h; * * * * 6 x2@Asia/Tokyo", "chat: 9@session 5h; * * * * 6 x2 (Asia/Tokyo)"},
		"rpd:9@month; until 2026-12-31T18:00 x2:soft":                {"rpd:9@month; until 2026-12-31T18:00:00Z x2:soft", "rpd: 9@month; until 2026-12-31T18:00:00Z x2, soft"},
	})
}

// forms are how a limit is written back, and for people.
type forms struct{ format, display string }

// checkForms checks how limits with schedules are written, that they are read again, and their JSON.
func checkForms(t *testing.T, texts map[string]forms) {
	t.Helper()
	for text, want := range texts {
		l, err := limitarg.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := limitarg.Format(l); got != want.format || limitarg.Display(l) != want.display {
			t.Errorf("%s is %q, %q", text, got, limitarg.Display(l))
		}
		if again, err := limitarg.Parse(limitarg.Format(l)); err != nil || again != l {
			t.Errorf("%s is read as %v, %v", limitarg.Format(l), again, err)
		}
		if p := limitarg.ParametersOf(l); p.Varies != l.Varies.String() || p.Zone != l.Zone() || p.Amount != l.Amount || (p.Renews != "") != (l.Renews != nil) {
			t.Errorf("%s in JSON: %+v", text, p)
		}
	}
}

// Commas of a schedule do not end its limit.
func TestCommasOfASchedule(t *testing.T) {
	t.Parallel()
	var limits limitarg.Limits
	if err := limits.Set("rpm:100; * 0,12 * * sat,sun x2@Europe/Berlin,tpm:5"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range limits {
		got = append(got, limitarg.Format(l))
	}
	if diff := cmp.Diff([]string{"rpm:100/min; * 0,12 * * 6,7 x2@Europe/Berlin", "tpm:5/min"}, got); diff != "" {
		t.Error(diff)
	}
}

// Any limit may end in :soft.
func TestSoftLimits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ format, display string }{
		"rpm:100:soft":                 {"rpm:100/min:soft", "rpm: 100/min, soft"},
		"rpm:100/hour:150:soft":        {"rpm:100/hour:150:soft", "rpm: 100/hour (burst: 150), soft"},
		"soft:100:soft":                {"soft:100/min:soft", "soft: 100/min, soft"},
		"rpd:5@day@Europe/Berlin:soft": {"rpd:5@day@Europe/Berlin:soft", "rpd: 5@day (Europe/Berlin), soft"},
		"rpd:5@day at 06:30:soft":      {"rpd:5@day at 06:30:soft", "rpd: 5@day at 06:30, soft"},
		"rpm:100; * 9-17 * * mon-fri x0.5@Europe/Berlin:soft": {"rpm:100/min; * 9-17 * * 1-5 x0.5@Europe/Berlin:soft", "rpm: 100/min; * 9-17 * * 1-5 x0.5 (Europe/Berlin), soft"},
	} {
		l, err := limitarg.Parse(text)
		if err != nil || !l.Soft || !limitarg.ParametersOf(l).Soft {
			t.Errorf("%s: %v, %v", text, l, err)
			continue
		}
		if got := limitarg.Format(l); got != want.format || limitarg.Display(l) != want.display {
			t.Errorf("%s is %q, %q", text, got, limitarg.Display(l))
		}
		if again, err := limitarg.Parse(limitarg.Format(l)); err != nil || again != l {
			t.Errorf("%s is read as %v, %v", limitarg.Format(l), again, err)
		}
	}
	for _, text := range []string{"rpm:soft", "soft", ":soft", "rpm:100:soft:soft:5"} {
		if l, err := limitarg.Parse(text); err == nil || l.Soft {
			t.Errorf("%s is %v", text, l)
		}
	}
	var limits limitarg.Limits
	if err := limits.Set("rpd:5@day:soft,rpm:100; * 0,12 * * * x2:soft,tpm:5"); err != nil || len(limits) != 3 || !limits[1].Soft || limits[2].Soft {
		t.Errorf("%v, %v", limits, err)
	}
}
