package dynamo_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Limits of a level require of an aggregator what they have: a session, rollover, or more if it
// is soft. Otherwise nothing is set. Where they are set, older clients are refused from then
// on.
func TestSessionsNeedAnAggregatorThatKnowsThem(t *testing.T) {
	hard := limiter.Quota("sess", 10, session("session 5h"))
	soft, rate := hard, limiter.PerMinute("rpm", 10)
	soft.Soft, rate.Soft = true, true
	day := session("day")
	for name, c := range map[string]struct {
		limit          store.Limit
		before, lambda string
		least          string // of the clients afterwards; "" if the aggregator is too old
	}{
		"old aggregator":                  {hard, "0.14.0", "0.14.2", ""},
		"one that knows sessions":         {hard, "0.14.0", "0.15.0", "0.15.0"},
		"none":                            {hard, "0.14.0", "", "0.15.0"},
		"newer clients":                   {hard, "0.16.0", "", "0.16.0"},
		"a soft one, old aggregator":      {soft, "0.14.0", "0.16.0", ""},
		"a soft one, and one that knows":  {soft, "0.14.0", "0.17.0", "0.17.0"},
		"one that rolls over":             {limiter.Quota("rpd", 10, day, limiter.Rollover(5)), "0.14.0", "0.16.0", ""},
		"and one that knows top-ups":      {limiter.Quota("rpd", 10, day, limiter.Rollover(5)), "0.14.0", "0.17.0", "0.17.0"},
		"one that carries debt only":      {limiter.Quota("rpd", 10, day, limiter.CarryDebt()), "0.14.0", "0.14.2", "0.14.0"},
		"a soft rate, old aggregator":     {rate, "0.14.0", "0.16.0", ""},
		"a soft rate":                     {rate, "0.14.0", "0.17.0", "0.17.0"},
		"no session asks for no versions": {limiter.PerMinute("rpm", 1), "0.14.0", "0.14.2", "0.14.0"},
	} {
		for how, set := range map[string]func(context.Context, *dynamo.Store) error{
			"SetLimits": func(ctx context.Context, s *dynamo.Store) error {
				return s.SetLimits(ctx, theEntity, []store.Limit{c.limit})
			},
			"SetLevels": func(ctx context.Context, s *dynamo.Store) error {
				return s.SetLevels(ctx, []dynamo.Level{{Key: theEntity, Limits: []store.Limit{c.limit}}})[0]
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := amending(t)
					fixture.Put(t, w.Engine, schema.EncodeVersion(schema.Version{Schema: dynamo.SchemaVersion, ClientMin: c.before, Lambda: c.lambda, Updated: time.Now()}))
					s := w.Open(dynamo.Options{})
					err := set(t.Context(), s)
					wrong, old := errors.AsType[*dynamo.VersionError](err)
					if old != (c.least == "") || !old && err != nil {
						t.Fatalf("got %v", err)
					}
					feature := map[bool]string{true: "soft limits", false: "sessions"}[c.limit.Soft]
					if c.limit.Carries.Rollover != 0 {
						feature = "rollover of quotas"
					}
					if old && wrong.Feature != feature {
						t.Errorf("the error is about %s, want %s", wrong.Feature, feature)
					}
					if _, missing := s.Limits(t.Context(), theEntity); errors.Is(missing, store.ErrNotFound) != old {
						t.Errorf("the limits: %v", missing)
					}
					want := c.least
					if old {
						want = "0.14.0"
					}
					if v, _, err := dynamo.ReadVersion(t.Context(), w.StoreOptions(dynamo.Options{})); err != nil || v.ClientMin != want {
						t.Errorf("the record says %+v, %v", v, err)
					}
				})
			})
		}
	}
}
