package manage

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// FollowingBuckets count the buckets that follow a change.
type FollowingBuckets struct {
	Reached int `json:"reached"` // buckets that follow
	Changed int `json:"changed"` // of those reached, how many were different; 0 of a dry run, which does not compare them
}

// A Follow is how a change is made that buckets follow.
type Follow struct {
	// DryRun changes nothing, and counts the buckets.
	DryRun bool
	// Progress, unless it is nil, is called after each bucket.
	Progress func(dynamo.Switched)
}

// make makes a change of a level, or asks its question and counts the buckets that would follow.
func (f *Follow) make(ctx context.Context, s *dynamo.Store, k store.ConfigKey, ask func() error, change func() (dynamo.Switched, error)) (FollowingBuckets, dynamo.Switched, error) {
	if f.DryRun {
		if err := ask(); err != nil {
			return FollowingBuckets{}, dynamo.Switched{}, err
		}
		n, err := s.CountBuckets(ctx, k)
		return FollowingBuckets{Reached: n}, dynamo.Switched{}, err
	}
	done, err := change()
	return FollowingBuckets{done.Reached, done.Changed}, done, err
}

// A SwitchResult is the result of a change of a switch in JSON.
type SwitchResult struct {
	Entity   string `json:"entity_id,omitempty"`
	Resource string `json:"resource,omitempty"`
	// Disabled is true or false as the level has it; null if the next level decides.
	Disabled *bool      `json:"disabled"`
	Bypassed bool       `json:"bypassed,omitempty"` // the level admits everything, and only counts it
	EndsAt   *time.Time `json:"switch_ends_at"`     // when that ends by itself; null if it does not
	// Buckets count those that follow.
	Buckets  FollowingBuckets `json:"buckets"`
	Repeated bool             `json:"repeated"`          // an earlier call with the key set the switch, and this one only made the buckets follow
	DryRun   bool             `json:"dry_run,omitempty"` // nothing was changed
}

// SetSwitch sets or removes the switch of a level.
func SetSwitch(ctx context.Context, s *dynamo.Store, k store.ConfigKey, to dynamo.Switch, f Follow) (SwitchResult, error) {
	buckets, done, err := f.make(ctx, s, k, func() error { return askLevel(ctx, s, k, to.If) }, func() (dynamo.Switched, error) { return s.SetSwitch(ctx, k, to, f.Progress) })
	if err != nil {
		return SwitchResult{}, err
	}
	r := SwitchResult{Entity: k.Entity, Resource: k.Resource, Buckets: buckets, Repeated: done.Repeated, DryRun: f.DryRun}
	r.Disabled, r.Bypassed, _ = SwitchOf(store.Switch{Policy: to.Policy})
	until := to.Until
	if done.Repeated {
		until = done.Until
	}
	if until = until.UTC(); !until.IsZero() {
		r.EndsAt = &until
	}
	return r, nil
}

// A CascadeResult is the result of a change of a cascade policy in JSON.
type CascadeResult struct {
	Entity   string `json:"entity_id,omitempty"`
	Resource string `json:"resource,omitempty"`
	// Cascade is true or false as the level has it; null if the next level decides.
	Cascade *bool `json:"cascade"`
	// Buckets count those that follow.
	Buckets  FollowingBuckets `json:"buckets"`
	Repeated bool             `json:"repeated"`          // an earlier call with the key set the policy, and this one only made the buckets follow
	DryRun   bool             `json:"dry_run,omitempty"` // nothing was changed
}

// CascadePolicies are the words for the cascade policies of a level.
var CascadePolicies = []string{"on", "off", "clear"}

// CascadePolicy is the policy of a word; ok is false if it is none.
func CascadePolicy(word string) (p store.Policy, ok bool) {
	p, ok = map[string]store.Policy{"on": store.Yes, "off": store.No, "clear": store.Inherit}[word]
	return p, ok
}

// SetCascade sets or removes the cascade policy of a level.
func SetCascade(ctx context.Context, s *dynamo.Store, k store.ConfigKey, to dynamo.Cascade, f Follow) (CascadeResult, error) {
	buckets, done, err := f.make(ctx, s, k, func() error { return askLevel(ctx, s, k, to.If) }, func() (dynamo.Switched, error) { return s.SetCascade(ctx, k, to, f.Progress) })
	if err != nil {
		return CascadeResult{}, err
	}
	return CascadeResult{k.Entity, k.Resource, manifest.BoolOf(to.Policy), buckets, done.Repeated, f.DryRun}, nil
}

