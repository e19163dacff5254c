package usage

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// Each yields all snapshots that a query asks for, those of one entity and resource at a time, the
// oldest window first; it ignores the query's Limit and Cursor. It reads what [Snapshots.Sum] reads, each
// bucket and page once, and holds the snapshots of about 1,000 buckets. It ends with the first
// error of yield.
//
// A window that the stream and diaries counted in parts is one snapshot. One that a peer's aggregator counted, too,
// has the larger amount of each limit: both may have counted the same (see [Snapshots.PeerCounts]).
func (s *Snapshots) Each(ctx context.Context, q Query, yield func([]Snapshot) error) error {
	q.Limit, q.Cursor = 0, ""
	if _, err := q.check(); err != nil {
		return err
	}
	all, err := s.old(ctx, &q)
	if err != nil {
		return err
	}
	r := s.newReading(&q)
	err = r.blocks(ctx, func(b *block) error {
		hours := map[named][]hour{}
		months := r.monthsOf(b)
		for _, month := range slices.SortedFunc(maps.Keys(months), time.Time.Compare) {
			err := r.join(ctx, b, month, months[month], func(of named, in []hour) { hours[of] = append(hours[of], in...) })
			if err != nil {
				return err
			}
		}
		for _, of := range slices.SortedFunc(maps.Keys(hours), named.compare) {
			used := all[of]
			delete(all, of)
			q.windows(of, hours[of], func(u *schema.Usage) { used = append(used, *u) })
			if err := yieldWindows(used, q.Window, yield); err != nil {
				return err
			}
		}
		return nil
	})
	for _, of := range slices.SortedFunc(maps.Keys(all), named.compare) {
		if err == nil {
			err = yieldWindows(all[of], q.Window, yield)
		}
	}
	return err
}

// old are the snapshots of a query that the stream or a peer counted.
func (s *Snapshots) old(ctx context.Context, q *Query) (map[named][]schema.Usage, error) {
	scans, err := s.oldScans(ctx, q, nil)
	if err != nil {
		return nil, err
	}
	all := map[named][]schema.Usage{}
	for m := (merge{scans}); ; {
		u, err := m.next(ctx)
		if err != nil || u == nil {
			return all, err
		}
		of := named{u.Entity, u.Resource}
		all[of] = append(all[of], *u)
	}
}

// yieldWindows yields the snapshots of a bucket in order of time, one for each window.
func yieldWindows(used []schema.Usage, w Window, yield func([]Snapshot) error) error {
	slices.SortStableFunc(used, func(a, b schema.Usage) int { return a.Start.Compare(b.Start) })
	var windows []Snapshot
	for len(used) > 0 {
		var ours, peers schema.Usage
		n := 0
		for ; n < len(used) && used[n].Start.Equal(used[0].Start); n++ {
			u := &ours
			if used[n].Peer {
				u = &peers
			}
			u.Events += used[n].Events
			for _, a := range used[n].Tokens {
				addTokens(u, a.Limit, a.Milli)
			}
		}
		u := used[0]
		u.Events, u.Tokens = max(ours.Events, peers.Events), ours.Tokens
		for _, a := range peers.Tokens {
			i := slices.IndexFunc(u.Tokens, func(of schema.UsageAmount) bool { return of.Limit == a.Limit })
			switch {
			case i < 0:
				addTokens(&u, a.Limit, a.Milli)
			case a.Milli.Cmp(u.Tokens[i].Milli) > 0:
				u.Tokens[i].Milli = a.Milli
			}
		}
		windows, used = append(windows, snapshotOf(&u, w)), used[n:]
	}
	if len(windows) == 0 {
		return nil
	}
	return yield(windows)
}

// A Scope is what a reading of all usage of a namespace in some time reads.
type Scope struct {
	Resources []string // with buckets, or with usage of that time; sorted
	Items     int      // bucket items
	Months    int      // with saved hours
}

// ReadUnits is about what [Snapshots.Each] costs for all resources of a scope: half a unit for each bucket
// item, and a twentieth for its entries of the index and for its page of each month. Buckets that
// are used in most hours have many pages, and cost up to twice as much.
func (s *Scope) ReadUnits() float64 {
	const item, page, partitions = 0.5, 0.05, 0.5 * (schema.PageParts + 1 + schema.IndexPartitions)
	return float64(s.Items)*(item+page*float64(max(1, s.Months))) + partitions*float64(len(s.Resources))
}

// ScopeOf lists what has usage of all entities and resources from one instant until before another. It costs half a
// read unit for every 20 bucket items, and lists them through an index that lags behind.
func (s *Snapshots) ScopeOf(ctx context.Context, from, to time.Time) (Scope, error) {
	const op = "list usage"
	var scope Scope
	resources := map[string]bool{}
	err := s.conn.QueryMerged(ctx, op, schema.GSI4, schema.NamespaceIndexPKs(s.ns), schema.BucketIndexPrefix, func(it schema.Item) error {
		if _, b, ok := schema.ParseBucketPK(schema.KeyOf(it).PK); ok {
			scope.Items++
			resources[b.Resource] = true
		}
		return nil
	})
	if err != nil {
		return Scope{}, err
	}
	months, err := s.pageMonths(ctx, op, false)
	if err != nil {
		return Scope{}, err
	}
	r := reading{q: &Query{From: from, To: to}}
	for _, m := range months {
		if r.asks(m.month) {
			scope.Months++
			for _, resource := range m.resources {
				resources[resource] = true
			}
		}
	}
	scope.Resources = slices.Sorted(maps.Keys(resources))
	return scope, nil
}
