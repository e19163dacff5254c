package limitarg_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/store"
)

// A quota may end in :rollover=tokens and :debt, and no other limit.
func TestQuotasThatCarry(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		format, display string
		carries         store.Carry
	}{
		"rpd:5@day:rollover=2":              {"rpd:5@day:rollover=2", "rpd: 5@day, rollover 2", store.Carry{Rollover: 2}},
		"rpd:5@day@Europe/Berlin:debt":      {"rpd:5@day@Europe/Berlin:debt", "rpd: 5@day (Europe/Berlin), debt", store.Carry{Debt: true}},
		"debt:5@day at 06:30:debt":          {"debt:5@day at 06:30:debt", "debt: 5@day at 06:30, debt", store.Carry{Debt: true}},
		"rpd:5000@month:debt:rollover=2000": {"rpd:5000@month:rollover=2000:debt", "rpd: 5,000@month, rollover 2,000, debt", store.Carry{Rollover: 2000, Debt: true}},
		"rpd:5@day:soft:rollover=2:debt":    {"rpd:5@day:rollover=2:debt:soft", "rpd: 5@day, rollover 2, debt, soft", store.Carry{Rollover: 2, Debt: true}},
	} {
		l, err := limitarg.Parse(text)
		p := limitarg.ParametersOf(l)
		if err != nil || l.Carries != want.carries || p.Rollover != want.carries.Rollover || p.Debt != want.carries.Debt {
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
	for _, text := range []string{
		"rpm:100:debt", "rpm:100/hour:rollover=5", "m:5@session 5h:debt", "m:5@session 5h:rollover=5", "rpd:5@day:rollover=0",
		"rpd:5@day:rollover=", "rpd:5@day:rollover=5001", "rpd:5@day:rollover=2:x", "rpm:100; * 9 * * * x0.5:debt",
	} {
		if l, err := limitarg.Parse(text); err == nil {
			t.Errorf("%s is %v", text, l)
		}
	}
	var limits limitarg.Limits
	if err := limits.Set("rpd:5@day:rollover=2:debt,rpm:100,tpd:5@0 0,12 * * *:debt"); err != nil || len(limits) != 3 || !limits[0].Carries.Debt || !limits[2].Carries.Debt {
		t.Errorf("%v, %v", limits, err)
	}
}
