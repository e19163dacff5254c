package dynamo

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Switch is what an operator decides at the level of an entity or a resource: whether
// tokens may be acquired.
type Switch struct {
	// Policy disables the level's buckets with [store.Yes], and enables them with
	// [store.No], whatever the levels after this one say. [store.Bypass] has them admit
	// everything, and only count it. [store.Inherit] removes the switch, so that the next level
	// decides.
	Policy store.Policy
	// Until is when the switch ends by itself; the zero time is never. It counts in whole
	// milliseconds. A switch that is removed has none.
	Until time.Time
	Cause
	// If is asked about the level as that of a [Level] is: for its limits, too.
	If func(*store.Config) error
}

// check reports why a switch cannot be set at a level.
func (sw *Switch) check(k store.ConfigKey, now time.Time) error {
	if err := checkPolicy(k, sw.Policy, store.Bypass, "switch"); err != nil {
		return err
	}
	invalid := func(field, value, reason string) error {
		return &store.ValidationError{Field: field, Value: value, Reason: reason}
	}
	switch {
	case sw.Until.IsZero():
	case sw.Policy == store.Inherit:
		return invalid("until", sw.Until.Format(time.RFC3339), "a switch that is removed has no end")
	case !sw.Until.After(now):
		return invalid("until", sw.Until.Format(time.RFC3339), "give an instant in the future")
	}
	return sw.Check()
}

// stored is the switch as a level has it.
func (sw *Switch) stored() store.Switch {
	if sw.Until.IsZero() {
		return store.Switch{Policy: sw.Policy}
	}
	return store.Switch{Policy: sw.Policy, Until: sw.Until.UnixMilli()}
}

// Switched counts the buckets that a change of a switch, a cascade policy or a parent has
// reached.
type Switched struct {
	Reached int // buckets that follow the change
	Changed int // of those, how many were different before
	// Repeated says that an earlier call with the same key made the change, and that this call
	// only made the buckets follow.
	Repeated bool
	// Until is when the switch of the earlier call ends, if this call is Repeated.
	Until time.Time
}

// SetSwitch sets or removes the switch of an entity's level or a resource's, with its audit
// event, and makes the buckets below follow before it returns. The level needs no limits.
// Setting a switch that is already set writes no event, but searches the buckets again.
//
// A disabled bucket refuses every client with its next write, those of Python included. A
// bucket that is created later is refused by configuration, which every client reads before
// it creates one. Limiters of this library also follow by configuration, within
// [limiter.Options.ConfigTTL]; that is also how soon a limiter that refuses from memory
// notices that a bucket was enabled.
//
// A bypassed bucket admits everything, and moves no balance (ADR 052). Its clients notice with the
// next write as well. Tables with an aggregator of the Python package need its version 0.17.0, and
// clients before that are refused: the error is a [*VersionError].
//
// SetSwitch finds the buckets twice (ADR 045). After it has disabled or bypassed, it waits a second
// before the second time. progress, if not nil, is called after each bucket, by one goroutine
// at a time. If SetSwitch fails half-way, the error is a [store.IncompleteError], and
// repeating the call completes it.
//
// With a key, the switch is set once. A call with the same key makes the buckets follow what
// the level says by then, which another call may have changed since. It is another change, and
// a [*KeyUsedError], if it gives another policy, or an end where the first one gave none. Of
// two ends the first one holds: whoever says "in two hours" names another instant each time.
// The record of the key is kept as that of [Store.ResetBucket].
func (s *Store) SetSwitch(ctx context.Context, k store.ConfigKey, to Switch, progress func(Switched)) (Switched, error) {
	if err := to.check(k, s.conn.Clock.Now()); err != nil {
		return Switched{}, err
	}
	if to.Policy == store.Bypass {
		if err := s.require(ctx, gateBypass); err != nil {
			return Switched{}, err
		}
	}
	const op = "set the switch"
	set := to.once(s.ns, k)
	done, err := s.setPolicy(ctx, op, k, to.policy(), &set)
	if err != nil {
		return Switched{}, err
	}
	reached := Switched{Repeated: done != nil}
	if done != nil && done.Until != 0 {
		reached.Until = time.UnixMilli(done.Until)
	}
	return s.markAll(ctx, k, to.Policy == store.Yes || to.Policy == store.Bypass, s.followSwitches, reached, progress)
}

// once is the change as one that happens once for its key.
func (sw *Switch) once(ns string, k store.ConfigKey) once {
	kind := map[store.Policy]string{store.Yes: schema.OperationDisable, store.No: schema.OperationEnable, store.Bypass: schema.OperationBypass, store.Inherit: schema.OperationClear}[sw.Policy]
	return onceOf(ns, k, sw.Cause, kind, schema.Operation{Until: sw.stored().Until})
}

// policy is the switch as a level has it.
func (sw *Switch) policy() policy {
	return policy{
		sets: store.Config{Disabled: sw.stored()}, attrs: []string{schema.Disabled, schema.DisabledUntil},
		details: schema.SwitchDetails(sw.stored(), sw.Reason, sw.Key), is: sw.If,
	}
}
