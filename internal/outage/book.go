package outage

import (
	"container/list"
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// ErrFull says that the book has as many shares as it may have, and that all of them owe something.
var ErrFull = errors.New("the process has shares of as many buckets as it may have")

// A Book has the shares of a process. It is safe for concurrent use.
//
// Without a bound, who invents entities would fill the process's memory while the store is away. So
// the share that was not used for longest makes room for a new one, if it owes nothing: it is made
// again as it was. One that owes something stays until the store has been told.
type Book struct {
	mu     sync.Mutex
	most   int
	shares map[memory.Key]*Share
	order  list.List // of the shares, the one used last first
}

// NewBook makes a book of at most so many shares, at least one.
func NewBook(most int) *Book { return &Book{most: max(1, most), shares: map[memory.Key]*Share{}} }

// mostLooks bounds how many shares are looked at to find one that owes nothing.
const mostLooks = 32

// Share returns the share of a bucket, and makes it if there is none: of one of n processes, by the
// images that were seen last. since is when the store was lost.
func (b *Book) Share(k memory.Key, since, now int64, seen func() (images []memory.Seen, n int)) (*Share, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.shares[k]; s != nil {
		b.order.MoveToFront(s.place)
		return s, nil
	}
	if len(b.shares) >= b.most && !b.dropLocked(now) {
		return nil, ErrFull
	}
	images, n := seen()
	s := newShare(k, max(1, n), images, since)
	s.place = b.order.PushFront(s)
	b.shares[k] = s
	return s, nil
}

// dropLocked makes room for a share.
func (b *Book) dropLocked(now int64) bool {
	at := b.order.Back()
	for range mostLooks {
		if at == nil {
			return false
		}
		s := at.Value.(*Share) //nolint:errcheck,forcetypeassert // the list has nothing else
		if s.advance(now); s.settles == nil && !s.owes() {
			b.closeLocked(s)
			return true
		}
		at = at.Prev()
	}
	return false
}

func (b *Book) closeLocked(s *Share) {
	s.closed = true
	delete(b.shares, s.Key)
	b.order.Remove(s.place)
}

// Len is the number of shares.
func (b *Book) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.shares)
}

// All are all shares.
func (b *Book) All() (all []*Share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.shares {
		all = append(all, s)
	}
	return all
}

// Find returns the share of a bucket; nil if there is none.
func (b *Book) Find(k memory.Key) *Share {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shares[k]
}

// An Ask is what a request asks of one share. Amounts of limits that the share does not have are
// left out.
type Ask struct {
	Share   *Share
	Amounts []store.Amount
}

// A Quote is a limit that a request names, as the share has it before the request.
type Quote struct {
	memory.Key
	Limit    string
	Params   store.Params // of the whole limit
	Opened   int64        // when its session began
	Soft     bool         // and in no mode
	Mode     store.Mode
	Bypassed bool
	Held     int64 // millitokens of the share
	Asked    int64
	// Wait is how long the share takes to earn what is asked for. It is [plan.Never] if the whole
	// limit never holds that. TooLarge says that only the share never holds it.
	Wait     time.Duration
	TooLarge bool
}

// A Hold is what a request took of one share.
type Hold struct {
	book  *Book
	share *Share
	at    int64
	taken []store.Amount
}

// Take takes all amounts, or nothing. If a share lacks something, it returns what all shares have.
func (b *Book) Take(asks []Ask, now int64) (holds []*Hold, refused []Quote) {
	b.mu.Lock()
	defer b.mu.Unlock()
	isRefused := false
	for _, ask := range asks {
		ask.Share.advance(now)
		for _, a := range ask.Amounts {
			if i, found := ask.Share.find(a.Limit); found {
				q := ask.Share.quote(&ask.Share.limits[i], a.Milli, now)
				refused, isRefused = append(refused, q), isRefused || q.Wait > 0 || q.TooLarge
			}
		}
	}
	if isRefused {
		return nil, refused
	}
	for _, ask := range asks {
		h := &Hold{book: b, share: ask.Share, at: now}
		for _, a := range ask.Amounts {
			if i, found := ask.Share.find(a.Limit); found {
				l := &ask.Share.limits[i]
				counted := plan.Counts(l.mode, l.kept.tokens, a.Milli)
				if a.Until = 0; counted {
					a.Until = store.NoBalance
				}
				ask.Share.take(l, a.Milli, now, counted)
				h.taken = append(h.taken, a)
			}
		}
		holds = append(holds, h)
	}
	return holds, nil
}

// Has reports whether a share has a limit. It reads only names, which never change: it does not hold the book's
// lock, and others may take of the share.
func (s *Share) Has(name string) bool {
	for i := range s.limits {
		if s.limits[i].name == name {
			return true
		}
	}
	return false
}

