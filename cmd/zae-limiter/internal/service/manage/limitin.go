package manage

import (
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/store"
)

// A LimitToSet is a limit as a caller gives it: in the form of the flag --limit, or by its parameters. A
// [Limit] has both, and can be given as it is.
type LimitToSet struct {
	Limit string `json:"limit,omitempty"`
	Name  string `json:"limit_name,omitempty"`
	ParametersToSet
}

// ParametersToSet are [limitarg.Parameters] that may all be missing.
type ParametersToSet struct {
	Capacity int64  `json:"capacity,omitempty"`
	Amount   int64  `json:"refill_amount,omitempty"`
	Seconds  int64  `json:"refill_period_seconds,omitempty"`
	Renews   string `json:"renews,omitempty"`
	Varies   string `json:"varies,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Soft     bool   `json:"soft,omitempty"`
	Mode     string `json:"mode,omitempty"` // "shadow" or "off", and a percentage of entities: "shadow 80%"
	Rollover int64  `json:"rollover,omitempty"`
	Debt     bool   `json:"carry_debt,omitempty"`
	Returns  int    `json:"returns,omitempty"` // the percentage of what a lost process took that goes back
}

// stored is the limit.
func (l *LimitToSet) stored() (store.Limit, error) {
	p := limitarg.Parameters(l.ParametersToSet)
	invalid := func(field, value, reason string) (store.Limit, error) {
		return store.Limit{}, &store.ValidationError{Field: field, Value: value, Reason: reason}
	}
	if l.Limit == "" {
		if l.Name == "" {
			return invalid("limit", "", `give it in the form of the flag --limit, "rpm:100/min" for instance, or by limit_name and parameters`)
		}
		return p.Limit(l.Name)
	}
	is, err := limitarg.Parse(l.Limit)
	if err != nil {
		return invalid("limit", l.Limit, err.Error())
	}
	if l.Name != "" && l.Name != is.Name || p != (limitarg.Parameters{}) && p != limitarg.ParametersOf(is) {
		return invalid("limit", l.Limit, "its name or its parameters beside it are others: give the limit, or the name and the parameters")
	}
	return is, nil
}

// StoredLimits are the limits that a caller gives. The error names the first that is not valid.
func StoredLimits(all []LimitToSet) ([]store.Limit, error) {
	limits := make([]store.Limit, 0, len(all))
	for i := range all {
		l, err := all[i].stored()
		if err == nil && slices.ContainsFunc(limits, func(before store.Limit) bool { return before.Name == l.Name }) {
			err = &store.ValidationError{Field: "limit_name", Value: l.Name, Reason: "it was given before: name each limit once"}
		}
		if err != nil {
			return nil, fmt.Errorf("limits.%d: %w", i, err)
		}
		limits = append(limits, l)
	}
	return limits, nil
}
