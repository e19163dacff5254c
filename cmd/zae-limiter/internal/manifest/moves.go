package manifest

import (
	"context"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// The order in which an apply changes records (ADR 049)
//
// A move is refused if it makes a circle or two cascades in a row, whatever else is to change
// after it. Between the tree that is there and the declared one every state must be allowed:
//
//	a cascades to b, b is below c    →    c below b, b cascades to a, a does not cascade
//
//	stage 0   a no longer cascades          nothing above it can forbid that
//	stage 1   a has no parent               roots first: everything above an entity is then as
//	stage 2   b below a, cascades           declared, so that it is neither in a circle nor
//	stage 3   c below b                     below a cascade that is not declared
//
// So two cascades in a row can only come from below: from an entity that has not moved away
// yet. Stage 0 ends its cascade, and it takes from no parent until its own stage.

// A step changes the record of one entity.
type step struct {
	change int         // its place in [Plan.Changes]
	to     dynamo.Move // for one that is not created
	passes bool        // another step follows
}

// stages are the steps of a plan. Steps of one stage are independent of each other.
func (t *tree) stages(changes []Change) [][]step {
	stages := [][]step{nil}
	depths := map[string]int{}
	for i := range changes {
		c := &changes[i]
		if !isRecord(c.Key) || !c.writes() {
			continue
		}
		e, _ := t.is(c.Key.Entity)
		last := step{change: i, to: dynamo.Move{Parent: e.Parent, Cascade: c.After.Cascade}}
		if was := c.Entity; was != nil && was.Cascade {
			switch {
			case e.Parent == was.Parent && !e.Cascade:
				stages[0] = append(stages[0], last)
				continue
			case e.Parent != was.Parent && t.beginsToCascade(was.Parent):
				stages[0] = append(stages[0], step{i, dynamo.Move{Parent: was.Parent, Cascade: store.No}, true})
				last.to.Cascade = store.No
				if e.Cascade {
					last.to.Cascade = store.Yes
				}
			}
		}
		depth := 1 + t.depth(e.ID, depths)
		for len(stages) <= depth {
			stages = append(stages, nil)
		}
		stages[depth] = append(stages[depth], last)
	}
	return stages
}

// beginsToCascade reports whether an entity does not cascade to a parent now, and will.
func (t *tree) beginsToCascade(id string) bool {
	e, ok := t.is(id)
	return ok && e.Cascade && e.Parent != "" && t.changes(id)
}

// depth is how many ancestors an entity has after an apply.
func (t *tree) depth(id string, known map[string]int) int {
	if d, ok := known[id]; ok {
		return d
	}
	d := 0
	known[id] = d // ends where others have made a circle
	if e, _ := t.is(id); e.Parent != "" {
		d = 1 + t.depth(e.Parent, known)
	}
	known[id] = d
	return d
}

// records changes the records of entities, before the limits of their levels.
func (a *applier) records(ctx context.Context, stages [][]step) {
	for _, stage := range stages {
		if len(stage) == 0 {
			continue
		}
		if a.stopped == nil {
			a.stopped = a.renew(ctx)
		}
		errs := make([]error, len(stage))
		var jobs []job
		for i, s := range stage {
			o := &a.result.Outcomes[s.change]
			switch {
			case a.stopped != nil:
				errs[i] = a.stopped
			case o.Err == nil: // otherwise its first step failed
				jobs = append(jobs, job{&errs[i], func(ctx context.Context, renew func(dynamo.Switched)) error { return a.change(ctx, o, s, renew) }})
			}
		}
		a.sideBySide(ctx, jobs)
		if a.stopped == nil {
			a.stopped = outage(errs)
		}
		a.endStage(stage, errs)
		if a.progress != nil {
			a.progress(a.done, a.all)
		}
	}
}

// endStage keeps the errors of a stage, and counts the changes that end with it.
func (a *applier) endStage(stage []step, errs []error) {
	for i, s := range stage {
		if errs[i] != nil {
			a.result.Outcomes[s.change].Err = errs[i]
		}
		if !s.passes {
			a.done++
		}
	}
}

// change creates an entity, or moves it. Where the manifest declares no parent, the entity stays
// below the one that it has by then.
func (a *applier) change(ctx context.Context, o *Outcome, s step, renew func(dynamo.Switched)) error {
	id := o.Key.Entity
	if o.Action == Create {
		_, err := a.manager.store.CreateEntity(ctx, store.Entity{ID: id, Parent: s.to.Parent, Cascade: s.to.Cascade == store.Yes})
		return err
	}
	if o.After.Parent == nil {
		e, err := a.manager.store.Entity(ctx, id)
		if err != nil {
			return err
		}
		s.to.Parent = e.Parent
	}
	s.to.Reason = a.reason()
	_, err := a.manager.store.SetParent(ctx, id, s.to, renew)
	return err
}
