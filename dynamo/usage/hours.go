package usage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// blockShards is about how many bucket items are held at a time.
const blockShards = 1000

// A named is an entity's use of a resource.
type named struct{ entity, resource string }

func (n named) compare(other named) int {
	return cmp.Or(strings.Compare(n.entity, other.entity), strings.Compare(n.resource, other.resource))
}

// A reading reads the hours that a query asks for, from bucket items and pages.
//
// An hour moves from the item to a page: the page is written first, and then the hour is
// cut from the item. So a reading reads items before the pages of their entities, and
// finds each hour in one of them, or in both:
//
//	writer    page has hour 9 ── cuts hour 9 from the item
//	reading                 reads the item ── reads the pages
//
// Both orders of the two first steps are right. If pages were read first, hour 9 could be
// missing in both.
type reading struct {
	*Snapshots
	q      *Query
	op     string
	months []pageMonth // with pages, as far as the query asks for them, the newest first

	// kept is the only block of the query; nil if there are several, or none was read.
	kept *block
}

func (s *Snapshots) newReading(q *Query) *reading {
	return &reading{Snapshots: s, q: q, op: "read usage of " + q.subject()}
}

// readMonths reads the months with pages that the query asks for. It follows each reading of
// items: the first page of a month may have been written just before an hour was cut from
// one of them.
func (r *reading) readMonths(ctx context.Context) error {
	months, err := r.pageMonths(ctx, r.op, r.q.Now)
	if err != nil {
		return err
	}
	r.months = r.months[:0]
	for _, m := range months {
		if r.q.Resource != "" {
			if !slices.Contains(m.resources, r.q.Resource) {
				continue
			}
			m.resources = []string{r.q.Resource}
		}
		if r.asks(m.month) {
			r.months = append(r.months, m)
		}
	}
	return nil
}

// asks reports whether a window of a month may start within the query's bounds.
func (r *reading) asks(month time.Time) bool {
	return (r.q.From.IsZero() || Monthly.End(month).After(r.q.From)) && (r.q.To.IsZero() || month.Before(r.q.To))
}

// A block is a part of the buckets of a query.
type block struct {
	hours map[time.Time]map[named][]hour // of the items, by month
	// after and last bound the entities whose pages belong to the block, in a query of all
	// entities: those behind after, up to last. Empty strings set no bound.
	after, last string
}

// An hour is what an item of a bucket consumed in one hour.
type hour struct {
	shard int
	life  int64
	open  bool // it has not ended, or the reader does not know that it has
	diary.Entry
}

