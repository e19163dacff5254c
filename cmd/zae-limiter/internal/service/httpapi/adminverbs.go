package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/store"
)

// Codes of problems of administration.
var (
	codesOfReads  = append([]int{http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusInternalServerError}, codesOfBodies...)
	codesOfWrites = append([]int{http.StatusConflict}, codesOfReads...)
)

// verbs are all calls of administration.
var verbs = sync.OnceValue(func() []verb {
	return slices.Concat(
		ofTable(),
		reads(
			verbOf("entity/get", "Show an entity", "The entity must have been created. The field ETag of the answer is for If-Match of set-parent.", getEntity),
			verbOf("entity/list", "List the entities that were created", "They are in the order of their IDs.", listEntities),
			verbOf("entity/children", "List the children of an entity", "Those are the entities whose parent it is.", func(ctx context.Context, o *order, in *entityNamed) (manage.Children, error) {
				return manage.ListChildren(ctx, o.store, in.Entity)
			}),
			verbOf("entity/list-resources", "List the resources that an entity uses, or has its own limits for", "A resource without a bucket has no shards.",
				func(ctx context.Context, o *order, in *entityNamed) (manage.EntityResources, error) {
					return manage.ListEntityResources(ctx, o.store, in.Entity)
				}),
			verbOf("entity/get-limits", "Show an entity's own limits for a resource", aboutTag, getLimits[ofEntity]),
			verbOf("resource/get-defaults", "Show the default limits of a resource", aboutTag, getLimits[ofResource]),
			verbOf("system/get-defaults", "Show the default limits of all resources, and what an outage does", aboutTag, getLimits[ofSystem]),
			verbOf("resource/list", "List the resources that have default limits", "They are in the order of their names.", func(ctx context.Context, o *order, _ *nothing) (manage.Resources, error) {
				return manage.ListResources(ctx, o.store)
			}),
			verbOf("standing", "Show every limit of an entity: where it comes from, and what is left", "The parent that the entity cascades to is beside it.",
				func(ctx context.Context, o *order, in *bucketNamed) (*manage.Standing, error) {
					if err := in.check(); err != nil {
						return nil, err
					}
					return manage.GetStanding(ctx, o.Limiter, in.Entity, in.Resource)
				}),
			verbOf("slots", "Show which processes hold the slots of an entity", "The slots of the parent that the entity cascades to are there, too.",
				func(ctx context.Context, o *order, in *bucketNamed) (manage.Slots, error) {
					if err := in.check(); err != nil {
						return manage.Slots{}, err
					}
					return manage.GetSlots(ctx, o.Limiter, in.Entity, in.Resource)
				}),
			verbOf("top", "Show the entities that are nearest to their limits", "The call reads every bucket of the resource.", showTop),
			verbOf("usage/list", "List what was consumed in each window", "The newest window is the first.", listUsage),
			verbOf("usage/summary", "Add up what was consumed", "An average is for one window.", func(ctx context.Context, o *order, in *usageToSum) (manage.UsageSum, error) {
				q, err := in.query()
				if err != nil {
					return manage.UsageSum{}, err
				}
				return manage.SumUsage(ctx, o.store, q)
			}),
			verbOf("audit/list", "List changes of an entity, a resource or the system", "The newest event is the first.", func(ctx context.Context, o *order, in *eventsToList) (manage.Events, error) {
				q, err := in.query()
				if err != nil {
					return manage.Events{}, err
				}
				return manage.ListEvents(ctx, o.store, q)
			}),
			verbOf("limits/export", "Write the limits of the namespace as a manifest", "A plan of the result has no changes. What a manifest cannot say is missing, and in the log.", exportLimits),
			manifests(verbOf("limits/plan", "Show what an apply of a manifest would change", "The call reads the levels as they are now.", planLimits)),
		),
		conditional(
			verbOf("entity/set-limits", "Replace an entity's own limits for a resource", aboutLevels, setLimits[ofEntity]),
			verbOf("resource/set-defaults", "Replace the default limits of a resource", aboutLevels, setLimits[ofResource]),
			verbOf("system/set-defaults", "Replace the default limits of all resources, what to do in an outage, or both", "What is not given stays as it is. "+aboutIf, setSystem),
			verbOf("entity/delete-limits", "Delete an entity's own limits for a resource", "The next level then applies. "+aboutIf, deleteLimits[ofEntity]),
			verbOf("resource/delete-defaults", "Delete the default limits of a resource", "The system's then apply. "+aboutIf, deleteLimits[ofResource]),
			verbOf("system/delete-defaults", "Delete the default limits of all resources, and what to do in an outage", aboutIf, deleteLimits[ofSystem]),
		),
		conditional(keyed(
			verbOf("entity/disable", "Refuse all requests of an entity", aboutKey+" "+aboutIf, setSwitch[ofEntity](store.Yes)),
			verbOf("entity/enable", "Serve an entity, whatever later levels disable", aboutKey+" "+aboutIf, setSwitch[ofEntity](store.No)),
			verbOf("entity/bypass", "Serve all requests of an entity, and only count them", aboutKey+" "+aboutIf, setSwitch[ofEntity](store.Bypass)),
			verbOf("entity/clear", "Undo disable, enable and bypass of an entity", "The next level then decides. "+aboutKey+" "+aboutIf, clearSwitch[ofEntity]),
			verbOf("resource/disable", "Refuse all requests of a resource", aboutKey+" "+aboutIf, setSwitch[ofResource](store.Yes)),
			verbOf("resource/enable", "Serve a resource, whatever later levels disable", aboutKey+" "+aboutIf, setSwitch[ofResource](store.No)),
			verbOf("resource/bypass", "Serve all requests of a resource, and only count them", aboutKey+" "+aboutIf, setSwitch[ofResource](store.Bypass)),
			verbOf("resource/clear", "Undo disable, enable and bypass of a resource", "The next level then decides. "+aboutKey+" "+aboutIf, clearSwitch[ofResource]),
			verbOf("entity/raise", "Multiply limits of an entity until a time", aboutKey+" "+aboutIf, raise[ofEntity]),
			verbOf("resource/raise", "Multiply limits of a resource until a time", aboutKey+" "+aboutIf, raise[ofResource]),
			verbOf("entity/set-cascade", "Set whether an entity takes from its parent, too", aboutKey+" "+aboutIf, setCascade[ofEntity]),
			verbOf("resource/set-cascade", "Set whether requests for a resource take from the parents, too", aboutKey+" "+aboutIf, setCascade[ofResource]),
			verbOf("entity/set-parent", "Move an entity to another parent, or to none", aboutKey+" "+aboutRecord, setParent),
			verbOf("entity/reset", "Make the limits of an entity's bucket full", aboutKey+" "+aboutOwn, reset),
			verbOf("entity/top-up", "Add tokens to limits of an entity's bucket", aboutKey+" "+aboutOwn, topUp),
		)...),
		conditional(
			verbOf("entity/set-slots", "Set how many requests of an entity run at a time", aboutSlots, setSlots[ofEntity]),
			verbOf("resource/set-slots", "Set how many requests of each entity for a resource run at a time", aboutSlots, setSlots[ofResource]),
			verbOf("system/set-slots", "Set how many requests of each entity for each resource run at a time", aboutSlots, setSlots[ofSystem]),
		),
		writes(
			verbOf("entity/create", "Create an entity", "It needs a record only to have a parent.", func(ctx context.Context, o *order, in *entityToMake) (manage.Entity, error) {
				if in.Cascade && in.Parent == "" {
					return manage.Entity{}, invalid("cascade", true, "the entity has nowhere to cascade to: give parent_id, too")
				}
				return manage.CreateEntity(ctx, o.store, store.Entity{ID: in.Entity, Name: in.Name, Parent: in.Parent, Cascade: in.Cascade, Metadata: in.Metadata})
			}),
			verbOf("entity/delete", "Delete an entity with its limits, buckets and usage", "Its audit events stay. The call cannot be undone.", func(ctx context.Context, o *order, in *entityNamed) (manage.DeletedEntity, error) {
				return manage.DeleteEntity(ctx, o.store, in.Entity)
			}),
			manifests(verbOf("limits/apply", "Make the limits of the namespace as a manifest declares them", "Some levels may fail: failures has them. The same call again completes it.", applyLimits)),
		),
	)
})

