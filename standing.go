package limiter

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Level is a level of configuration. Limits come from the first level that has any, in
// the order of the constants below.
type Level uint8

// The levels.
const (
	LevelNone           Level = iota // no level configures limits
	LevelEntityResource              // the entity's limits for the resource
	LevelEntity                      // the entity's limits for every resource
	LevelResource                    // the resource's limits
	LevelSystem                      // the system's limits
)

// String is the name of the level: "none", "entity_resource", "entity", "resource" or
// "system".
func (l Level) String() string {
	names := [...]string{"none", "entity_resource", "entity", "resource", "system"}
	return names[min(int(l), len(names)-1)]
}

// MarshalText is [Level.String].
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// levelOf is the level of a configuration's limits.
func levelOf(w *plan.Wanted) Level {
	if w.Level >= plan.ConfigLevels {
		return LevelNone
	}
	return LevelEntityResource + Level(w.Level)
}

// EffectiveLimits are the limits that hold for an entity and a resource, and the level
// of configuration that says so.
type EffectiveLimits struct {
	Entity, Resource string
	// Level has the limits. If it is [LevelNone], no level configures any. Requests then
	// fail with [ErrNotConfigured], unless they bring limits of their own
	// ([Request.Fallback]).
	Level  Level
	Limits []Limit // by name; whole, not divided by the number of shards
	// Disabled says that an operator has switched the resource off for the entity, by
	// configuration. DisabledBy is the level, and DisabledUntil when it ends by itself, the
	// zero time if no end is known.
	Disabled      bool
	DisabledBy    Level
	DisabledUntil time.Time
	// Bypassed says that an operator has lifted the limits instead: everything is admitted, and
	// counted. DisabledBy and DisabledUntil then are of that.
	Bypassed bool
	// OnUnavailable is what an acquire does when the store cannot be reached, unless the
	// request says otherwise: what the system level sets, or else [Block].
	OnUnavailable OnUnavailable
	// Parent has the limits of the parent that the entity cascades to, nil if it does
	// not cascade. It has no Parent of its own: a cascade is one level.
	Parent *EffectiveLimits
}

// Limits returns the limits that hold for an entity and a resource, and for its parent if
// it cascades. It looks at configuration only, not at buckets, which follow it within
// [Options.ConfigTTL]. What the limiter remembers of the configuration may be as old.
//
// Limits writes nothing. It returns by its context's deadline and within
// [Options.Timeout], with [ErrUnavailable]. Limits that use a feature of a peer which
// this version cannot evaluate are [ErrUnsupported].
func (l *Limiter) Limits(ctx context.Context, entity, resource string) (*EffectiveLimits, error) {
	if err := checkNames(entity, resource); err != nil {
		return nil, err
	}
	op := "find the limits of " + resource + " for " + entity
	return process.InTime(ctx, l.driver.Process, op, func(ctx context.Context) (*EffectiveLimits, error) {
		own, parent, err := l.driver.Inspector.InForce(ctx, entity, resource)
		if err != nil {
			return nil, err
		}
		e := l.effective(entity, resource, own)
		if parent != nil {
			e.Parent = l.effective(own.Owner.Parent, resource, parent)
		}
		return e, nil
	})
}

func (l *Limiter) effective(entity, resource string, w *plan.Wanted) *EffectiveLimits {
	e := &EffectiveLimits{
		Entity: entity, Resource: resource, Level: levelOf(w), Limits: slices.Clone(w.Limits),
		OnUnavailable: l.driver.Config.OnUnavailable(""),
	}
	is := w.Switches.At(l.driver.Now())
	e.Disabled, e.Bypassed = is.Disabled, is.Bypassed
	e.DisabledBy, e.DisabledUntil = disabledBy(is)
	return e
}

// disabledBy tells users what disables or bypasses a bucket, and until when. An item without a
// level that says so has [LevelNone].
func disabledBy(is store.Disabling) (by Level, until time.Time) {
	if (is.Disabled || is.Bypassed) && is.Level < store.SwitchLevels {
		by = LevelEntityResource + Level(is.Level) //nolint:gosec // there are few levels
	}
	if is.Until != 0 {
		until = time.UnixMilli(is.Until)
	}
	return by, until
}

func checkNames(entity, resource string) error {
	if err := store.CheckEntity(entity); err != nil {
		return err
	}
	return store.CheckResource(resource)
}

