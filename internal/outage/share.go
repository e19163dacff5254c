package outage

import (
	"container/list"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Share is what a process may admit of one bucket: a part of each of its limits. The mutex of its
// [Book] guards it.
//
// The naive share begins full. Then a store that is away for a moment hands out every bucket
// again. And the naive recovery debits all that was taken. But the limits have earned meanwhile, and
// the store's own bucket, which nobody used, holds no more of that than its capacity:
//
//	capacity 100, 10 a second, away for a minute, 600 taken at that rate
//	the store's bucket     100 at the end: it has earned 600, and kept 100
//	all taken is debited   −500: nothing is admitted for 50 seconds more, though nobody took too much
//	what is lacking        100 − 0 = 100: it is at 0, as if each take had been written in time
//
// So a share has each limit twice: as it is, and as it would be if nobody had taken anything. The
// second one is what the store's bucket shows of this process. The difference is the debit.
//
// Invariant: unused is never below kept, but for what [Hold.Forgive] has taken off.
type Share struct {
	memory.Key

	processes int
	counts    bool // the bucket is bypassed: it admits everything, and balances do not move
	limits    []limit
	place     *list.Element // in the order of use
	closed    bool          // it is settled, and no longer in the book

	frozen  *Debt         // under way, or sent and not answered
	settles chan struct{} // closed when the settlement under way has ended; nil if there is none
}

// A limit is the share of one limit, in millitokens.
type limit struct {
	name         string
	params       store.Params // of the whole limit
	soft         bool
	mode         store.Mode
	kept, unused state
	taken        int64 // less what came back
}

// A state is a balance that is accounted for up to an instant.
type state struct {
	bucket.Limit
	tokens, at int64
}

// advance brings a state to an instant. A session that has ended stays so until somebody uses it.
func (s *state) advance(now int64) {
	if now <= s.at {
		return
	}
	s.Limit, s.tokens = s.Advanced(s.tokens, s.at, now)
	s.at = now
}

// open begins a session, if the limit is one and the last one has ended.
func (s *state) open(now int64) {
	if s.Renewal != nil && s.Renewal.Session() != 0 && s.Renews(s.at, now) {
		s.Opened = now
	}
}

// newShare makes the share of one of n processes of a bucket, by the images that it saw last. since
// is when the store was lost.
//
// Others may have taken meanwhile what a rate has earned since its image was seen. So a rate begins
// with what was seen. A quota that has renewed since begins with its new amount.
func newShare(k memory.Key, n int, seen []memory.Seen, since int64) *Share {
	s := &Share{Key: k, processes: n}
	for _, shard := range seen {
		since = max(since, shard.At.Now)
		s.counts = s.counts || shard.Image.Bypassed
	}
	for _, shard := range seen {
		for i := range shard.Image.Limits {
			of := &shard.Image.Limits[i]
			k, found := s.find(of.Name)
			if !found {
				part := plan.Share(*of.Params, n-1, n, since)
				part.Opened = of.Opened()
				s.limits = slices.Insert(s.limits, k, limit{name: of.Name, params: *of.Params, soft: of.IsSoft(), mode: of.Mode(), kept: state{Limit: part, at: since}})
			}
			at := shard.At.Now
			if of.Renewal != nil {
				at = since
			}
			l := &s.limits[k]
			l.kept.Opened = max(l.kept.Opened, of.Opened())
			l.kept.tokens += plan.ShareOf(shard.Image, of).Balance(of.Tokens, shard.Image.RefilledAt, at)
		}
	}
	for i := range s.limits {
		l := &s.limits[i]
		l.kept.tokens = min(floorDiv(l.kept.tokens, int64(n)), l.kept.Limit.At(since).Most())
		l.unused = l.kept
	}
	return s
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func (s *Share) find(name string) (i int, found bool) {
	return slices.BinarySearchFunc(s.limits, name, func(l limit, name string) int { return strings.Compare(l.name, name) })
}

func (s *Share) advance(now int64) {
	for i := range s.limits {
		s.limits[i].kept.advance(now)
		s.limits[i].unused.advance(now)
	}
}

// decides reports whether the balance of a limit can refuse.
func (s *Share) decides(l *limit) bool { return !s.counts && !l.soft }

// take takes an amount of a limit, or gives it back if it is below zero. counted says that it moves no
// balance, because the limit is in a mode (ADR 062).
func (s *Share) take(l *limit, milli, now int64, counted bool) {
	l.taken += milli
	if s.counts || counted || milli == 0 {
		return
	}
	if milli > 0 {
		l.kept.open(now)
		l.kept.tokens = max(l.kept.tokens-milli, -plan.MaxDebt)
		return
	}
	l.kept.tokens += l.kept.Limit.At(now).Room(l.kept.tokens, -milli)
}

// owes reports whether anything is to be told to the store.
func (s *Share) owes() bool {
	return s.frozen != nil || slices.ContainsFunc(s.limits, func(l limit) bool { return l.taken != 0 })
}

// A Debt is what a share owes to the store's bucket.
type Debt struct {
	memory.Key
	ID string // of all tries to pay it
	// Lacking is to be debited from balances. Counted was consumed besides, and the limits have
	// earned it since.
	Lacking, Counted []store.Amount
}

// Spent is what was taken, in millitokens.
func (d *Debt) Spent() (sum int64) {
	for _, amounts := range [...][]store.Amount{d.Lacking, d.Counted} {
		for _, a := range amounts {
			sum += a.Milli
		}
	}
	return sum
}

// freeze makes a debt of all that was taken so far. Takes from now on are another one.
func (s *Share) freeze(id string, now int64) *Debt {
	s.advance(now)
	d := &Debt{Key: s.Key, ID: id}
	for i := range s.limits {
		l := &s.limits[i]
		lacks := max(0, l.unused.tokens-l.kept.tokens)
		if lacks > 0 {
			d.Lacking = append(d.Lacking, store.Amount{Limit: l.name, Milli: lacks})
		}
		if more := l.taken - lacks; more != 0 {
			d.Counted = append(d.Counted, store.Amount{Limit: l.name, Milli: more, Until: store.NoBalance})
		}
		l.taken, l.unused = 0, l.kept
	}
	return d
}