// Texts that several verbs have.
const (
	aboutTag    = "The field ETag of the answer says what the level has, for If-Match of a change."
	aboutIf     = "With If-Match, a tag of ETag, the level must still have what was read. With If-None-Match: *, it must have nothing."
	aboutLevels = "Levels are not merged: these limits hold instead of those of the next level. " + aboutIf
	aboutKey    = "With Idempotency-Key, the change is made once: for three days, the same call with the key is answered as repeated."
	aboutSlots  = "The first level that has slots holds. The limits of the level stay as they are. " + aboutIf
	aboutOwn    = "With If-Match or If-None-Match, the entity's own level for the resource must still be as it was read."
	aboutRecord = "With If-Match, the tag that entity/get has told, the entity must still be as it was read."
)

func reads(all ...verb) []verb {
	for i := range all {
		all[i].IsRead, all[i].Problems = true, codesOfReads
	}
	return all
}

func writes(all ...verb) []verb {
	for i := range all {
		all[i].Problems = codesOfWrites
	}
	return all
}

func conditional(all ...verb) []verb {
	for i := range all {
		all[i].IsConditional = true
	}
	return writes(all...)
}

func keyed(all ...verb) []verb {
	for i := range all {
		all[i].IsKeyed = true
	}
	return writes(all...)
}

