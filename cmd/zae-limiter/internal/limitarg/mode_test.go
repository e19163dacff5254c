package limitarg_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestModes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rpm:100/min:shadow":                 "rpm:100/min:shadow",
		"rpm:100/min:150:shadow=80%":         "rpm:100/min:150:shadow=80%",
		"rpd:1000@day:rollover=5:off":        "rpd:1000@day:rollover=5:off",
		"rpm:100/min;0-59 9 * * * x2:off=1%": "rpm:100/min; 0-59 9 * * * x2:off=1%",
		"rpm:100/min:shadow=100%":            "rpm:100/min:shadow",
		"rpm:100/min:enforce":                "rpm:100/min",
	} {
		l, err := limitarg.Parse(text)
		if err != nil || limitarg.Format(l) != want {
			t.Errorf("%s is %s, %v", text, limitarg.Format(l), err)
		}
		if again, err := limitarg.Parse(limitarg.Format(l)); err != nil || again != l {
			t.Errorf("%s is read as %v, %v", limitarg.Format(l), again, err)
		}
	}
	for _, text := range []string{"rpm:100:soft:shadow", "rpm:100:shadow:soft", "rpm:100:shadow=0%", "rpm:100:shadow=101%", "rpm:100:shadow=80", "rpm:100:enforce=5%"} {
		if l, err := limitarg.Parse(text); err == nil && l.Validate() == nil {
			t.Errorf("%s is %v", text, l)
		}
	}
	if l, _ := limitarg.Parse("rpm:100/min:shadow=80%"); limitarg.Rate(l) != "100/min, shadow 80%" || l.Of("a").Percent != 0 || l.Refuses() || !(store.Limit{}).Refuses() {
		t.Errorf("%v", l)
	}
}
