package plan_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// An item differs from what is wanted if a repair would change it. Neither an item nor a
// configuration with a feature that this version cannot evaluate is repaired: the repair
// would undo what a peer has set.
func TestWhatDiffers(t *testing.T) {
	t.Parallel()
	slower, tpm := minutely, minutely
	slower.Amount, tpm.Name = 30, "tpm"
	scheduled := func(img *store.Image) { img.Features = store.Scheduled }
	for name, c := range map[string]struct {
		of      *plan.Wanted
		img     *store.Image
		differs bool
	}{
		"alike":                               {wanted(minutely), item(0, now, nil), false},
		"other parameters":                    {wanted(slower), item(0, now, nil), true},
		"a limit more is wanted":              {wanted(minutely, tpm), item(0, now, nil), true},
		"another limit is wanted":             {wanted(tpm), item(0, now, nil), true},
		"a limit more, of a request":          {&plan.Wanted{Level: plan.ConfigLevels, Limits: []store.Limit{minutely, tpm}}, item(0, now, nil), true},
		"a limit more than a request wants":   {&plan.Wanted{Level: plan.ConfigLevels, Limits: []store.Limit{tpm}}, item(0, now, func(i *store.Image) { i.Limits = append(i.Limits, tpmState()) }), false},
		"no limits are wanted":                {wanted(), item(0, now, nil), false},
		"it expires":                          {wanted(minutely), item(0, now, func(i *store.Image) { i.ExpiresAt = 1 }), true},
		"it is to expire":                     {&plan.Wanted{Limits: []store.Limit{minutely}, Expires: true}, item(0, now, nil), true},
		"another parent":                      {&plan.Wanted{Limits: []store.Limit{minutely}, Owner: store.Owner{Parent: "org"}}, item(0, now, nil), true},
		"other parameters, of a peer's item":  {wanted(slower), item(0, now, scheduled), false},
		"other parameters, wanted by a peer":  {&plan.Wanted{Limits: []store.Limit{slower}, Features: store.Scheduled}, item(0, now, nil), false},
		"other parameters, both by a peer":    {&plan.Wanted{Limits: []store.Limit{slower}, Features: store.Scheduled}, item(0, now, scheduled), false},
		"another owner, of a peer's own item": {&plan.Wanted{Limits: []store.Limit{minutely}, Owner: store.Owner{Parent: "org"}}, item(0, now, scheduled), false},
	} {
		if got := c.of.Differs(c.img, now); got != c.differs {
			t.Errorf("%s: differs %t, want %t", name, got, c.differs)
		}
	}
}

func tpmState() store.LimitState {
	return store.LimitState{Name: "tpm", Params: new(minutely.Params())}
}