// manifests gives a verb the body of a batch.
func manifests(v verb) verb {
	v.maxBody = MaxBatchBody
	return v
}

func getEntity(ctx context.Context, o *order, in *entityNamed) (manage.Entity, error) {
	e, err := manage.GetEntity(ctx, o.store, in.Entity)
	if err == nil {
		o.tag = e.Tag()
	}
	return e, err
}

func listEntities(ctx context.Context, o *order, in *entitiesToList) (manage.Entities, error) {
	most, err := upTo(in.Max, defaultPage, dynamo.MaxEntities)
	if err != nil {
		return manage.Entities{}, err
	}
	return manage.ListEntities(ctx, o.store, dynamo.EntityQuery{Limit: most, Prefix: in.Prefix, Cursor: in.Cursor})
}

func getLimits[L leveled](ctx context.Context, o *order, in *at[L, nothing]) (manage.Level, error) {
	k, err := in.Level.key()
	if err != nil {
		return manage.Level{}, err
	}
	l, err := manage.GetLimits(ctx, o.store, k)
	if err == nil {
		o.tag = l.Tag()
	}
	return l, err
}

func setLimits[L leveled](ctx context.Context, o *order, in *at[L, limitsToSet]) (manage.Level, error) {
	k, err := in.Level.key()
	if err != nil {
		return manage.Level{}, err
	}
	return o.set(ctx, k, in.More.Limits, manage.Setting{Keep: in.More.Keep, DryRun: in.More.DryRun})
}

func setSystem(ctx context.Context, o *order, in *systemToSet) (manage.Level, error) {
	return o.set(ctx, store.ConfigKey{}, in.Limits, manage.Setting{Level: dynamo.Level{OnUnavailable: in.OnUnavailable}, DryRun: in.DryRun})
}

// set sets the limits of a level, and what else a setting has.
func (o *order) set(ctx context.Context, k store.ConfigKey, limits []manage.LimitToSet, to manage.Setting) (manage.Level, error) {
	var err error
	to.Key, to.If = k, o.seen.level(k)
	if to.Limits, err = manage.StoredLimits(limits); err == nil {
		err = to.Check()
	}
	if err != nil {
		return manage.Level{}, err
	}
	l, _, err := manage.SetLimits(ctx, o.store, to)
	if err == nil && !to.DryRun {
		o.tag = l.Tag()
	}
	return l, err
}

func deleteLimits[L leveled](ctx context.Context, o *order, in *at[L, dry]) (manage.DeletedLevel, error) {
	k, err := in.Level.key()
	if err != nil {
		return manage.DeletedLevel{}, err
	}
	d, _, err := manage.DeleteLimits(ctx, o.store, manage.Deletion{Key: k, If: o.seen.level(k), DryRun: in.More.DryRun})
	return d, err
}

