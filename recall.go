package limiter

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/store"
)

// refuseFromMemory refuses a request from memory, if the remembered images of its buckets
// show that it would be refused. It returns nil if the limiter must ask the store.
//
// The last image of a bucket, refilled to now, shows the most that the bucket can hold,
// unless somebody returned tokens or merged shards. So such an image may refuse, for a
// short time; it never admits. There must be an image of every shard, compared with its
// configuration within the time to live. No item may need a write. Then the answer is
// the same as the store's, with the same wait.
func (l *Limiter) refuseFromMemory(req *Request) error {
	asked, m := req.asked(), l.driver.Moment()
	of, refuses := l.driver.RefusesFromMemory(&asked, m)
	if !refuses {
		return nil
	}
	e := &ExceededError{Statuses: make([]Status, 0, len(req.Consume))}
	var room [1]*store.Image
	for i, acct := range of {
		if acct == nil {
			continue
		}
		if w := acct.Wanted(); i > 0 && w != nil && w.IsUnlimited() {
			continue
		}
		images, all := l.driver.LastImages(room[:0], acct, m)
		if !all {
			return nil
		}
		c, limits := acquire.Claim{Bucket: images[0].Bucket}, images[0].Limits
		for k := range limits {
			if tokens, asked := req.Consume[limits[k].Name]; asked {
				e.Statuses = appendStatus(e.Statuses, &c, store.Amount{Limit: limits[k].Name, Milli: tokens * milli}, 0, images, m.Now)
			}
		}
	}
	if !slices.ContainsFunc(e.Statuses, func(s Status) bool { return s.Exceeded }) {
		return nil // tokens were returned meanwhile
	}
	l.driver.Counts.Refused.Add(1)
	return e
}
