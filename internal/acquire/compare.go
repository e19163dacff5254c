package acquire

import (
	"context"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// compareIfDue begins or joins a comparison of a bucket if w was read longer ago than
// the time to live. Otherwise it returns nil. It also returns nil if nothing is known
// of the bucket, because the claim is then about to read everything.
func (in *Inspector) compareIfDue(ctx context.Context, c *Claim, w *plan.Wanted) *comparison {
	up := in.Uptime()
	if w == nil || in.Config.IsYoung(w, up) || !c.acct.IsKnown(up, memory.ImageAge) {
		return nil
	}
	return in.compare(ctx, c.acct, c.Bucket)
}

// compare begins to read the configuration of a bucket. If such a read is under way,
// compare returns that one. But where configuration is not kept, it begins a new
// read, because the other is older than the claim. It returns nil if a read has just
// failed.
func (in *Inspector) compare(ctx context.Context, acct *account, b store.Bucket) *comparison {
	d := acct.enter()
	cmp, first := d.comparisons.begin(in.Uptime(), in.Config.TTL() > 0)
	if !first {
		acct.leave()
		return cmp
	}
	in.Soon(func() {
		defer acct.leave()
		w, err := in.Config.Refresh(in.Detach(ctx), b.Entity, b.Resource)
		if err == nil {
			acct.Want(w)
		} else {
			in.Logger.WarnContext(ctx, "bucket not compared with its configuration", "entity", b.Entity, "resource", b.Resource, "error", err)
		}
		d.comparisons.end(cmp, err, in.Uptime())
	})
	return cmp
}

// await waits for a comparison, if there is one, but not for long. It reports whether
// the comparison succeeded.
func (in *Inspector) await(ctx context.Context, cmp *comparison, left <-chan struct{}) bool {
	if cmp == nil {
		return false
	}
	select {
	case <-cmp.done:
		return cmp.err == nil
	default:
	}
	t := time.NewTimer(in.Part())
	defer t.Stop()
	select {
	case <-cmp.done:
		return cmp.err == nil
	case <-t.C:
	case <-left:
	case <-ctx.Done():
	}
	return false
}

// verifySoon is [process.Process.Verify] for a claim. It gives up early, and at once if a read has just
// failed.
func (in *Inspector) verifySoon(ctx context.Context, acct *account, b store.Bucket) (*plan.Wanted, error) {
	d := acct.enter()
	defer acct.leave()
	if err := d.comparisons.failedLately(in.Uptime()); err != nil {
		return nil, err
	}
	ctx, cancel := in.Shorten(ctx)
	defer cancel()
	w, err := in.Verify(ctx, &acct.Account, b)
	d.comparisons.end(nil, err, in.Uptime())
	return w, err
}

// takeAsIs makes a claim take an item as it is, because the configuration could not
// be read. It fails if the claim names a limit that the item lacks but the remembered
// configuration has.
func (in *Inspector) takeAsIs(ctx context.Context, c *Claim, img *store.Image, cause error) bool {
	terms, ok := c.want.OnItem(img, &c.Terms)
	if !ok {
		return false
	}
	in.Logger.WarnContext(ctx, "bucket not compared with its configuration", "entity", c.Entity, "resource", c.Resource, "error", cause)
	c.Terms = terms
	return true
}

// comparisons are the reads of a bucket's configuration by which a process compares
// the bucket (ADR 024).
//
// The naive way reads the configuration when it is too old, and debits after that: each
// time to live, some callers wait for two requests. Here the read and the debit are under
// way at the same time, and the answer waits for the later one:
//
//	caller 1   ── debit ─────────────▶ granted ─┐
//	           ── read configuration ──────▶ as before ──▶ answer
//	caller 2        ── debit ──────▶ refused ────────┴──▶ answer
//
// Invariant: callers join a read only where configuration is kept. Where it is not, each
// caller is promised what was configured when it came, and a read under way is older.
type comparisons struct {
	mu       sync.Mutex
	current  *comparison   // under way; nil if there is none
	failure  error         // why the last read failed; nil if it did not
	failedAt time.Duration // when that was
}

// A comparison is a read of a bucket's configuration that is under way. Callers that
// come meanwhile wait for it too.
type comparison struct {
	done chan struct{} // closed when the read has ended
	err  error
}

// failedPause is how long after a failed comparison no other is tried.
const failedPause = time.Second

// begin returns the comparison under way, if the caller may join it. Otherwise it
// returns a new one, which the caller must carry out: then first is true. It returns
// nil if the last comparison has just failed.
func (c *comparisons) begin(up time.Duration, join bool) (cmp *comparison, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.current != nil && join:
		return c.current, false
	case c.failure != nil && up-c.failedAt < failedPause:
		return nil, false
	}
	c.current = &comparison{done: make(chan struct{})}
	return c.current, true
}

// end notes the result of a read, and releases the callers that wait for it. cmp is nil if
// nobody does.
func (c *comparisons) end(cmp *comparison, err error, up time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure, c.failedAt = err, up
	if cmp == nil {
		return
	}
	if c.current == cmp {
		c.current = nil
	}
	cmp.err = err
	close(cmp.done)
}

// failedLately is why a recent read failed, nil if none did.
func (c *comparisons) failedLately(up time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if up-c.failedAt >= failedPause {
		return nil
	}
	return c.failure
}

// areBlank reports whether no read is under way, and the last one has not failed.
func (c *comparisons) areBlank() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current == nil && c.failure == nil
}
