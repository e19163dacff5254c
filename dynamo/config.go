package dynamo

import (
	"context"
	"fmt"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// SetLimits replaces all limits of one level of configuration; the level's other
// settings stay. The caller gives at least one limit. The change has its audit event.
// Setting the limits that are already set changes nothing and has no event.
//
// Levels are not merged: limits of the next level that are not given here hold no longer.
// SetLimits logs a [store.UnconfiguredWarning] for each level that had such limits. It
// reads these levels only if the store has a Logger and the call changes the level; the
// system's replaces no level. [Store.Unconfigured] returns the warnings before the change,
// and also those of new limits that levels above hide.
//
// Limits hold for new buckets at once. SetLimits repairs the entity's buckets to an
// entity's new limits before it returns, because Python clients never compare a bucket
// with its configuration: see [upkeep.Keeper.Configure]. If that fails half-way, the
// error is a [store.IncompleteError], and repeating the call completes it. SetLimits
// leaves buckets unchanged that use a feature which this version cannot evaluate.
// Limits of a resource or of the system reach a bucket when a limiter compares it,
// within [limiter.Options.ConfigTTL].
func (s *Store) SetLimits(ctx context.Context, k store.ConfigKey, limits []store.Limit) error {
	if len(limits) == 0 {
		return &store.ValidationError{Field: "limits", Value: "", Reason: "give at least one; delete the limits to fall back to the next level"}
	}
	if err := s.setConfig(ctx, k, &store.Config{Limits: limits}, false); err != nil {
		return err
	}
	return s.spread(ctx, k)
}

// SetSystem replaces the limits of the system level, and the behaviour of an acquire
// when the store cannot be reached; "" leaves that to the caller. The caller may give
// either without the other.
func (s *Store) SetSystem(ctx context.Context, limits []store.Limit, on store.OnUnavailable) error {
	if err := on.Validate(); err != nil {
		return err
	}
	if len(limits) == 0 && on == "" {
		return &store.ValidationError{Field: "limits", Value: "", Reason: "give at least one, or what to do when the store is unavailable"}
	}
	return s.setConfig(ctx, store.ConfigKey{}, &store.Config{Limits: limits, OnUnavailable: on}, true)
}

// Limits reads one level of configuration, with a consistent read. It fails with
// [store.ErrNotFound] if the level has none.
func (s *Store) Limits(ctx context.Context, k store.ConfigKey) (*store.Config, error) {
	it, err := s.configItem(ctx, k)
	if err != nil {
		return nil, err
	}
	if it == nil {
		hint := "the next level holds"
		if k == (store.ConfigKey{}) {
			hint = "where no other level has limits, none hold: set some"
		}
		return nil, &store.NotFoundError{Kind: "configuration", Name: k.String(), Hint: hint}
	}
	return schema.DecodeConfig(it)
}

// DeleteLimits deletes the limits of one level, so that the next level holds. At system
// level, it also deletes the behaviour when the store is unavailable. An operator's
// switches on the level stay. Deleting absent limits is no error.
//
// DeleteLimits repairs an entity's buckets to the next level's limits, as
// [Store.SetLimits] does to new ones. If no level is left, the buckets keep their
// contents. This library then answers requests as if the bucket did not exist.
//
// [Store.Unconfigured] says which of the limits the next level lacks.
func (s *Store) DeleteLimits(ctx context.Context, k store.ConfigKey) error {
	return s.DeleteLimitsIf(ctx, k, nil)
}

// DeleteLimitsIf is [Store.DeleteLimits], if the level is as [Level].If has it.
func (s *Store) DeleteLimitsIf(ctx context.Context, k store.ConfigKey, is func(*store.Config) error) error {
	err := s.changeConfig(ctx, k, "delete limits of "+k.String(), func(old item) error {
		if err := ask(is, old); err != nil {
			return err
		}
		return s.sendLevels(ctx, "delete limits", s.levelDeletion(k, old))
	})
	if err != nil {
		return err
	}
	return s.spread(ctx, k)
}

func (s *Store) setConfig(ctx context.Context, k store.ConfigKey, c *store.Config, whole bool) error {
	if err := store.ValidateLimits(c.Limits); err != nil {
		return err
	}
	if err := s.allow(ctx, c.Limits); err != nil {
		return err
	}
	warn := func() {}
	err := s.changeConfig(ctx, k, "set limits of "+k.String(), func(old item) error {
		w := s.levelPut(k, old, c, whole, limitsSet(k, c))
		if w.event != nil {
			warn = s.foresee(ctx, Level{Key: k, Limits: c.Limits})
		}
		return s.sendLevels(ctx, "write limits", w)
	})
	if err == nil {
		warn()
	}
	return err
}

// limitsSet is the event of setting the limits of a level.
func limitsSet(k store.ConfigKey, c *store.Config) *schema.AuditEvent {
	e := &schema.AuditEvent{
		Action: audit.LimitsSet, Entity: schema.AuditLevel(k), Resource: k.Resource,
		Details: schema.Item{"limits": schema.LimitsDetail(c.Limits)},
	}
	if c.OnUnavailable != "" {
		e.Details[schema.OnUnavailable] = schema.S(string(c.OnUnavailable))
	}
	return e
}

// limitsDeleted is the event of deleting the limits of a level, which it names.
func limitsDeleted(k store.ConfigKey, old item) *schema.AuditEvent {
	e := &schema.AuditEvent{
		Action: audit.LimitsDeleted, Entity: schema.AuditLevel(k), Resource: k.Resource,
		Details: schema.Item{"limits": schema.Strings(schema.ConfigLimits(old)...)},
	}
	if on := schema.DecodeOutage(old); on != "" {
		e.Details[schema.OnUnavailable] = schema.S(string(on))
	}
	return e
}

// changeConfig reads a level's item and calls write with it. It repeats both if the
// item changed in between. It notifies watchers whatever the outcome, because a write
// whose answer was lost may have been applied.
func (s *Store) changeConfig(ctx context.Context, k store.ConfigKey, op string, write func(old item) error) error {
	var old item
	for range conn.AdminAttempts {
		var err error
		if old, err = s.configItem(ctx, k); err != nil {
			return err
		}
		if k == (store.ConfigKey{}) {
			s.learnRetention(ctx, old)
		}
		err = write(old)
		s.changed(k)
		if err == nil {
			return nil
		}
		if _, lost := conn.ConditionFailed(err); !lost {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
	return fmt.Errorf("%s: %w: try again", op, store.ErrConflict)
}

// configItem reads a level's item consistently; nil if there is none. It
// validates the key.
func (s *Store) configItem(ctx context.Context, k store.ConfigKey) (item, error) {
	if err := checkLevel(k); err != nil {
		return nil, err
	}
	return s.conn.GetItem(ctx, "read limits of "+k.String(), schema.ConfigKey(s.ns, k))
}

// checkLevel reports why k cannot name a level that has configuration.
func checkLevel(k store.ConfigKey) error {
	if err := schema.CheckConfigKey(k); err != nil || k.Entity == "" {
		return err
	}
	return schema.CheckRegistered(k.Resource)
}