// A Standing is the state of every limit of an entity and a resource.
type Standing struct {
	Entity, Resource string
	// Level has the limits. If it is [LevelNone], Limits are those that the bucket has
	// from requests ([Request.Fallback]) or from configuration deleted since.
	Level Level
	// Disabled says that an operator has switched the resource off for the entity, by
	// configuration or on the bucket. An acquire then fails, whatever the balances.
	// DisabledBy is the level, [LevelNone] if only the bucket says so. DisabledUntil is when
	// it ends by itself, the zero time if no end is known.
	Disabled      bool
	DisabledBy    Level
	DisabledUntil time.Time
	// Bypassed says that an operator has lifted the limits instead, by configuration or on the
	// bucket: an acquire is admitted, and counted. DisabledBy and DisabledUntil then are of that.
	Bypassed bool
	// Shards is the number of items of the bucket, 0 if there is no bucket yet.
	Shards int
	Limits []Balance // by name
	// Slots says who holds the slots of each limit of slots that is configured, by name.
	Slots []SlotUse
	// Parent is the state of the parent that the entity cascades to, nil if it does not
	// cascade. It has no Parent of its own: a cascade is one level.
	Parent *Standing
}

// A Balance is the state of one limit, over all shards of its bucket.
type Balance struct {
	// Status is the state with respect to a request for one token. So RetryAfter is the
	// wait until the limit has a token, and from a debt until it is paid off, too.
	Status
	// FullAfter is the least time, to the millisecond, after which the limit is full if
	// nobody consumes. It is [Never] if that takes longer than 292 years.
	FullAfter time.Duration
	// Used is the fraction of the capacity that is used: 0 for a full limit, 1 for an
	// empty one, and more in debt.
	Used float64
	// Pending says that the bucket still has the former parameters of Limit, by which it
	// earns tokens. The next acquire brings it Limit, also one that is refused. RetryAfter and
	// FullAfter count from that acquire.
	Pending bool
	// Shadowed is how many tokens a limit in [Shadow] would have refused since it is in that mode and
	// the bucket exists, and ShadowedAt when it did so last. Both are zero for any other limit.
	Shadowed   int64
	ShadowedAt time.Time
}

// MarshalJSON writes the balance as [Status.MarshalJSON] does, with full_after_ms, used and
// pending. A wait is null if it is [Never].
func (b Balance) MarshalJSON() ([]byte, error) {
	_, full := jsonWait(b.FullAfter)
	return json.Marshal(struct {
		statusJSON
		FullMillis *int64  `json:"full_after_ms"`
		Used       float64 `json:"used"`
		Pending    bool    `json:"pending"`
		Shadowed   int64   `json:"shadowed,omitempty"`
		ShadowedAt string  `json:"shadowed_at,omitempty"`
	}{jsonOf(&b.Status), full, b.Used, b.Pending, b.Shadowed, shadowedAt(b.ShadowedAt)})
}

