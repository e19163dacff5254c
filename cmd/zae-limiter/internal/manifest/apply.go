package manifest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// Times of the hold on a manifest, and of recording what an apply has done when its
// context has ended.
const (
	holdTime   = 2 * time.Minute
	renewAfter = 20 * time.Second
	finishTime = 20 * time.Second // for the record of 10,000 levels, over a slow connection
)

// planAttempts is how often an apply plans again because the manifest's record changed.
const planAttempts = 3

// ApplyOptions say how to apply a manifest.
type ApplyOptions struct {
	// Prune deletes levels that the manifest owns and does not declare. Otherwise they
	// stay, and stay owned.
	Prune bool
	// Expected is the plan that was shown; nil applies whatever the plan is.
	Expected *Plan
	// Progress, if not nil, is called after each transaction with the number of levels
	// that were sent so far, and of all that will be.
	Progress func(done, all int)
}

// An Outcome is a change of an apply, and why it failed.
type Outcome struct {
	Change
	// Err is why the level was not changed, or why not all of its buckets follow. The
	// manifest then still owns the level, and the next apply completes the change.
	Err error
}

// A Result is what an apply did.
type Result struct {
	Name, Namespace string
	Outcomes        []Outcome
	// Unconfigured is that of the plan that was applied.
	Unconfigured []store.UnconfiguredWarning
}

// Count counts the changes of some actions that succeeded.
func (r *Result) Count(actions ...Action) (n int) {
	for _, o := range r.Outcomes {
		if o.Err == nil && slices.Contains(actions, o.Action) {
			n++
		}
	}
	return n
}

// Failures are the outcomes with an error.
func (r *Result) Failures() []Outcome {
	var failed []Outcome
	for _, o := range r.Outcomes {
		if o.Err != nil {
			failed = append(failed, o)
		}
	}
	return failed
}

// Apply makes the levels of a manifest as it declares them. A transaction has up to
// [dynamo.MaxLevels] levels, each with its audit event and its registries. Levels of
// entities reach their buckets before Apply returns. Applying again what was applied
// sends no writes.
//
// Apply fails as a whole if it could not begin or could not record its end. The error is
// a [*HeldError] if another process applies the manifest, and [ErrChanged] if the plan is
// not the expected one. It is [store.ErrNotFound] if the namespace was deleted since the
// store was opened. Otherwise the result has an error for each level that failed.
func (m *Manager) Apply(ctx context.Context, of *Manifest, o ApplyOptions) (*Result, error) {
	p, holder, err := m.claim(ctx, of, o)
	if err != nil {
		return nil, err
	}
	r := &Result{Name: p.Name, Namespace: p.Namespace, Outcomes: make([]Outcome, len(p.Changes)), Unconfigured: p.Unconfigured}
	for i, c := range p.Changes {
		r.Outcomes[i].Change = c
		if c.Action == Conflict {
			r.Outcomes[i].Err = &OwnedError{c.Owner}
		}
	}
	if holder == "" {
		return r, nil
	}
	a := &applier{manager: m, name: of.Name, holder: holder, held: m.store.Now(), result: r, progress: o.Progress, all: p.Count(Create, Update, Delete, Resume)}
	a.records(ctx, p.stages)
	a.run(ctx)
	return r, a.record(ctx, of)
}

// claim plans, and records the plan's levels as owned and pending. holder is "" if
// there is nothing to record.
func (m *Manager) claim(ctx context.Context, of *Manifest, o ApplyOptions) (p *Plan, holder string, err error) {
	errMoved := errors.New("the record changed while the plan was made")
	for range planAttempts {
		var planned *dynamo.ManifestRecord
		if p, planned, err = m.plan(ctx, of, o.Prune); err != nil {
			return nil, "", err
		}
		if o.Expected != nil && !samePlan(o.Expected, p) {
			return nil, "", ErrChanged
		}
		if p.Count(Create, Update, Delete, Resume, Adopt, Forget) == 0 {
			return p, "", nil
		}
		if err := m.prepare(ctx, p); err != nil {
			return nil, "", err
		}
		holder = newHolder()
		err = m.store.ChangeManifest(ctx, of.Name, func(own *dynamo.ManifestRecord, others []dynamo.ManifestRecord) error {
			if err := m.checkFree(own); err != nil {
				return err
			}
			if !reflect.DeepEqual(own, planned) || takenMeanwhile(p, others) {
				return errMoved
			}
			p.claim(own)
			own.Holder, own.HeldUntil = holder, m.store.Now().Add(holdTime)
			return nil
		})
		if !errors.Is(err, errMoved) {
			return p, holder, err
		}
	}
	return nil, "", &HeldError{of.Name, m.store.Now()}
}

// prepare makes sure that the namespace is there, and finds the limits that will not hold.
func (m *Manager) prepare(ctx context.Context, p *Plan) (err error) {
	if err = m.store.CheckNamespace(ctx); err == nil {
		p.Unconfigured, err = m.store.Unconfigured(ctx, p.levels())
	}
	return err
}

// checkFree fails if another process applies the manifest of a record.
func (m *Manager) checkFree(r *dynamo.ManifestRecord) error {
	if r.Holder != "" && m.store.Now().Before(r.HeldUntil) {
		return &HeldError{r.Name, r.HeldUntil}
	}
	return nil
}

// claim takes ownership of what a plan touches, and marks what is to change.
func (p *Plan) claim(own *dynamo.ManifestRecord) {
	for _, c := range p.Changes {
		switch {
		case c.writes():
			own.Levels[c.Key] = pending + c.Clears.digest()
		case c.Action == Adopt:
			own.Levels[c.Key] = c.After.digest()
		case c.Action == Forget:
			delete(own.Levels, c.Key)
		}
	}
}

