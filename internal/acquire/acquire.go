package acquire

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Acquire debits the entity and its parent, for each resource of a request at the same time
// (ADR 047: each part is decided alone, and returned if another one fails). It puts what
// became of each into parts, which has a place for each. The caller refunds the claims with
// [Settler.Refund] unless all were granted. left is closed when the caller has gone.
//
// If a bucket is known to be disabled, Acquire debits none: the others would have to be
// refunded.
func (d *Driver) Acquire(ctx context.Context, req *Request, left <-chan struct{}, parts []Part) {
	known := false
	for i := range parts {
		p := &parts[i]
		p.Child = d.accounts.claim(req.Part(i))
		p.Err = d.knownDisabled(p.Child)
		known = known || p.Err != nil
	}
	switch {
	case known:
	case len(parts) == 1:
		parts[0] = d.acquire(ctx, req, parts[0].Child, left)
	default:
		d.AtOnce(len(parts), func(i int) { parts[i] = d.acquire(ctx, req.Part(i), parts[i].Child, left) })
	}
}

// acquire debits the entity and its parent for one resource. If the driver remembers the
// parent, it pursues both claims at once. Each claim runs on its own: a side that was debited
// stays debited while the other side refills. If a remembered parent is out of date, the
// driver refunds it.
func (d *Driver) acquire(ctx context.Context, req *Request, child *Claim, left <-chan struct{}) Part {
	remembered := child.acct.Owner(d.Uptime(), memory.ImageAge)
	return d.complete(ctx, req, d.pursueBoth(ctx, req, child, remembered, left), left)
}

// Sides are a part's claims and their errors. There is no parent if none is remembered.
type sides struct {
	child, parent       *Claim
	childErr, parentErr error
}

// complete debits the parent that a child turned out to have, and refunds one that it no longer
// has. If the child is refused, complete looks at the parent's bucket.
func (d *Driver) complete(ctx context.Context, req *Request, s sides, left <-chan struct{}) Part {
	child := s.child
	if s.childErr == nil && child.Parent != s.pursued() {
		d.Settler.Refund(ctx, s.parent)
		s.parent, s.parentErr = nil, nil
		if child.Parent != "" && !child.Refused {
			s.parent = d.accounts.parentClaim(req, child.Parent)
			s.parentErr = d.pursue(ctx, s.parent, left)
		}
	}
	if child.Refused && s.parent == nil && child.Parent != "" {
		// The wait is the longer of the two.
		s.parent = d.accounts.parentClaim(req, child.Parent)
		s.parentErr = d.Inspector.inspect(ctx, s.parent)
	}
	return Part{child, s.parent, errors.Join(s.childErr, s.parentErr)}
}

// pursued is the parent whose claim was pursued with the child's; "" if there is none.
func (s *sides) pursued() string {
	if s.parent == nil {
		return ""
	}
	return s.parent.Entity
}

// knownDisabled fails if the bucket of the entity, or of its remembered parent, is
// known to be disabled. Otherwise the driver would debit the other bucket and have
// to refund it.
func (d *Driver) knownDisabled(child *Claim) error {
	at := d.Moment()
	if is := d.disabling(child.acct, at); is.Disabled {
		return disabledError(child.Bucket, is)
	}
	parent := child.acct.Owner(at.Up, memory.ImageAge)
	if parent == "" {
		return nil
	}
	if is := d.disabling(d.accounts.of(parent, child.Resource), at); is.Disabled {
		return disabledError(store.Bucket{Entity: parent, Resource: child.Resource}, is)
	}
	return nil
}

// pursueBoth debits the entity's claim and, if a parent is remembered, the parent's.
func (d *Driver) pursueBoth(ctx context.Context, req *Request, child *Claim, remembered string, left <-chan struct{}) sides {
	if remembered == "" {
		return sides{child: child, childErr: d.pursue(ctx, child, left)}
	}
	both, errs := [...]*Claim{child, d.accounts.parentClaim(req, remembered)}, [2]error{}
	d.AtOnce(len(both), func(i int) { errs[i] = d.pursue(ctx, both[i], left) })
	return sides{both[0], both[1], errs[0], errs[1]}
}