// A Parent is the result of a move of an entity in JSON.
type Parent struct {
	ID       string           `json:"entity_id"`
	Parent   *string          `json:"parent_id"`
	Buckets  FollowingBuckets `json:"buckets"`           // those that follow
	Repeated bool             `json:"repeated"`          // an earlier call with the key moved the entity, and this one only made the buckets follow
	DryRun   bool             `json:"dry_run,omitempty"` // nothing was changed
}

// SetParent moves an entity to another parent, or to none.
func SetParent(ctx context.Context, s *dynamo.Store, entity string, to dynamo.Move, f Follow) (Parent, error) {
	ask := func() error {
		if to.If == nil {
			return nil
		}
		e, err := s.Entity(ctx, entity)
		if err != nil {
			return err
		}
		return to.If(e)
	}
	buckets, done, err := f.make(ctx, s, LevelOfAll(entity), ask, func() (dynamo.Switched, error) { return s.SetParent(ctx, entity, to, f.Progress) })
	if err != nil {
		return Parent{}, err
	}
	return Parent{entity, orNull(to.Parent), buckets, done.Repeated, f.DryRun}, nil
}

// LevelOfAll is the level of an entity for every resource.
func LevelOfAll(entity string) store.ConfigKey {
	return store.ConfigKey{Entity: entity, Resource: store.DefaultResource}
}

// A RaiseResult is a level after a raise in JSON.
type RaiseResult struct {
	Level

	Repeated bool `json:"repeated"` // an earlier call with the key raised the limits, and this one only made the buckets follow
}

// Raise multiplies limits of a level until an instant.
func Raise(ctx context.Context, s *dynamo.Store, k store.ConfigKey, r dynamo.Raise) (RaiseResult, error) {
	was := s.Stats()
	done, err := s.RaiseLimits(ctx, k, r)
	if err != nil {
		return RaiseResult{}, err
	}
	set, err := s.Limits(ctx, k)
	if err != nil {
		return RaiseResult{}, err
	}
	level := LevelOf(k, set)
	level.Buckets = bucketsSince(k, s, was)
	return RaiseResult{level, done.Repeated}, nil
}

// SetSlots replaces the slots of a level, or removes them, and returns the level. The question about the level
// is as that of a [dynamo.Level]; nil is none.
func SetSlots(ctx context.Context, s *dynamo.Store, k store.ConfigKey, slots []store.SlotLimit, reason string, is func(*store.Config) error) (Level, error) {
	if err := s.SetSlotsIf(ctx, k, slots, reason, is); err != nil {
		return Level{}, err
	}
	set, err := stored(ctx, s, k)
	if err != nil {
		return Level{}, err
	}
	if set == nil {
		set = &store.Config{}
	}
	return LevelOf(k, set), nil
}

// An Amendment is the result of a reset or a top-up in JSON.
type Amendment struct {
	Entity   string           `json:"entity_id"`
	Resource string           `json:"resource"`
	Amounts  map[string]int64 `json:"amounts"` // the tokens that each limit has more, by name
	Shards   int              `json:"shards"`
	Repeated bool             `json:"repeated"` // an earlier call with the key did this, and this one nothing
	DryRun   bool             `json:"dry_run"`  // nothing was changed
}

// Reset makes the limits of a bucket full.
func Reset(ctx context.Context, s *dynamo.Store, r dynamo.Reset) (Amendment, error) {
	done, err := s.ResetBucket(ctx, r)
	return Amendment{r.Entity, r.Resource, done.Amounts, done.Shards, done.Repeated, r.DryRun}, err
}

// TopUp adds tokens to the limits of a bucket.
func TopUp(ctx context.Context, s *dynamo.Store, t dynamo.TopUp) (Amendment, error) {
	done, err := s.TopUpBucket(ctx, t)
	return Amendment{t.Entity, t.Resource, done.Amounts, done.Shards, done.Repeated, t.DryRun}, err
}
