package manage_test

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

// A limit that a document has can be given back: as a whole, by its text, and by its parameters.
func TestALimitIsGivenInEachForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"rpm:100/min", "rpm:100/min:150", "rpm:7/90sec:soft", "rpm:100:shadow", "rpm:100:shadow=80%", "rpm:100:off",
		"rpd:1000@day", "budget:5000@month from day 15@Europe/Berlin", "rpd:1000@day:rollover=200:debt", "rpd:1000@day:soft",
		"s:10@session 5h", "rpm:100;* 9-16 * * 1-5 x0.5@Europe/Berlin", "rpd:1000@day; * * * * 6,0 x0.5@Europe/Berlin",
	} {
		want, err := limitarg.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		shown := manage.LimitsOf([]store.Limit{want})[0]
		parameters := manage.ParametersToSet(shown.Parameters)
		for form, l := range map[string]manage.LimitToSet{
			"whole": {Limit: shown.Limit, Name: shown.Name, ParametersToSet: parameters},
			"text":  {Limit: text}, "parameters": {Name: shown.Name, ParametersToSet: parameters},
		} {
			got, err := manage.StoredLimits([]manage.LimitToSet{l})
			if err != nil || limitarg.Format(got[0]) != limitarg.Format(want) {
				t.Errorf("%s, %s: got %+v, %v", text, form, got, err)
			}
		}
	}
}

// A limit that is none, or two, names the field and what to do.
func TestALimitThatIsNone(t *testing.T) {
	t.Parallel()
	for field, all := range map[string][]manage.LimitToSet{
		"limit":                 {{}},
		"limit_name":            {{Limit: "rpm:1"}, {Limit: "rpm:2"}},
		"renews":                {{Name: "rpd", ParametersToSet: manage.ParametersToSet{Capacity: 1, Renews: "sometimes"}}},
		"varies":                {{Name: "rpd", ParametersToSet: manage.ParametersToSet{Capacity: 1, Amount: 1, Seconds: 60, Varies: "x"}}},
		"zone":                  {{Name: "rpm", ParametersToSet: manage.ParametersToSet{Capacity: 1, Amount: 1, Seconds: 60, Zone: "UTC"}}},
		"mode":                  {{Name: "rpm", ParametersToSet: manage.ParametersToSet{Capacity: 1, Amount: 1, Seconds: 60, Mode: "loud"}}},
		"refill_period_seconds": {{Name: "rpm", ParametersToSet: manage.ParametersToSet{Capacity: 1, Amount: 1, Seconds: 1 << 62}}},
	} {
		_, err := manage.StoredLimits(all)
		invalid := (*store.ValidationError)(nil)
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	both := manage.LimitToSet{Limit: "rpm:1", ParametersToSet: manage.ParametersToSet{Capacity: 2}}
	if _, err := manage.StoredLimits([]manage.LimitToSet{both}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a limit that says two things: %v", err)
	}
	none := manage.LimitToSet{Name: "rpm", ParametersToSet: manage.ParametersToSet{Amount: 1, Seconds: 60}}
	if _, err := manage.StoredLimits([]manage.LimitToSet{none}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a limit without a capacity: %v", err)
	}
}