// quote is what a limit of a share has for an amount.
func (s *Share) quote(l *limit, milli, now int64) Quote {
	q := Quote{
		Key: s.Key, Limit: l.name, Params: l.params, Opened: l.kept.Opened, Soft: l.soft && l.mode == store.Enforce, Mode: l.mode, Bypassed: s.counts, Held: l.kept.tokens, Asked: milli,
	}
	if !s.decides(l) || milli <= 0 || l.kept.tokens >= milli {
		return q
	}
	ms, ok := l.kept.Wait(l.kept.tokens, l.kept.at, now, milli)
	whole := plan.Share(l.params, 0, 1, now)
	switch {
	case ok && ms <= int64(plan.Never/time.Millisecond):
		q.Wait = time.Duration(max(1, ms)) * time.Millisecond
	case max(whole.Most(), whole.Capacity) < milli:
		q.Wait = plan.Never
	default:
		q.TooLarge = true
	}
	return q
}

// Bucket names the bucket of which was taken.
func (h *Hold) Bucket() store.Bucket {
	return store.Bucket{Entity: h.share.Entity, Resource: h.share.Resource}
}

// Taken are the amounts that were taken. Until is the end of the period of a quota in which that was.
func (h *Hold) Taken() []store.Amount {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	amounts := make([]store.Amount, 0, len(h.taken))
	for _, a := range h.taken {
		if i, found := h.share.find(a.Limit); h.share.counts || a.Until == store.NoBalance {
			a.Until = store.NoBalance
		} else if l := &h.share.limits[i]; found && l.params.Renewal != nil {
			a.Until = l.params.Renewal.End(l.kept.Opened, h.at)
		}
		amounts = append(amounts, a)
	}
	return amounts
}

// Change takes more of limits, or gives amounts below zero back, at an instant. Amounts taken of a
// quota in another period are only counted as given back. Change reports false, and does nothing, if
// the store has been told what was taken: it must be told of the change, too.
func (h *Hold) Change(by []store.Amount, now int64) bool {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	if h.share.closed {
		return false
	}
	h.share.advance(now)
	for _, a := range by {
		k := h.find(a.Limit)
		i, found := h.share.find(a.Limit)
		if k < 0 || !found {
			continue
		}
		l := &h.share.limits[i]
		if r := l.params.Renewal; a.Milli < 0 && r != nil && r.End(l.kept.Opened, h.at) <= now {
			l.taken += a.Milli
		} else {
			h.share.take(l, a.Milli, now, h.taken[k].Until == store.NoBalance || l.mode == store.Off)
		}
		h.taken[k].Milli += a.Milli
	}
	return true
}

// IsOf reports whether two holds are of the same share, which the store has not been told of.
func (h *Hold) IsOf(other *Hold) bool {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	return h.share == other.share && !h.share.closed
}

// Join adds what another hold took of the same share, which must not be used any more. If only one of
// them moved the balance of a limit in shadow, that goes back, and both only count.
func (h *Hold) Join(other *Hold) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	for _, a := range other.taken {
		if k := h.find(a.Limit); k >= 0 {
			if h.taken[k].Until != a.Until {
				h.countLocked(&h.taken[k], a)
			}
			h.taken[k].Milli += a.Milli
		} else {
			h.taken = append(h.taken, a)
		}
	}
}

// countLocked gives back what one of two holds has of a limit, so that both only count it.
func (h *Hold) countLocked(own *store.Amount, other store.Amount) {
	debited := own.Milli
	if own.Until == store.NoBalance {
		debited = other.Milli
	}
	if i, found := h.share.find(own.Limit); found {
		l := &h.share.limits[i]
		h.share.take(l, -debited, l.kept.at, false)
		l.taken += debited
	}
	own.Until = store.NoBalance
}

// Note notes a change that the store was told of.
func (h *Hold) Note(by []store.Amount) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	for _, a := range by {
		if k := h.find(a.Limit); k >= 0 {
			h.taken[k].Milli += a.Milli
		}
	}
}

func (h *Hold) find(name string) int {
	for i := range h.taken {
		if h.taken[i].Limit == name {
			return i
		}
	}
	return -1
}

// Forgive notes that the store may have been debited what was taken, by a write whose answer was
// lost. Such a write counts as applied, so the debt does not have it again. If a debt has it already,
// the next one has that much less. A share that is closed has no next one: the tokens stay debited.
func (h *Hold) Forgive(now int64) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.share.advance(now)
	for _, a := range h.taken {
		if i, found := h.share.find(a.Limit); found {
			l := &h.share.limits[i]
			l.taken -= a.Milli
			if a.Until != store.NoBalance {
				l.unused.tokens -= a.Milli
			}
		}
	}
}

// Pay returns the debt of a share, whose settlement the caller then carries out and ends with
// [Book.Paid]. id is its ID, unless it was tried before. If another caller carries one out, busy is
// closed when that has ended. Both are nil if nothing is owed: the share is then closed.
func (b *Book) Pay(s *Share, id string, now int64) (d *Debt, busy <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil
	case s.settles != nil:
		return nil, s.settles
	case !s.owes():
		b.closeLocked(s)
		return nil, nil
	}
	if s.frozen == nil {
		s.frozen = s.freeze(id, now)
	}
	s.settles = make(chan struct{})
	return s.frozen, nil
}

// Paid ends a settlement. If it is not known to be done, the debt stays, to be tried again as it is.
func (b *Book) Paid(s *Share, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(s.settles)
	if s.settles = nil; done {
		s.frozen = nil
	}
}