// pursue debits a claim. If the last comparison of the bucket is older than the time
// to live, pursue compares it again while it debits. The answer waits for both. If
// the parameters no longer hold, the driver returns what it took by them and decides
// the request again.
//
// If a comparison fails or takes too long, the bucket's answer holds: the bucket was
// reached, so the request is metered. The driver tries the comparison again later.
func (d *Driver) pursue(ctx context.Context, c *Claim, left <-chan struct{}) error {
	const revisions = 4
	for range revisions {
		last := c.acct.Wanted()
		cmp := d.Inspector.compareIfDue(ctx, c, last)
		if answered, err := d.answerUnasked(ctx, c, cmp, left); answered || err != nil {
			return err
		}
		if err := d.writer.route(ctx, c, left); err != nil {
			return err
		}
		if again, err := d.revise(ctx, c, last, cmp, left); !again {
			return err
		}
	}
	return fmt.Errorf("debit %s of %s: its limits changed %d times meanwhile: %w", c.Resource, c.Entity, revisions, store.ErrConflict)
}

// revise compares what a claim was decided by with the configuration, if that is due or under
// way. If the parameters no longer hold, it returns what the claim took, to be decided again.
func (d *Driver) revise(ctx context.Context, c *Claim, last *plan.Wanted, cmp *comparison, left <-chan struct{}) (again bool, err error) {
	if w := c.acct.Wanted(); cmp == nil && w == last { // the comparison may have come due meanwhile
		cmp = d.Inspector.compareIfDue(ctx, c, w)
	}
	if !d.Inspector.await(ctx, cmp, left) || c.stands(c.acct.Wanted(), d.Now()) {
		d.startUpkeep(ctx, c)
		return false, nil
	}
	if err := d.Settler.takeBack(ctx, c); err != nil {
		return false, err
	}
	c.renew()
	return true, nil
}

// answerUnasked answers a claim without asking the bucket, if the bucket is disabled
// or is not to have the limits that the claim names.
func (d *Driver) answerUnasked(ctx context.Context, c *Claim, cmp *comparison, left <-chan struct{}) (answered bool, err error) {
	at := d.Moment()
	if is := c.acct.Disabling(at, d.Config.TTL(), d.Config.Epoch()); is.Disabled {
		return true, disabledError(c.Bucket, is)
	}
	w := c.acct.Wanted()
	if c.adopt(w); w == nil || !w.IsDisabled(at.Now) && !c.want.TakesNothing(&c.Terms) {
		return false, nil
	}
	if !d.Config.IsYoung(w, at.Up) {
		if cmp == nil {
			cmp = d.Inspector.compare(ctx, c.acct, c.Bucket)
		}
		if !d.Inspector.await(ctx, cmp, left) && !w.IsDisabled(at.Now) {
			return false, nil // the remembered configuration is too old to answer by
		}
		w = c.acct.Wanted()
		c.adopt(w)
	}
	switch is := w.Switches.At(d.Now()); {
	case is.Disabled:
		return true, disabledError(c.Bucket, is)
	case c.want.TakesNothing(&c.Terms):
		c.Parent = plan.PayerOf(&w.Owner)
		return true, nil
	}
	return false, nil
}

// disabling is what is known of whether a bucket is disabled, by its configuration or by an
// item. Both count for the time to live of configuration, and until the switch ends.
func (d *Driver) disabling(acct *account, at memory.Moment) store.Disabling {
	if w := acct.Wanted(); w != nil && d.Config.IsYoung(w, at.Up) {
		if is := w.Switches.At(at.Now); is.Disabled {
			return is
		}
	}
	return acct.Disabling(at, d.Config.TTL(), d.Config.Epoch())
}