func setSwitch[L leveled](p store.Policy) func(context.Context, *order, *at[L, switchToSet]) (manage.SwitchResult, error) {
	return func(ctx context.Context, o *order, in *at[L, switchToSet]) (manage.SwitchResult, error) {
		k, err := in.Level.key()
		if err != nil {
			return manage.SwitchResult{}, err
		}
		to := dynamo.Switch{Policy: p, Cause: o.caused(in.More.Reason), If: o.seen.level(k)}
		if to.Until, err = end(in.More.Until, o.Now()); err == nil {
			err = to.Check()
		}
		if err != nil {
			return manage.SwitchResult{}, err
		}
		return manage.SetSwitch(ctx, o.store, k, to, manage.Follow{DryRun: in.More.DryRun})
	}
}

func clearSwitch[L leveled](ctx context.Context, o *order, in *at[L, switchToClear]) (manage.SwitchResult, error) {
	k, err := in.Level.key()
	to := dynamo.Switch{Cause: o.caused(in.More.Reason), If: o.seen.level(k)}
	if err == nil {
		err = to.Check()
	}
	if err != nil {
		return manage.SwitchResult{}, err
	}
	return manage.SetSwitch(ctx, o.store, k, to, manage.Follow{DryRun: in.More.DryRun})
}

func raise[L leveled](ctx context.Context, o *order, in *at[L, raiseToMake]) (manage.RaiseResult, error) {
	k, err := in.Level.key()
	if err != nil {
		return manage.RaiseResult{}, err
	}
	r, err := in.More.raise(o.Now(), o.caused(in.More.Reason))
	if err != nil {
		return manage.RaiseResult{}, err
	}
	r.If = o.seen.level(k)
	return manage.Raise(ctx, o.store, k, r)
}

func setCascade[L leveled](ctx context.Context, o *order, in *at[L, cascadeToSet]) (manage.CascadeResult, error) {
	k, err := in.Level.key()
	if err != nil {
		return manage.CascadeResult{}, err
	}
	p, ok := manage.CascadePolicy(in.More.Policy)
	if !ok {
		return manage.CascadeResult{}, invalid("policy", in.More.Policy, "give on, off or clear")
	}
	to := dynamo.Cascade{Policy: p, Cause: o.caused(in.More.Reason), If: o.seen.level(k)}
	if err := to.Check(); err != nil {
		return manage.CascadeResult{}, err
	}
	return manage.SetCascade(ctx, o.store, k, to, manage.Follow{DryRun: in.More.DryRun})
}

func setParent(ctx context.Context, o *order, in *entityToMove) (manage.Parent, error) {
	if in.None == (in.Parent != "") {
		return manage.Parent{}, invalid("parent_id", in.Parent, `give it, or "none": true`)
	}
	to := dynamo.Move{Parent: in.Parent, Cause: o.caused(in.Reason), If: o.seen.entity()}
	if err := to.Check(in.Entity); err != nil {
		return manage.Parent{}, err
	}
	return manage.SetParent(ctx, o.store, in.Entity, to, manage.Follow{DryRun: in.DryRun})
}

func setSlots[L leveled](ctx context.Context, o *order, in *at[L, slotsToSet]) (manage.Level, error) {
	k, err := in.Level.key()
	if err != nil {
		return manage.Level{}, err
	}
	slots, err := in.More.limits()
	if err != nil {
		return manage.Level{}, err
	}
	return manage.SetSlots(ctx, o.store, k, slots, in.More.Reason, o.seen.level(k))
}

func reset(ctx context.Context, o *order, in *bucketToReset) (manage.Amendment, error) {
	for i, name := range in.Limits {
		if slices.Contains(in.Limits[:i], name) {
			return manage.Amendment{}, invalid("limit_names", name, "name each limit once")
		}
	}
	return manage.Reset(ctx, o.store, dynamo.Reset{
		Entity: in.Entity, Resource: in.Resource, Limits: in.Limits, Cause: o.caused(in.Reason), If: o.seen.level(in.level()), DryRun: in.DryRun,
	})
}

