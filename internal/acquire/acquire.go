package acquire

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/store"
)

// Acquire debits the entity and its parent. If the driver remembers the parent, it
// pursues both claims at once. Each claim runs on its own: a side that was debited
// stays debited while the other side refills. If a remembered parent is out of date, the
// driver refunds it.
//
// Acquire returns the claims as they were decided, and the error of either. The caller
// refunds them with [Driver.Refund] unless both were granted. parent is nil if the
// entity does not cascade. left is closed when the caller has gone.
func (d *Driver) Acquire(ctx context.Context, req *Request, left <-chan struct{}) (child, parent *Claim, err error) {
	child = d.claim(req)
	remembered := child.acct.Owner(d.Uptime(), memory.ImageAge)
	if err := d.knownDisabled(req, child.acct, remembered); err != nil {
		return child, nil, err
	}
	parent, childErr, parentErr := d.pursueBoth(ctx, req, child, remembered, left)
	if childErr == nil && child.Parent != remembered {
		d.Refund(ctx, parent)
		parent, parentErr = nil, nil
		if child.Parent != "" && !child.Refused {
			parent = d.parentClaim(req, child.Parent)
			parentErr = d.pursue(ctx, parent, left)
		}
	}
	if child.Refused && parent == nil && child.Parent != "" {
		// The wait is the longer of the two.
		parent = d.parentClaim(req, child.Parent)
		parentErr = d.inspect(ctx, parent)
	}
	return child, parent, errors.Join(childErr, parentErr)
}

// knownDisabled fails if the bucket of the entity, or of its remembered parent, is
// known to be disabled. Otherwise the driver would debit the other bucket and have
// to refund it.
func (d *Driver) knownDisabled(req *Request, acct *account, parent string) error {
	switch up := d.Uptime(); {
	case d.isDisabled(acct, up):
		return &store.DisabledError{Entity: req.Entity, Resource: req.Resource}
	case parent != "" && d.isDisabled(d.account(parent, req.Resource), up):
		return &store.DisabledError{Entity: parent, Resource: req.Resource}
	}
	return nil
}

// pursueBoth debits the entity's claim and, if a parent is remembered, the parent's.
func (d *Driver) pursueBoth(ctx context.Context, req *Request, child *Claim, remembered string, left <-chan struct{}) (parent *Claim, childErr, parentErr error) {
	if remembered == "" {
		return nil, d.pursue(ctx, child, left), nil
	}
	parent = d.parentClaim(req, remembered)
	errs := [2]error{}
	d.AtOnce(2, func(i int) { errs[i] = d.pursue(ctx, [...]*Claim{child, parent}[i], left) })
	return parent, errs[0], errs[1]
}
