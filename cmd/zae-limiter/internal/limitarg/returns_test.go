package limitarg_test

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestReturnsOfLimits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"tpm:1000:returns=50%":                        "tpm:1000/min:returns=50%",
		"tpd:1000@day:returns=100%":                   "tpd:1000@day:returns=100%",
		"tpm:1000:returns=5%:soft":                    "tpm:1000/min:soft:returns=5%",
		"tpm:1000:shadow=80%:returns=5%":              "tpm:1000/min:shadow=80%:returns=5%",
		"tpd:1000@day:rollover=10:debt:returns=1%":    "tpd:1000@day:rollover=10:debt:returns=1%",
		"tpm:100;0-59 9-16 * * * x0.5:returns=40%":    "tpm:100/min; 0-59 9-16 * * * x0.5:returns=40%",
		"tpd:1000@day:returns=1%:rollover=10:debt":    "tpd:1000@day:rollover=10:debt:returns=1%",
		"tpm:100;0-59 9-16 * * * x0.5@UTC:returns=7%": "tpm:100/min; 0-59 9-16 * * * x0.5:returns=7%",
	} {
		l, err := limitarg.Parse(text)
		if got := limitarg.Format(l); err != nil || got != want || l.Returns == 0 {
			t.Errorf("%s is %s (%v), %v; want %s", text, got, l, err, want)
		}
		again, err := limitarg.Parse(want)
		if err != nil || again != l {
			t.Errorf("%s is %v, %v", want, again, err)
		}
		p := limitarg.ParametersOf(l)
		if again, err := p.Limit(l.Name); err != nil || again != l {
			t.Errorf("%s in JSON is %v, %v", text, again, err)
		}
	}
	for _, text := range []string{"tpm:1000:returns=0%", "tpm:1000:returns=101%", "tpm:1000:returns=50", "tpm:1000:returns=", "tpm:1000:returns=%", "tpm:1000:returns=-1%", "inflight:returns=5%"} {
		if l, err := limitarg.Parse(text); err == nil {
			t.Errorf("%s is %v", text, l)
		}
	}
	if l, _ := limitarg.Parse("tpm:1000:returns=50%"); limitarg.Rate(l) != "1,000/min, returns 50%" || l.String() != "tpm: 1000 every 1m0s, returns 50% of what is lost" {
		t.Errorf("%s; %s", limitarg.Rate(l), l)
	}
	for _, percent := range []int{-1, 101} {
		l, _ := limitarg.Parse("tpm:1000")
		l.Returns = percent
		if v, ok := errors.AsType[*store.ValidationError](l.Validate()); !ok || v.Field != "limit tpm: returns" {
			t.Errorf("%d%%: %v", percent, v)
		}
	}
}
