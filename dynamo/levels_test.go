package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// many are levels of resources.
func many(n int) []dynamo.Level {
	levels := make([]dynamo.Level, n)
	for i := range levels {
		levels[i] = dynamo.Level{Key: store.ConfigKey{Resource: fmt.Sprintf("r%03d", i)}, Limits: rpm10}
	}
	return levels
}

func TestManyLevelsChangeInFewTransactions(t *testing.T) {
	t.Parallel()
	s, tap := fixture.NewStore(t)
	if err := errors.Join(s.SetLevels(t.Context(), many(2*dynamo.MaxLevels))...); err != nil {
		t.Fatal(err)
	}
	transactions := 0
	for _, c := range tap.Take() {
		if c.Op == faults.TransactWriteItems {
			transactions++
		}
	}
	if transactions != 2 {
		t.Errorf("%d transactions", transactions)
	}
	names, err := s.ResourcesWithDefaults(t.Context())
	if err != nil || len(names) != 2*dynamo.MaxLevels {
		t.Errorf("%d resources, %v", len(names), err)
	}
	fixture.WantActions(t, s, "$RESOURCE:r000", audit.LimitsSet)
	var keys []store.ConfigKey
	for _, l := range many(2 * dynamo.MaxLevels) {
		keys = append(keys, l.Key)
	}
	if err := errors.Join(s.DeleteLevels(t.Context(), keys)...); err != nil {
		t.Fatal(err)
	}
	if names, err := s.ResourcesWithDefaults(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("%v are left, %v", names, err)
	}
	fixture.WantActions(t, s, "$RESOURCE:r097", audit.LimitsSet, audit.LimitsDeleted)
}

func TestALevelThatFailsStopsNoOther(t *testing.T) {
	t.Parallel()
	refused := &smithy.GenericAPIError{Code: "ValidationException"}
	db := fixture.NewTable(t)
	s := fixture.OpenStore(t, faults.Wrap(db, func(ctx context.Context, c *faults.Call, next faults.Next) error {
		for _, k := range c.Keys() {
			if _, ns := fixture.OpenStore(t, db).Namespace(); c.Writes() && k.PK == schema.ResourcePK(ns, "r001") {
				return refused
			}
		}
		return next(ctx)
	}))
	levels := many(3)
	levels = append(levels, levels[0], dynamo.Level{Key: store.ConfigKey{Resource: "x#"}, Limits: rpm10}, dynamo.Level{Key: store.ConfigKey{Resource: "none"}},
		dynamo.Level{Key: store.ConfigKey{Resource: "on"}, Limits: rpm10, OnUnavailable: store.Allow})
	errs := s.SetLevels(t.Context(), levels)
	for i, want := range []error{nil, refused, nil, store.ErrInvalid, store.ErrInvalid, store.ErrInvalid, store.ErrInvalid} {
		if !errors.Is(errs[i], want) {
			t.Errorf("level %d: got error %v, want %v", i, errs[i], want)
		}
	}
	if c, err := s.Limits(t.Context(), levels[2].Key); err != nil || len(c.Limits) != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestAChangeInBetweenIsNotLost(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	other, changed := fixture.OpenStore(t, db), false
	s := fixture.OpenStore(t, faults.Wrap(db, func(ctx context.Context, c *faults.Call, next faults.Next) error {
		if c.Op == faults.TransactWriteItems && !changed {
			changed = true
			if err := other.SetAuditRetention(ctx, 7); err != nil {
				return err
			}
		}
		return next(ctx)
	}))
	levels := append(many(2), dynamo.Level{Limits: []store.Limit{limiter.PerMinute("rpm", 5)}, OnUnavailable: store.Block})
	if err := errors.Join(s.SetLevels(t.Context(), levels)...); err != nil {
		t.Fatal(err)
	}
	if days, err := other.AuditRetention(t.Context()); days != 7 || err != nil {
		t.Errorf("retention %d, %v", days, err)
	}
}

func TestAHoldEnds(t *testing.T) {
	t.Parallel()
	s, _ := fixture.NewStore(t)
	until := fixture.Start.Add(time.Minute)
	if err := s.HoldManifest(t.Context(), "a", "me", until); !errors.Is(err, store.ErrConflict) {
		t.Errorf("got error %v", err)
	}
	err := s.ChangeManifest(t.Context(), "a", func(own *dynamo.ManifestRecord, _ []dynamo.ManifestRecord) error {
		own.Holder, own.HeldUntil = "me", fixture.Start
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.HoldManifest(t.Context(), "a", "other", until); !errors.Is(err, store.ErrConflict) {
		t.Errorf("got error %v", err)
	}
	if err := s.HoldManifest(t.Context(), "a", "me", until); err != nil {
		t.Error(err)
	}
	records, err := s.Manifests(t.Context())
	if err != nil || len(records) != 1 || !records[0].HeldUntil.Equal(until) {
		t.Errorf("got %+v, %v", records, err)
	}
}