// walk yields the hours of each entity and resource in a month, month by month for a part
// of the entities, then for the next part. It leaves out months before from, months from to
// on, and what the query does not ask for. older is the newest month before from that has
// hours; zero if there is none.
func (r *reading) walk(ctx context.Context, from, to time.Time, yield func(named, []hour)) (older time.Time, err error) {
	visit := func(b *block) error {
		for month, resources := range r.monthsOf(b) {
			switch {
			case month.Before(from):
				if month.After(older) {
					older = month
				}
			case month.Before(to):
				if err := r.join(ctx, b, month, resources, yield); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if r.kept != nil {
		return older, visit(r.kept)
	}
	return older, r.blocks(ctx, visit)
}

// monthsOf are the months of which a block has hours that the query asks for, with the resources that
// have pages.
func (r *reading) monthsOf(b *block) map[time.Time][]string {
	months := map[time.Time][]string{}
	for month := range b.hours {
		if r.asks(month) {
			months[month] = nil
		}
	}
	for _, m := range r.months {
		months[m.month] = m.resources
	}
	return months
}

// join yields the hours of each entity and resource in a month: those of the block's items
// together with those of pages.
func (r *reading) join(ctx context.Context, b *block, month time.Time, resources []string, yield func(named, []hour)) error {
	items := b.hours[month]
	joined := map[named]bool{} // with items and pages
	var of named
	var hours []hour
	flush := func() {
		if len(hours) == 0 {
			return
		}
		if own, there := items[of]; there {
			joined[of] = true
			hours = append(hours, own...)
		}
		yield(of, unique(hours))
		hours = hours[:0]
	}
	for _, pages := range r.pages(b, month, resources) {
		err := pages.query(ctx, r.conn, r.op, r.q.Now, func(p *schema.Page) error {
			if is := (named{p.Entity, p.Resource}); is != of {
				flush()
				of = is
			}
			for _, e := range p.Entries {
				hours = append(hours, hour{shard: p.Shard, life: p.Life, Entry: e})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	flush()
	for of, own := range items {
		if !joined[of] {
			yield(of, unique(slices.Clone(own)))
		}
	}
	return nil
}

// pages are the ranges that have the pages of a block in a month.
func (r *reading) pages(b *block, month time.Time, resources []string) (ranges []pageRange) {
	for _, resource := range resources {
		if r.q.Entity != "" {
			ranges = append(ranges, r.ofEntity(r.q.Entity, resource, month))
			continue
		}
		prefix := schema.PageMonthSK(month)
		from, to := prefix, prefix+schema.MostOfID
		if b.after != "" {
			from += b.after + afterHash
		}
		if b.last != "" {
			to = prefix + b.last + afterHash
		}
		for part := range schema.PageParts {
			ranges = append(ranges, pageRange{schema.PagePK(r.ns, resource, part), from, to})
		}
	}
	return ranges
}

// unique returns hours, each once. An hour of one item may be in several pages, and in the
// item itself. All have the same amounts, unless the hour was open when the item was read.
func unique(hours []hour) []hour {
	same := func(a, b hour) int {
		return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.shard, b.shard), cmp.Compare(a.life, b.life))
	}
	slices.SortFunc(hours, func(a, b hour) int {
		if c := same(a, b); c != 0 || a.open == b.open {
			return c
		}
		if b.open {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(hours, func(a, b hour) bool { return same(a, b) == 0 })
}

// blocks reads the buckets of the query, and calls visit with one block after another. The
// last block has the rest of the entities, so there is at least one.
func (r *reading) blocks(ctx context.Context, visit func(*block) error) error {
	var keys []schema.Key
	after := ""
	next := func(last string) error {
		b := &block{after: after, last: last}
		var err error
		if b.hours, err = r.items(ctx, keys); err != nil {
			return err
		}
		if err := r.readMonths(ctx); err != nil {
			return err
		}
		if after == "" && last == "" {
			r.kept = b
		}
		after, keys = last, keys[:0]
		return visit(b)
	}
	if r.q.Entity != "" && r.q.Resource != "" {
		keys = append(keys, schema.BucketKey(r.ns, store.Bucket{Entity: r.q.Entity, Resource: r.q.Resource}))
	}
	entity := ""
	err := r.eachBucket(ctx, func(it schema.Item) error {
		k := schema.KeyOf(it)
		_, b, ok := schema.ParseBucketPK(k.PK)
		if !ok {
			return nil // an entry that another program wrote
		}
		if r.q.Entity == "" && b.Entity != entity && len(keys) >= blockShards {
			if err := next(entity); err != nil {
				return err
			}
		}
		keys, entity = append(keys, k), b.Entity
		return nil
	})
	if err != nil {
		return err
	}
	return next("")
}

// eachBucket lists the bucket items of the query, by entity if it has none. The index lags
// behind.
func (r *reading) eachBucket(ctx context.Context, each func(schema.Item) error) error {
	if r.q.Entity == "" {
		pks := schema.ResourceIndexPKs(r.ns, r.q.Resource)
		return r.conn.QueryMerged(ctx, r.op, schema.GSI2, pks, schema.BucketIndexPrefix, each)
	}
	prefix := schema.BucketIndexPrefix
	if r.q.Resource != "" {
		prefix = schema.ResourceBucketPrefix(r.q.Resource)
	}
	return r.conn.Query(ctx, r.op, conn.IndexQuery(schema.GSI3, schema.EntityPK(r.ns, r.q.Entity), prefix), each)
}

// items reads bucket items, and those of their shards that the index does not show yet. It
// returns their hours, by month.
func (r *reading) items(ctx context.Context, keys []schema.Key) (map[time.Time]map[named][]hour, error) {
	months := map[time.Time]map[named][]hour{}
	asked := map[schema.Key]bool{}
	for _, k := range keys {
		asked[k] = true
	}
	for len(keys) > 0 {
		found, err := r.conn.BatchGet(ctx, r.op, keys, r.q.Now)
		if err != nil {
			return nil, err
		}
		keys = nil
		for _, it := range found {
			d, err := schema.DecodeDiary(it)
			if err != nil {
				return nil, err
			}
			enter(months, d)
			sibling := d.Bucket
			for sibling.Shard = range d.Shards {
				if k := schema.BucketKey(r.ns, sibling); !asked[k] {
					asked[k] = true
					keys = append(keys, k)
				}
			}
		}
	}
	return months, nil
}

// enter adds the hours of an item to months.
func enter(months map[time.Time]map[named][]hour, d *schema.Diary) {
	of := named{d.Entity, d.Resource}
	add := func(h hour) {
		month := schema.Month(h.Hour)
		if months[month] == nil {
			months[month] = map[named][]hour{}
		}
		months[month][of] = append(months[month][of], h)
	}
	for _, e := range d.Closed {
		add(hour{d.Shard, d.Life, false, e})
	}
	if len(d.Open.Amounts) > 0 {
		add(hour{d.Shard, d.Life, true, d.Open})
	}
}