func topUp(ctx context.Context, o *order, in *bucketToTopUp) (manage.Amendment, error) {
	for name, tokens := range in.Amounts {
		if tokens < 1 {
			return manage.Amendment{}, invalid("amounts."+name, tokens, "give at least 1")
		}
	}
	return manage.TopUp(ctx, o.store, dynamo.TopUp{
		Entity: in.Entity, Resource: in.Resource, Amounts: in.Amounts, Cause: o.caused(in.Reason), If: o.seen.level(in.level()), DryRun: in.DryRun,
	})
}

func showTop(ctx context.Context, o *order, in *topToShow) (manage.Top, error) {
	most, err := upTo(in.Max, defaultTop, limiter.MaxTop)
	switch {
	case err != nil:
	case in.All == (in.Resource != ""):
		err = invalid("resource", in.Resource, `give it, or "all_resources": true`)
	case in.Shadow && in.Slots:
		err = invalid("shadow", true, "it is about limits, and slots is about slots: give one of them")
	case !(in.Above >= 0):
		err = invalid("above", in.Above, "give a percentage, 80 for instance")
	case in.Resource != "":
		err = store.CheckResource(in.Resource)
	}
	if err != nil {
		return manage.Top{}, err
	}
	namespace, _ := o.store.Namespace()
	return manage.GetTop(ctx, o.Limiter, manage.TopQuery{
		TopQuery: limiter.TopQuery{Resource: in.Resource, Most: most, WithoutParent: in.WithoutParent, Shadow: in.Shadow}, Above: in.Above, Slots: in.Slots,
	}, namespace)
}

func listUsage(ctx context.Context, o *order, in *usageToList) (manage.Usage, error) {
	q, err := in.query()
	if err == nil {
		q.Cursor = in.Cursor
		q.Limit, err = upTo(in.Max, usage.DefaultLimit, usage.MaxLimit)
	}
	if err != nil {
		return manage.Usage{}, err
	}
	return manage.ListUsage(ctx, o.store, q)
}

func exportLimits(ctx context.Context, o *order, in *manifestNamed) (*manifest.Manifest, error) {
	if in.Name == "" {
		in.Name = manifest.DefaultName
	}
	if err := store.CheckManifest(in.Name); err != nil {
		return nil, err
	}
	m, err := manifest.New(o.store)
	if err != nil {
		return nil, err
	}
	of, skipped, err := m.Export(ctx, in.Name)
	for _, level := range skipped {
		o.log.WarnContext(ctx, "level not exported as it is", "resource", level.Key.Resource, "text", level.Reason)
	}
	return of, err
}

// errBlocked says that a manifest cannot be applied now.
var errBlocked = errors.New("the manifest is not applied")

// manifestOf reads a manifest for the namespace of a call.
func (o *order) manifestOf(in *manifestToPlan) (*manifest.Manifest, *manifest.Manager, error) {
	if len(in.Manifest) == 0 {
		return nil, nil, invalid("manifest", "", "give a manifest, as limits/export answers with one")
	}
	of, err := manifest.Parse("manifest", in.Manifest)
	if err != nil {
		return nil, nil, &store.ValidationError{Field: "manifest", Reason: err.Error()}
	}
	m, err := manifest.New(o.store)
	return of, m, err
}

func planLimits(ctx context.Context, o *order, in *manifestToPlan) (manage.Plan, error) {
	of, m, err := o.manifestOf(in)
	if err != nil {
		return manage.Plan{}, err
	}
	p, err := m.Plan(ctx, of, in.Prune)
	if err != nil {
		return manage.Plan{}, err
	}
	return manage.PlanOf(p, o.Now()), nil
}

func applyLimits(ctx context.Context, o *order, in *manifestToPlan) (manage.Applied, error) {
	of, m, err := o.manifestOf(in)
	if err != nil {
		return manage.Applied{}, err
	}
	r, err := m.Apply(ctx, of, manifest.ApplyOptions{Prune: in.Prune})
	held := (*manifest.HeldError)(nil)
	switch {
	case errors.As(err, &held):
		return manage.Applied{}, fmt.Errorf("%w: %w", errBlocked, held)
	case r == nil:
		return manage.Applied{}, err
	}
	return manage.AppliedOf(r, o.Now()), err
}
