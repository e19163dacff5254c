package dynamo_test

import (
	"context"
	"errors"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

var errMoved = errors.New("moved")

// onlyHas accepts a level with exactly the limits of these names.
func onlyHas(names ...string) func(*store.Config) error {
	return func(was *store.Config) error {
		var is []store.Limit
		if was != nil {
			is = was.Limits
		}
		if len(is) != len(names) {
			return errMoved
		}
		for i, l := range is {
			if l.Name != names[i] {
				return errMoved
			}
		}
		return nil
	}
}

// What a change was asked about still holds when it is made, whatever another client does between
// the read and the write: also if it only adds a limit, or puts the old ones back.
func TestALevelIsChangedOnlyIfItIsAsSeen(t *testing.T) {
	t.Parallel()
	rpm, tpm := limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 10)
	more, system := []store.Limit{rpm, tpm}, store.ConfigKey{}
	for name, c := range map[string]struct {
		key    store.ConfigKey
		change func(context.Context, *dynamo.Store) error // of the other client
		write  func(context.Context, *dynamo.Store, store.ConfigKey) error
		want   error
		left   int // limits
	}{
		"set, and nobody": {
			key: rpmKey, write: setIf(more, onlyHas("rpm")), left: 2,
		},
		"set, and another adds a limit": {
			key: rpmKey, change: func(ctx context.Context, s *dynamo.Store) error { return s.SetLimits(ctx, rpmKey, more) },
			write: setIf([]store.Limit{limiter.PerMinute("rpm", 5)}, onlyHas("rpm")), want: errMoved, left: 2,
		},
		"delete, and another adds a limit": {
			key: rpmKey, change: func(ctx context.Context, s *dynamo.Store) error { return s.SetLimits(ctx, rpmKey, more) },
			write: func(ctx context.Context, s *dynamo.Store, k store.ConfigKey) error {
				return s.DeleteLimitsIf(ctx, k, onlyHas("rpm"))
			},
			want: errMoved, left: 2,
		},
		"set, and another deletes": {
			key: rpmKey, change: func(ctx context.Context, s *dynamo.Store) error { return s.DeleteLimits(ctx, rpmKey) },
			write: setIf(more, onlyHas("rpm")), want: errMoved,
		},
		"set the first limits, and another sets them": {
			key: store.ConfigKey{Resource: "new"}, change: func(ctx context.Context, s *dynamo.Store) error {
				return s.SetLimits(ctx, store.ConfigKey{Resource: "new"}, rpm10)
			},
			write: setIf(more, onlyHas()), want: errMoved, left: 1,
		},
		"the switch is another thing": {
			key: rpmKey, change: func(ctx context.Context, s *dynamo.Store) error {
				_, err := s.SetSwitch(ctx, rpmKey, dynamo.Switch{Policy: store.Yes}, nil)
				return err
			},
			write: setIf(more, onlyHas("rpm")), left: 2,
		},
		"set what holds in an outage, and another sets limits": {
			key: system, change: func(ctx context.Context, s *dynamo.Store) error { return s.SetSystem(ctx, more, "") },
			write: func(ctx context.Context, s *dynamo.Store, k store.ConfigKey) error {
				return errors.Join(s.SetLevels(ctx, []dynamo.Level{{Key: k, OnUnavailable: store.Allow, If: onlyHas("rpm")}})...)
			},
			want: errMoved, left: 2,
		},
		"set limits, and another sets what holds in an outage": {
			key: system, change: func(ctx context.Context, s *dynamo.Store) error {
				return errors.Join(s.SetLevels(ctx, []dynamo.Level{{Key: system, OnUnavailable: store.Allow}})...)
			},
			write: setIf(more, func(was *store.Config) error {
				if was.OnUnavailable != "" {
					return errMoved
				}
				return nil
			}),
			want: errMoved, left: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := fixture.NewTable(t)
			other, changed := fixture.OpenStore(t, db), c.change == nil
			for _, k := range []store.ConfigKey{rpmKey, system} {
				if err := other.SetLimits(t.Context(), k, rpm10); err != nil {
					t.Fatal(err)
				}
			}
			s := fixture.OpenStore(t, faults.Wrap(db, func(ctx context.Context, call *faults.Call, next faults.Next) error {
				if call.Op == faults.TransactWriteItems && !changed {
					changed = true
					if err := c.change(ctx, other); err != nil {
						return err
					}
				}
				return next(ctx)
			}))
			if err := c.write(t.Context(), s, c.key); !errors.Is(err, c.want) {
				t.Errorf("got error %v, want %v", err, c.want)
			}
			got, err := other.Limits(t.Context(), c.key)
			switch {
			case err != nil && (c.left > 0 || !errors.Is(err, store.ErrNotFound)):
				t.Error(err)
			case err == nil && len(got.Limits) != c.left:
				t.Errorf("%d limits are left, want %d", len(got.Limits), c.left)
			}
		})
	}
}

var rpmKey = store.ConfigKey{Resource: "gpt-4"}

func setIf(limits []store.Limit, is func(*store.Config) error) func(context.Context, *dynamo.Store, store.ConfigKey) error {
	return func(ctx context.Context, s *dynamo.Store, k store.ConfigKey) error {
		return errors.Join(s.SetLevels(ctx, []dynamo.Level{{Key: k, Limits: limits, If: is}})...)
	}
}

// A store makes changes as several actors, whose counts are their own. What it remembers is shared.
func TestAStoreAsAnotherActor(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	s := fixture.OpenStore(t, db)
	ann, err := s.As("ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.As("a\nb"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got error %v", err)
	}
	same, err := s.As("")
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	defer s.WatchConfig(func(store.ConfigKey) { told++ })()
	for i, by := range []*dynamo.Store{s, ann, same} {
		if err := by.SetLimits(t.Context(), rpmKey, []store.Limit{limiter.PerMinute("rpm", int64(i+1))}); err != nil {
			t.Fatal(err)
		}
	}
	if told != 3 {
		t.Errorf("the watcher was told %d times", told)
	}
	page, err := s.AuditEvents(t.Context(), audit.Query{Entity: audit.Resource("gpt-4"), Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	own := page.Events[2].Principal
	if page.Events[1].Principal != "ann" || page.Events[0].Principal != own || own == "ann" {
		t.Errorf("the events are by %q, %q and %q", own, page.Events[1].Principal, page.Events[0].Principal)
	}
	k := store.ConfigKey{Entity: "key-1", Resource: "gpt-4"}
	fixture.PutBucket(t, s, db, k.Entity, k.Resource, 0, 1)
	if err := ann.SetLimits(t.Context(), k, rpm10); err != nil {
		t.Fatal(err)
	}
	if ann.Stats().Reached != 1 || s.Stats().Reached != 0 {
		t.Errorf("ann has reached %+v, and the store %+v", ann.Stats(), s.Stats())
	}
}
