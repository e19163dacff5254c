package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Raise multiplies limits of a level until an instant.
type Raise struct {
	// Limits are the factors by the names of the limits, in thousandths: 2000 doubles the
	// capacity and the amount, 500 halves them.
	Limits map[string]int64
	// Until is when the raise ends by itself, in whole milliseconds.
	Until time.Time
	Cause
	// If is asked about the level as that of a [Level] is.
	If func(*store.Config) error
}

// Raised is what came of a raise.
type Raised struct {
	// Repeated says that an earlier call with the same key raised the limits, and that this call
	// changed nothing but made the buckets follow. Until is then when the raise of that call ends.
	Repeated bool
	Until    time.Time
}

// check reports why limits cannot be raised.
func (r *Raise) check(now time.Time) error {
	switch {
	case len(r.Limits) == 0:
		return &store.ValidationError{Field: "limits", Reason: "name at least one, and its factor"}
	case !r.Until.After(now):
		return &store.ValidationError{Field: "until", Value: r.Until.Format(time.RFC3339), Reason: "give an instant in the future"}
	}
	return r.Check()
}

// once is the raise as one that happens once for its key.
func (r *Raise) once(ns string, k store.ConfigKey) once {
	factors := make([]string, 0, len(r.Limits))
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		factors = append(factors, name+"="+strconv.FormatInt(r.Limits[name], 10))
	}
	does := schema.Operation{To: strings.Join(factors, ","), Until: r.Until.UnixMilli()}
	return onceOf(ns, k, r.Cause, schema.OperationRaise, does)
}

// RaiseLimits multiplies limits of one level of configuration until an instant. It is an entry
// of their schedules (ADR 048), so it ends in every process at that instant, and nothing has to
// run then. It replaces a raise that is under way. The event of the change has the reason.
//
// If the level has no limits, it gets those of the next level that has some, and keeps them
// after the raise; [Store.DeleteLimits] ends that. A limit with a schedule of its own cannot be
// raised, and neither can a quota that carries something, which [Store.TopUpBucket] raises. A
// quota gets the difference at once, and loses it when the raise ends: what was used above the
// usual amount is then owed until the period ends. On a table with
// [SharedKeys] the error is [store.ErrIncompatible]: Python clients would refuse requests.
//
// Buckets follow as they do after [Store.SetLimits].
//
// With a key, the limits are raised once. A call with the same key makes the buckets follow what
// the level says by then. It is another change, and a [*KeyUsedError], if it gives other factors.
// Of two ends the first one holds, as for [Store.SetSwitch].
func (s *Store) RaiseLimits(ctx context.Context, k store.ConfigKey, r Raise) (Raised, error) {
	if err := r.check(s.conn.Clock.Now()); err != nil {
		return Raised{}, err
	}
	if !s.isSpread {
		return Raised{}, fmt.Errorf("%w: it has index keys of the Python package, whose clients cannot read when a raise ends: set the limits with a schedule in fields of cron", store.ErrIncompatible)
	}
	const op = "raise limits"
	raised, set := Raised{Until: r.Until}, r.once(s.ns, k)
	err := s.changeConfig(ctx, k, op+" of "+k.String(), func(old item) error {
		// A transaction that found the record of the key is repeated, and ends here.
		record, done, err := s.recordOnce(ctx, op, &set)
		if done != nil || err != nil {
			if done != nil {
				raised = Raised{Repeated: true, Until: time.UnixMilli(done.Until)}
			}
			return err
		}
		if err := ask(r.If, old); err != nil {
			return err
		}
		limits, err := s.ownOrNext(ctx, k, old)
		if err != nil {
			return err
		}
		if limits, err = r.raised(limits); err != nil {
			return err
		}
		w := s.levelRaise(k, old, &r, limits)
		w.record = record
		return s.sendLevels(ctx, op, w)
	})
	if err != nil {
		return Raised{}, err
	}
	return raised, s.spread(ctx, k)
}

// ownOrNext are the limits of a level, or else those of the next one that has some.
func (s *Store) ownOrNext(ctx context.Context, k store.ConfigKey, old item) ([]store.Limit, error) {
	for _, level := range append([]store.ConfigKey{k}, levelsBelow(k)...) {
		it := old
		if level != k {
			var err error
			if it, err = s.configItem(ctx, level); err != nil {
				return nil, err
			}
		}
		switch c, err := schema.DecodeConfig(it); {
		case err != nil:
			return nil, err
		case !c.IsEvaluable():
			return nil, &store.UnsupportedError{Entity: level.Entity, Resource: level.Resource, Feature: c.Features.Unsupported().String()}
		case len(c.Limits) > 0:
			return c.Limits, nil
		}
	}
	return nil, &store.NotFoundError{Kind: "limits", Name: k.String(), Hint: "no level has any that hold there: set some first"}
}

// raised are limits with the entry of the raise before their own.
func (r *Raise) raised(limits []store.Limit) ([]store.Limit, error) {
	limits = slices.Clone(limits)
	zone := ""
	for _, l := range limits {
		zone = cmp.Or(zone, l.Zone())
	}
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		i := slices.IndexFunc(limits, func(l store.Limit) bool { return l.Name == name })
		invalid := func(reason string) error {
			return &store.ValidationError{Field: "limits", Value: name, Reason: reason}
		}
		switch {
		case i < 0:
			return nil, invalid("the level has no limit of this name")
		case limits[i].Carries != (store.Carry{}):
			return nil, invalid("it is a quota that rolls over or carries debt, so its periods have one amount: top it up")
		case limits[i].Varies != nil && slices.ContainsFunc(limits[i].Varies.Changes(), func(c store.ScheduleEntry) bool { return c.Until == 0 }):
			return nil, invalid("it has a schedule, so a factor is ambiguous: set the limit with another schedule")
		}
		varies, err := store.NewSchedule([]store.ScheduleEntry{{Until: r.Until.UnixMilli(), Permille: r.Limits[name]}}, zone)
		if err != nil {
			return nil, err
		}
		limits[i].Varies = varies
	}
	return limits, nil
}

// levelRaise is the change of a level whose limits are raised. It requires that those limits are
// still as they were read, and leaves the others alone. If they are so already, it is none.
func (s *Store) levelRaise(k store.ConfigKey, old item, r *Raise, limits []store.Limit) levelWrite {
	c := &store.Config{Limits: limits}
	whole := schema.EncodeConfig(s.ns, k, c)
	w := levelWrite{registry: setting(k, old), event: limitsSet(k, c)}
	w.event.Details = schema.WithCause(w.event.Details, r.Reason, r.Key)
	if old == nil {
		w.write.Put = s.conn.PutNew(whole)
		return w
	}
	pinned := []string{schema.ConfigVersion}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(whole)), func(attr string) bool { return schema.IsLimitAttr(attr) && !reflect.DeepEqual(old[attr], whole[attr]) }) {
		return levelWrite{registry: w.registry} // an earlier call, without the key, has raised them so
	}
	for attr := range whole {
		if schema.IsLimitAttr(attr) {
			pinned = append(pinned, attr)
		}
	}
	slices.Sort(pinned)
	whole[schema.ConfigVersion] = schema.NextConfigVersion(old)
	w.write.Update = s.levelUpdate(schema.ConfigKey(s.ns, k), old, whole, pinned)
	return w
}