// takenMeanwhile reports whether another manifest owns a level that a plan would
// change.
func takenMeanwhile(p *Plan, others []dynamo.ManifestRecord) bool {
	for _, c := range p.Changes {
		for _, r := range others {
			if _, taken := r.Levels[c.Key]; taken && (c.writes() || c.Action == Adopt) {
				return true
			}
		}
	}
	return false
}

// samePlan reports whether two plans do the same.
func samePlan(a, b *Plan) bool {
	return slices.EqualFunc(a.Changes, b.Changes, func(x, y Change) bool {
		return x.Action == y.Action && x.Key == y.Key && x.Clears == y.Clears && reflect.DeepEqual(x.Before, y.Before) && reflect.DeepEqual(x.Entity, y.Entity) && reflect.DeepEqual(x.After, y.After)
	})
}

func newHolder() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// An applier carries out the changes of a plan.
type applier struct {
	manager      *Manager
	name, holder string
	held         time.Time // when the hold was last renewed
	result       *Result
	progress     func(done, all int)
	done, all    int
	stopped      error // why nothing more is sent
}

// run sends all changes of levels: first what is set, then what is deleted, so that limits which
// move to another level never lack in between.
func (a *applier) run(ctx context.Context) {
	var sets, deletes []*Outcome
	for i := range a.result.Outcomes {
		switch o := &a.result.Outcomes[i]; {
		case isRecord(o.Key):
		case o.Action == Delete:
			deletes = append(deletes, o)
		case o.writes():
			sets = append(sets, o)
		}
	}
	for batch := range slices.Chunk(sets, dynamo.MaxLevels) {
		a.send(ctx, batch, a.set)
	}
	for batch := range slices.Chunk(deletes, dynamo.MaxLevels) {
		a.send(ctx, batch, a.drop)
	}
}

// send sends a batch if the hold lasts.
func (a *applier) send(ctx context.Context, batch []*Outcome, write func(context.Context, []*Outcome) []error) {
	if a.stopped == nil {
		a.stopped = a.renew(ctx)
	}
	var errs []error
	if a.stopped == nil {
		errs = write(ctx, batch)
		a.stopped = outage(errs)
	}
	for i, o := range batch {
		o.Err = a.stopped
		if errs != nil {
			o.Err = errs[i]
		}
	}
	a.done += len(batch)
	if a.progress != nil {
		a.progress(a.done, a.all)
	}
}

// outage returns the error of a batch of which nothing was changed because the table
// cannot be reached or refuses the credentials. Later batches would wait for the same.
func outage(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	for _, err := range errs {
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrAccessDenied) {
			return nil
		}
	}
	return errs[0]
}

// renew prolongs the hold, if it is not fresh. It fails if another process has it.
func (a *applier) renew(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := a.manager.store.Now()
	if now.Sub(a.held) < renewAfter {
		return nil
	}
	if err := a.manager.store.HoldManifest(ctx, a.name, a.holder, now.Add(holdTime)); err != nil {
		return err
	}
	a.held = now
	return nil
}

// atOnce is how many policies and records an apply changes at once.
const atOnce = 8

// A job changes one level or record, and reports its error. It calls renew after each bucket.
type job struct {
	err *error
	do  func(ctx context.Context, renew func(dynamo.Switched)) error
}

// sideBySide does jobs, several at once. It ends early if the hold is lost.
func (a *applier) sideBySide(ctx context.Context, jobs []job) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var held sync.Mutex
	renew := func(dynamo.Switched) {
		held.Lock()
		defer held.Unlock()
		if err := a.renew(ctx); err != nil {
			cancel(err)
		}
	}
	var work sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, j := range jobs {
		places <- struct{}{}
		renew(dynamo.Switched{})
		work.Go(func() {
			defer func() { <-places }()
			err := j.do(ctx, renew)
			if lost := context.Cause(ctx); err != nil && lost != nil {
				err = errors.Join(lost, err)
			}
			*j.err = err
		})
	}
	work.Wait()
}

func (a *applier) set(ctx context.Context, batch []*Outcome) []error {
	var levels []dynamo.Level
	var at []int
	for i, o := range batch {
		if o.After.setsLimits() {
			levels, at = append(levels, dynamo.Level{Key: o.Key, Limits: o.After.Limits, OnUnavailable: o.After.OnUnavailable}), append(at, i)
		}
	}
	errs := make([]error, len(batch))
	for i, err := range a.manager.store.SetLevels(ctx, levels) {
		errs[at[i]] = err
	}
	a.setPolicies(ctx, batch, errs)
	return errs
}

func (a *applier) drop(ctx context.Context, batch []*Outcome) []error {
	keys := make([]store.ConfigKey, len(batch))
	for i, o := range batch {
		keys[i] = o.Key
	}
	errs := a.manager.store.DeleteLevels(ctx, keys)
	a.setPolicies(ctx, batch, errs)
	return errs
}

// record writes down what was done, and ends the hold. It does so even if the caller
// has left, in a time of its own, so that the next apply need not wait.
func (a *applier) record(ctx context.Context, of *Manifest) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	return a.manager.store.ChangeManifest(ctx, a.name, func(own *dynamo.ManifestRecord, _ []dynamo.ManifestRecord) error {
		if own.Holder != a.holder {
			return &HeldError{a.name, own.HeldUntil}
		}
		own.Holder, own.HeldUntil = "", time.Time{}
		complete := true
		for _, o := range a.result.Outcomes {
			switch {
			case o.Err != nil:
				complete = false
			case o.Action == Delete:
				delete(own.Levels, o.Key)
			case o.writes():
				own.Levels[o.Key] = o.After.digest()
			}
		}
		if complete {
			own.Applied, own.Hash = a.manager.store.Now(), of.Hash()
		}
		return nil
	})
}
