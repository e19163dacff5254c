package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// An Inspector reads what buckets hold and what they are to be. It decides no request.
//
// Invariant: it writes nothing to the table. So what it does may be cut off, repeated, or
// shared by all callers that want the same at the same time. What it reads may be behind
// when it arrives: the condition of a later write makes up for that.
type Inspector struct {
	*process.Process

	accounts *accounts
}

// Look looks at the buckets of a request, without a debit.
func (in *Inspector) Look(ctx context.Context, req *Request) []Part {
	parts := make([]Part, req.Parts())
	in.AtOnce(len(parts), func(i int) {
		p := &parts[i]
		p.Child, p.Parent, p.Err = in.look(ctx, req.Part(i), in.inspect)
	})
	return parts
}

// LookAtAll looks at the buckets of an entity and, if it cascades, of its parent. The claims
// ask for one token of every limit that the buckets have, or are to have. A disabled
// bucket is looked at, too. parent is nil if the entity does not cascade.
func (in *Inspector) LookAtAll(ctx context.Context, entity, resource string) (child, parent *Claim, err error) {
	return in.look(ctx, &Request{Entity: entity, Resource: resource}, in.inspectAll)
}

func (in *Inspector) look(ctx context.Context, req *Request, inspect func(context.Context, *Claim) error) (child, parent *Claim, err error) {
	child = in.accounts.claim(req)
	if err := inspect(ctx, child); err != nil || child.Parent == "" {
		return child, nil, err
	}
	parent = in.accounts.parentClaim(req, child.Parent)
	return child, parent, inspect(ctx, parent)
}

// inspectAll is [Inspector.inspect] for every limit.
func (in *Inspector) inspectAll(ctx context.Context, c *Claim) error {
	if err := in.see(ctx, c); err != nil {
		return err
	}
	if err := c.canExist(); err != nil {
		return err
	}
	c.Terms.AskEach(c.images)
	return nil
}

// InForce returns the configuration that holds for the buckets of an entity and, if it
// cascades, of its parent, read within the time to live. parent is nil if the entity does
// not cascade.
func (in *Inspector) InForce(ctx context.Context, entity, resource string) (own, parent *plan.Wanted, err error) {
	if own, err = in.configured(ctx, entity, resource); err != nil {
		return nil, nil, err
	}
	if payer := plan.PayerOf(&own.Owner); payer != "" {
		parent, err = in.configured(ctx, payer, resource)
	}
	return own, parent, err
}

// configured reads the configuration of one bucket. It fails if this version cannot
// evaluate the limits.
func (in *Inspector) configured(ctx context.Context, entity, resource string) (*plan.Wanted, error) {
	w, _, err := in.Config.Resolve(ctx, entity, resource, nil)
	if err == nil && !w.IsEvaluable() {
		err = unsupported(store.Bucket{Entity: entity, Resource: resource}, w.Features)
	}
	return w, err
}

// inspect gives a claim the shards of its bucket, and the bucket as an acquire would find
// it: repaired to its configuration, or made anew.
func (in *Inspector) inspect(ctx context.Context, c *Claim) error {
	if err := in.see(ctx, c); err != nil {
		return err
	}
	if is := c.Disabling(); is.Disabled {
		return disabledError(c.Bucket, is)
	}
	if err := c.canExist(); err != nil {
		return err
	}
	if c.Terms.AreUnknownTo(c.images) {
		return unsupported(c.Bucket, cmp.Or(c.Terms.Target.Features, c.first().Features))
	}
	return nil
}

// Obstacle is why an acquire of a claim that was only looked at would fail, at an instant:
// this version cannot evaluate the bucket, and the request has to wait, or an instant has passed
// at which the peer would look at the bucket again. Until then, an acquire takes what is there.
func (c *Claim) Obstacle(at int64, waits bool) error {
	if w := c.Terms.Target; waits && !w.IsEvaluable() {
		return unsupported(c.Bucket, w.Features)
	}
	for _, img := range c.images {
		if img != nil && !img.IsEvaluable() && (waits || img.HasValidUntil && img.ValidUntil <= at) {
			return unsupported(c.Bucket, img.Features)
		}
	}
	return nil
}

// canExist fails if the bucket does not exist, and this version cannot make it.
func (c *Claim) canExist() error {
	if w := c.Terms.Target; c.first() == nil && !w.IsEvaluable() {
		return unsupported(c.Bucket, w.Features)
	}
	return nil
}

// first is the first shard that a claim was shown, nil if there is none.
func (c *Claim) first() *store.Image {
	if i := slices.IndexFunc(c.images, func(img *store.Image) bool { return img != nil }); i >= 0 {
		return c.images[i]
	}
	return nil
}

// Disabling says whether an operator has disabled or bypassed the bucket of a claim that was only
// looked at: by its configuration, or else by its items.
func (c *Claim) Disabling() store.Disabling {
	if is := c.Terms.Target.Switches.At(c.At); is.Disabled || is.Bypassed {
		return is
	}
	is := disablingOf(c.first())
	if is.Bypassed { // its stamp is no end: the next write renews it
		is.Bypassed, is.Until = is.Until > c.At, 0
	}
	return is
}

// see gives a claim the shards of its bucket, its configuration and its parent.
func (in *Inspector) see(ctx context.Context, c *Claim) error {
	var shards []*store.Image
	var errs [2]error
	in.AtOnce(len(errs), func(i int) {
		if i == 0 {
			shards, errs[i] = in.wholeBucket(ctx, c)
		} else {
			errs[i] = in.inform(ctx, c)
		}
	})
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if w := c.Terms.Target; len(shards) > 0 && (!w.IsEvaluable() || !shards[0].IsEvaluable()) {
		c.Parent = plan.CascadeOf(shards[0]) // a foreign item is not repaired: its own cascade holds
	} else {
		c.Parent = plan.PayerOf(&w.Owner)
	}
	c.Looked, c.images, c.At = true, plan.WholeSet(shards), in.Now()
	return nil
}

// wholeBucket reads all shards of a claim's bucket.
func (in *Inspector) wholeBucket(ctx context.Context, c *Claim) ([]*store.Image, error) {
	shards, err := in.Store.Buckets(ctx, c.Entity, c.Resource, c.acct.ShardCount())
	if err == nil && len(shards) > 0 && !plan.IsWhole(shards) { // or the read crossed a merge
		shards, err = in.Store.Buckets(ctx, c.Entity, c.Resource, plan.CountOf(shards))
	}
	if err != nil {
		return nil, fmt.Errorf("read the bucket of %s for %s: %w", c.Entity, c.Resource, err)
	}
	return shards, nil
}

// inform gives a claim the wanted bucket, read within the time to live.
func (in *Inspector) inform(ctx context.Context, c *Claim) error {
	w := c.acct.Wanted()
	if w == nil || !in.Config.IsYoung(w, in.Uptime()) {
		var err error
		if w, _, err = in.Config.Resolve(ctx, c.Entity, c.Resource, nil); err != nil {
			return err
		}
		c.acct.Want(w)
	}
	c.adopt(w)
	return nil
}