func shadowedAt(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// Standing returns the state of every limit of an entity and a resource, and of its
// parent if it cascades. The state is the balance as an acquire would find it now, when
// the limit has a token, and when it is full. An entity that never acquired has its
// configured capacity.
//
// Standing is [Limiter.Available] for one token of every limit. The caller need not know
// the limits, and a disabled bucket is shown instead of refused. It reads the bucket as
// Available does, at the same cost, and writes under the same condition. Each limit of slots
// costs one more read. Standing returns by its context's deadline and within [Options.Timeout],
// with [ErrUnavailable].
func (l *Limiter) Standing(ctx context.Context, entity, resource string) (*Standing, error) {
	if err := checkNames(entity, resource); err != nil {
		return nil, err
	}
	op := "read the standing of " + resource + " for " + entity
	return process.InTime(ctx, l.driver.Process, op, func(ctx context.Context) (*Standing, error) {
		child, parent, err := l.driver.Inspector.LookAtAll(ctx, entity, resource)
		if err != nil {
			return nil, err
		}
		s, err := l.standingOf(ctx, child)
		if err == nil && parent != nil {
			s.Parent, err = l.standingOf(ctx, parent)
		}
		return s, err
	})
}

func (l *Limiter) standingOf(ctx context.Context, c *acquire.Claim) (*Standing, error) {
	s := &Standing{
		Entity: c.Entity, Resource: c.Resource, Level: levelOf(c.Terms.Target),
		Shards: c.ShardCount(), Limits: balancesOf(c, c.Shards(l.driver.Uptime()), c.At),
	}
	is := c.Disabling()
	s.Disabled, s.Bypassed = is.Disabled, is.Bypassed
	s.DisabledBy, s.DisabledUntil = disabledBy(is)
	var err error
	s.Slots, err = l.slotUses(ctx, c.Terms.Target, c.Entity, c.Resource)
	return s, err
}

// balancesOf returns the balance of each limit that a claim asks for one token of. A nil
// shard is missing and will open empty.
func balancesOf(c *acquire.Claim, shards []*store.Image, now int64) []Balance {
	statuses := statusesOf(c, shards, now)
	balances := make([]Balance, len(statuses))
	for i, st := range statuses {
		params, parts := c.Terms.Holdings(nil, st.Limit.Name, shards, now)
		held, capacity := plan.Balance(parts, now), plan.InForce(params, now).Capacity
		for _, shard := range plan.MissingOf(shards) {
			parts = append(parts, plan.Holding{Limit: plan.Share(params, shard, len(shards), now), At: now})
		}
		balances[i] = Balance{
			Status: st, FullAfter: plan.FullAfter(parts, now),
			Used:    (float64(capacity) - float64(held)) / float64(max(1, capacity)),
			Pending: c.Terms.IsPending(st.Limit.Name, shards),
		}
		balances[i].Shadowed, balances[i].ShadowedAt = shadowedOn(shards, st.Limit.Name)
	}
	return balances
}

// shadowedOn is what shards have noted of a limit in shadow.
func shadowedOn(shards []*store.Image, limit string) (tokens int64, last time.Time) {
	var refused, at int64
	for _, img := range shards {
		if img == nil {
			continue
		}
		if s, ok := img.Limit(limit); ok && s.Mode() == Shadow {
			seen := s.Observed()
			refused, at = refused+seen.Shadowed, max(at, seen.ShadowedAt)
		}
	}
	if at != 0 {
		last = time.UnixMilli(at).UTC()
	}
	return refused / milli, last
}

// A SlotUse says who holds the slots of a limit.
type SlotUse struct {
	Entity, Resource string
	// Limit has the number of slots. It has none, and Level is [LevelNone], if no level of the
	// configuration has the limit, so that requests bring it ([Request.SlotFallback]).
	Limit SlotLimit
	Level Level
	// Held are the slots of all holders, and Waiting are those that their callers wait for.
	Held, Waiting int64
	// Used is the fraction of the slots that is held; 0 if their number is not known.
	Used    float64
	Holders []SlotHolder // who hold the most first
}

// A SlotHolder is a process that holds slots of a limit, or a lease that was written down with them.
type SlotHolder struct {
	// Process is a name that each limiter gives to itself. IsLease says that it is the name of a lease
	// instead: nobody renews that, so RenewedAt is the zero time, and LeaseEnd is its deadline.
	Process string
	IsLease bool
	// Held are the slots that the process has for its requests, and keeps for the next ones.
	// Waiting are those that its callers wait for.
	Held, Waiting int64
	// RenewedAt is when the process last wrote that it is alive, by its own clock. It holds the
	// slots until LeaseEnd, unless it renews them.
	RenewedAt, LeaseEnd time.Time
	// Gone says that the process did not renew them in time, or that the deadline has passed. Whoever next wants slots sets these
	// free.
	Gone bool
}

// slotUse is who holds slots of a limit, by an image of them, which may be nil.
func (l *Limiter) slotUse(k store.SlotKey, w *plan.Wanted, img *store.SlotImage) SlotUse {
	u := SlotUse{Entity: k.Entity, Resource: k.Resource, Limit: SlotLimit{Name: k.Limit, Slots: plan.SlotsOf(w.Slots, k.Limit)}}
	if u.Limit.Slots > 0 {
		u.Level = LevelEntityResource + Level(w.SlotsAt) //nolint:gosec // there are few levels
	}
	if img == nil {
		return u
	}
	now := l.driver.Now()
	for i := range img.Holdings {
		h := &img.Holdings[i]
		u.Held += h.Held
		u.Waiting += h.Wants
		holder := SlotHolder{
			Process: h.Process, IsLease: h.IsLease(), Held: h.Held, Waiting: h.Wants, LeaseEnd: time.UnixMilli(h.Until), Gone: acquire.IsGone(h, now),
		}
		if !holder.IsLease {
			holder.RenewedAt = time.UnixMilli(acquire.RenewedAt(h))
		}
		u.Holders = append(u.Holders, holder)
	}
	slices.SortFunc(u.Holders, func(a, b SlotHolder) int {
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(b.Waiting, a.Waiting), strings.Compare(a.Process, b.Process))
	})
	if u.Limit.Slots > 0 {
		u.Used = float64(u.Held) / float64(u.Limit.Slots)
	}
	return u
}

// slotUses is who holds the slots of an entity, of each limit in its configuration.
func (l *Limiter) slotUses(ctx context.Context, w *plan.Wanted, entity, resource string) ([]SlotUse, error) {
	images, err := l.driver.Inspector.SlotImages(ctx, w, entity, resource)
	if err != nil {
		return nil, err
	}
	uses := make([]SlotUse, len(images))
	for i, img := range images {
		uses[i] = l.slotUse(store.SlotKey{Entity: entity, Resource: resource, Limit: w.Slots[i].Name}, w, img)
	}
	return uses, nil
}

// A SlotCount is how many slots of a limit of one entity the requests of a limiter hold, and wait
// for.
type SlotCount struct {
	Entity, Resource, Limit string
	Held, Waiting           int64
}

// SlotCounts are the slots that the requests of this limiter hold now, or wait for, in no order. It
// asks nobody: [Limiter.Standing] also shows other processes.
func (l *Limiter) SlotCounts() []SlotCount {
	uses := l.driver.SlotUses()
	counts := make([]SlotCount, len(uses))
	for i, u := range uses {
		counts[i] = SlotCount{u.Entity, u.Resource, u.Limit, u.Held, u.Waiting}
	}
	return counts
}
