package usage

import (
	"cmp"
	"context"
	"math/big"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A Summary is the sum of snapshots.
//
// A request of an entity that cascades is in the snapshots of the entity and in those of
// its parent, because both have consumed. So a sum over all entities of a resource counts
// it twice. A snapshot does not tell which of an entity's requests cascaded to it.
type Summary struct {
	// Snapshots counts the parts of a window that the stream and diaries counted as two.
	Snapshots int
	Windows   int // in which there was a snapshot
	Entities  int // that have a snapshot
	Events    int64
	// First and Last are the starts of the first and the last window; zero if there is
	// no snapshot.
	First, Last time.Time
	Limits      []Total // by name
}

// A Total is the consumption of one limit.
type Total struct {
	Limit   string
	Windows int      // the windows in which a snapshot names the limit
	Total   *big.Int // millitokens
	Average *big.Int // millitokens for each of the windows, rounded towards zero
}

// Sum adds up all snapshots that a query asks for; it ignores the query's
// Limit and Cursor. It reads what [Snapshots.Read] reads, each bucket and page once. It holds
// about 1,000 buckets at a time, the starts of the windows, and the IDs of the entities.
func (s *Snapshots) Sum(ctx context.Context, q Query) (Summary, error) {
	q.Limit, q.Cursor = 0, ""
	if _, err := q.check(); err != nil {
		return Summary{}, err
	}
	sum := newSums()
	scans, err := s.oldScans(ctx, &q, nil)
	if err != nil {
		return Summary{}, err
	}
	for m := (merge{scans}); ; {
		u, err := m.next(ctx)
		if err != nil {
			return Summary{}, err
		}
		if u == nil {
			break
		}
		sum.add(u)
	}
	_, err = s.newReading(&q).walk(ctx, time.Time{}, endOfTime, func(of named, hours []hour) { q.windows(of, hours, sum.add) })
	if err != nil {
		return Summary{}, err
	}
	return sum.summary(), nil
}

// sums adds up snapshots in any order.
type sums struct {
	Summary

	windows  map[time.Time]bool
	entities map[string]bool
	limits   map[string]*limitSum
}

// A limitSum is the consumption of a limit, and the windows in which a snapshot names it.
type limitSum struct {
	total   big.Int
	windows map[time.Time]bool
}

func newSums() *sums {
	return &sums{windows: map[time.Time]bool{}, entities: map[string]bool{}, limits: map[string]*limitSum{}}
}

func (s *sums) add(u *schema.Usage) {
	if s.Snapshots == 0 || u.Start.Before(s.First) {
		s.First = u.Start
	}
	if s.Snapshots == 0 || u.Start.After(s.Last) {
		s.Last = u.Start
	}
	s.Snapshots++
	s.Events += u.Events
	s.windows[u.Start], s.entities[u.Entity] = true, true
	for _, a := range u.Tokens {
		l := s.limits[a.Limit]
		if l == nil {
			l = &limitSum{windows: map[time.Time]bool{}}
			s.limits[a.Limit] = l
		}
		l.windows[u.Start] = true
		l.total.Add(&l.total, a.Milli)
	}
}

func (s *sums) summary() Summary {
	s.Windows, s.Entities = len(s.windows), len(s.entities)
	for name, l := range s.limits {
		n := len(l.windows)
		s.Limits = append(s.Limits, Total{Limit: name, Windows: n, Total: &l.total, Average: new(big.Int).Quo(&l.total, big.NewInt(int64(n)))})
	}
	slices.SortFunc(s.Limits, func(a, b Total) int { return cmp.Compare(a.Limit, b.Limit) })
	return s.Summary
}
