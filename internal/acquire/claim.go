package acquire

import (
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Claim is one bucket's part of a request: the entity's, or its parent's.
type Claim struct {
	store.Bucket // the shard is the one to which the claim was last routed

	acct *account      // what is remembered of the bucket and all its shards
	want plan.Want     // what the request asks of the bucket
	by   time.Duration // until when the caller waits for its turn and its tokens, by the uptime

	Terms plan.Terms // the want under the configuration known last
	Outcome
}

// An Outcome is what became of a claim.
type Outcome struct {
	Granted bool // the amounts are debited
	Refused bool // the bucket cannot serve the amounts
	Carried bool // another caller's write decided it
	Looked  bool // the claim was only to look at the bucket, see [Driver.Look]
	// At is the instant for which the claim was decided, in milliseconds. If the claim was
	// taken ahead, it is the instant at which the bucket has earned it.
	At     int64
	Parent string  // the parent to which the entity cascades
	Behind []int64 // for each amount, what later callers took in the same write

	image    *store.Image   // the item after the debit, or the item that refused; nil if there is none
	landed   *store.Image   // the item as the debit left it, if image is a later one, because an answer was lost; otherwise nil
	images   []*store.Image // all shards of the bucket, if the driver looked at several
	portions []plan.Portion // the debit of each shard, if several were debited
	until    time.Duration  // when the item has earned what was taken ahead, by the uptime
	short    bool           // the shard cannot serve the amounts, others may
	counted  plan.Counted   // the amounts of which the debit moved no balance
	entry    *ledger.Entry  // in which the debit reserved what goes back of it; nil if nothing does
}

// lastImage is the last image of the item that a claim was routed to, if it is young enough
// to plan on; otherwise nil.
func (c *Claim) lastImage(up time.Duration) *store.Image {
	return c.acct.Image(c.Shard, up, memory.ImageAge)
}

// refusedBy ends a claim that an item cannot serve. It refuses the claim if the item
// is the whole bucket, and otherwise marks it short.
func (c *Claim) refusedBy(img *store.Image, now int64) {
	c.image, c.At, c.Parent = img, now, plan.CascadeOf(img)
	c.short = img.ShardCount > 1
	c.Refused = !c.short
}

// earned notes when the item has earned what the claim took ahead.
func (c *Claim) earned(img *store.Image, m memory.Moment, ahead int64) {
	c.At = plan.EarnedAt(img, c.Terms.Amounts, c.Behind, m.Now, ahead)
	c.until = m.Up + time.Duration(c.At-m.Now)*time.Millisecond
}

// Shards returns the images that decided a claim, by shard number, as far as they are
// remembered.
func (c *Claim) Shards(up time.Duration) []*store.Image {
	switch {
	case c.images != nil:
		return c.images
	case c.image == nil:
		return nil
	case c.image.ShardCount == 1:
		return []*store.Image{c.image}
	}
	// Images from before or after a doubling have other shares.
	last, _ := c.acct.Images(up, memory.ImageAge)
	images := make([]*store.Image, c.image.ShardCount)
	for i, img := range last {
		if img != nil && img.ShardCount == len(images) {
			images[i] = img
		}
	}
	images[c.image.Shard] = c.image
	return images
}

// ShardCount is the bucket's number of shards, by the images that decided a claim; 0 if
// there are none.
func (c *Claim) ShardCount() int {
	switch {
	case c.images != nil:
		return len(c.images)
	case c.image != nil:
		return c.image.ShardCount
	}
	return 0
}

// adopt puts a claim under a configuration, unless it is under that one already.
func (c *Claim) adopt(w *plan.Wanted) {
	if w != c.Terms.Configured {
		c.Terms = c.want.Under(w)
	}
}

// look drops the terms under which a claim took one image as it is, if it sees another.
func (c *Claim) look(img *store.Image) {
	if c.Terms.AsIs != nil && c.Terms.AsIs != img {
		c.Terms = c.want.Under(nil)
	}
}

// renew resets a claim to its state before any outcome.
func (c *Claim) renew() {
	*c = Claim{Bucket: c.Bucket, acct: c.acct, want: c.want, by: c.by, Terms: c.want.Under(nil)}
}

// CountsAny reports whether that is so of any limit, see [Claim.Counts].
func (c *Claim) CountsAny() bool { return len(c.counted.Limits) > 0 }

// tookFrom notes the image of a shard after a claim was debited from it.
func (c *Claim) tookFrom(img *store.Image) {
	for i := range c.portions {
		if c.portions[i].Image.Shard == img.Shard {
			c.portions[i].Image = img
		}
	}
}

// countOn notes which amounts of what a claim is allotted of a shard move no balance.
func (c *Claim) countOn(shard int, counted plan.Counted) {
	for i := range c.portions {
		if p := &c.portions[i]; p.Image.Shard == shard {
			p.Amounts = counted.Mark(p.Amounts)
			for _, a := range p.Amounts {
				if slices.Contains(counted.Limits, a.Limit) && !slices.Contains(c.counted.Limits, a.Limit) {
					c.counted.Limits = append(c.counted.Limits, a.Limit)
				}
			}
		}
	}
}

// Counts reports whether the claim was granted by a write that moved no balance of a limit, and only
// counted what was asked of it: the limit is in a mode, and would have refused the claim, or is off.
func (c *Claim) Counts(limit string) bool { return slices.Contains(c.counted.Limits, limit) }

// UnknownToAll returns the limits of the request that neither side has. A parent that
// was not asked may have them all.
func UnknownToAll(child, parent *Claim) []string {
	switch {
	case parent == nil && child.Parent != "":
		return nil
	case parent == nil:
		return child.Terms.Unknown
	}
	return slices.DeleteFunc(slices.Clone(child.Terms.Unknown), func(name string) bool { return !slices.Contains(parent.Terms.Unknown, name) })
}

// addTo adds amounts to a sum, which is ordered by limit name. A credit of several periods
// counts as one of the first.
func addTo(sum, amounts []store.Amount) []store.Amount {
	for _, a := range amounts {
		i, found := slices.BinarySearchFunc(sum, a.Limit, func(s store.Amount, name string) int { return strings.Compare(s.Limit, name) })
		if !found {
			sum = slices.Insert(sum, i, store.Amount{Limit: a.Limit})
		}
		sum[i].Milli += a.Milli
		if a.Until != 0 && (sum[i].Until == 0 || a.Until < sum[i].Until) {
			sum[i].Until = a.Until
		}
	}
	return sum
}

// stands reports whether the outcome of a claim still holds for w. If it does, the
// claim takes w over, and its statuses quote it.
//
// It asks the images on which the claim was decided, and not whether w is the configuration
// by which it was decided. A change that the items have already followed needs no new
// decision, even if this process learns of it only now.
func (c *Claim) stands(w *plan.Wanted, at int64) bool {
	if c.Terms.AsIs != nil {
		return !w.IsDisabled(at)
	}
	now := c.want.Under(w)
	if w.IsDisabled(at) || !slices.Equal(now.Unknown, c.Terms.Unknown) || slices.ContainsFunc(c.decidedOn(), func(img *store.Image) bool { return now.Target.Differs(img, at) }) {
		return false
	}
	c.Terms = now
	return true
}

// decidedOn returns the images on which a claim was decided.
func (c *Claim) decidedOn() (images []*store.Image) {
	switch {
	case c.Granted && len(c.portions) > 0:
		for _, p := range c.portions {
			images = append(images, p.Image)
		}
	case c.Refused && c.images != nil:
		images = slices.DeleteFunc(slices.Clone(c.images), func(img *store.Image) bool { return img == nil })
	case c.image != nil:
		images = []*store.Image{c.image}
	}
	return images
}
