package usage

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Diary is what one item of a bucket consumed in hours that have ended, or in all hours
// of an item that has gone.
type Diary struct {
	store.Bucket
	// Life is the item's time of creation, in milliseconds; 0 if it has none. It tells two
	// items of one key apart.
	Life int64
	Text string // see package diary
	// Gone says that the item has gone. It is not saved if the namespace is being purged, or
	// was: a purge leaves such items, too.
	Gone bool
}

// Save writes diaries to pages of usage, one for each month of each item. A page costs one
// write unit for each started kilobyte, and has no index entries. It is kept for the
// time ttl of [New] after its month has ended.
//
// Save may be repeated, by any number of processes, with any part of an item's hours: an
// hour that has ended never changes, and a reader counts it once. The same hours make the
// same page, and others another page.
//
// The first page of a resource and month that a process saves costs another unit: before
// it is written, the item that leads readers to it is.
//
// Save reads whether the entities were deleted, and leaves out what was deleted with them
// (see [Snapshots.Forget]).
//
// A text that is damaged is saved up to the damage.
func (s *Snapshots) Save(ctx context.Context, all ...Diary) error {
	op := "save usage"
	if len(all) == 1 {
		op += " of " + all[0].Entity + " for " + all[0].Resource
	}
	all, err := s.undeleted(ctx, op, all)
	if err != nil {
		return err
	}
	var pages []schema.Item
	at := map[schema.Key]int{}
	for i := range all {
		for _, p := range pagesOf(&all[i]) {
			month := schema.Month(p.Entries[0].Hour)
			if err := s.announce(ctx, op, month, p.Resource); err != nil {
				return err
			}
			key, page := p.Key(s.ns), schema.EncodePage(s.ns, p, s.expiry(month))
			if same, there := at[key]; there { // a batch may not name a key twice
				pages[same] = page
				continue
			}
			at[key] = len(pages)
			pages = append(pages, page)
		}
	}
	if len(all) > 1 {
		return s.conn.BatchPut(ctx, op, pages)
	}
	for _, page := range pages { // a limiter may have no permission for batches
		if err := s.conn.PutItem(ctx, op, &dynamodb.PutItemInput{Item: page}); err != nil {
			return err
		}
	}
	return nil
}

// pagesOf splits a diary by month.
func pagesOf(d *Diary) (pages []*schema.Page) {
	entries, _ := diary.Parse(d.Text)
	for _, e := range entries {
		month := schema.Month(e.Hour)
		i := slices.IndexFunc(pages, func(p *schema.Page) bool { return schema.Month(p.Entries[0].Hour).Equal(month) })
		if i < 0 {
			i, pages = len(pages), append(pages, &schema.Page{Bucket: d.Bucket, Life: d.Life})
		}
		pages[i].Entries = append(pages[i].Entries, e)
	}
	return pages
}

// expiry is when the pages of a month expire, all at once: a sum of the month is complete
// or gone. It is zero if they are kept for ever.
func (s *Snapshots) expiry(month time.Time) time.Time {
	if s.ttl < 0 {
		return time.Time{}
	}
	return Monthly.End(month).Add(s.ttl)
}

// An announced is a resource that has pages of a month.
type announced struct {
	month    time.Time
	resource string
}

// announce makes sure that readers look for pages of a resource and month.
func (s *Snapshots) announce(ctx context.Context, op string, month time.Time, resource string) error {
	this := announced{month, resource}
	if _, done := s.announced.Load(this); done {
		return nil
	}
	in := &dynamodb.UpdateItemInput{
		Key:                       schema.PageMonthKey(s.ns, month).Item(),
		UpdateExpression:          aws.String("ADD #resources :resource"),
		ExpressionAttributeNames:  map[string]string{"#resources": schema.Resources},
		ExpressionAttributeValues: schema.Item{":resource": schema.Set(resource)},
	}
	if at := s.expiry(month); !at.IsZero() {
		*in.UpdateExpression += " SET #ttl = :ttl"
		in.ExpressionAttributeNames["#ttl"], in.ExpressionAttributeValues[":ttl"] = schema.TTL, schema.N(at.Unix())
	}
	if err := s.conn.UpdateItem(ctx, op, in); err != nil {
		return err
	}
	s.announced.Store(this, true)
	return nil
}

// A pageMonth is a month and the resources with pages of it.
type pageMonth struct {
	month     time.Time
	resources []string
}

// pageMonths reads the months that have pages, the newest first.
func (s *Snapshots) pageMonths(ctx context.Context, op string, consistent bool) (months []pageMonth, err error) {
	err = s.conn.Query(ctx, op, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk"),
		ExpressionAttributeValues: schema.Item{":pk": schema.S(schema.PageMonthsPK(s.ns))},
		ScanIndexForward:          aws.Bool(false), ConsistentRead: &consistent,
	}, func(it schema.Item) error {
		month, resources, err := schema.DecodePageMonth(it)
		months = append(months, pageMonth{month, resources})
		return err
	})
	return months, err
}

// A pageRange is a range of sort keys in a partition of pages.
type pageRange struct{ pk, from, to string }

// ofEntity is the range with the pages of an entity in a month.
func (s *Snapshots) ofEntity(entity, resource string, month time.Time) pageRange {
	prefix := schema.PageSK(month, entity)
	return pageRange{schema.PagePK(s.ns, resource, schema.PagePart(entity)), prefix, prefix + schema.MostOfID}
}

// query reads the pages of a range, by entity.
func (r pageRange) query(ctx context.Context, c *conn.Conn, op string, consistent bool, yield func(*schema.Page) error) error {
	return c.Query(ctx, op, r.input(consistent), func(it schema.Item) error {
		p, err := schema.DecodePage(it)
		if err != nil {
			return err
		}
		return yield(p)
	})
}

func (r pageRange) input(consistent bool) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("PK = :pk AND SK BETWEEN :from AND :to"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": schema.S(r.pk), ":from": schema.S(r.from), ":to": schema.S(r.to),
		},
		ConsistentRead: &consistent,
	}
}

// keys reads the keys of a range.
func (r pageRange) keys(ctx context.Context, c *conn.Conn, op string, yield func(schema.Item) error) error {
	in := r.input(true)
	in.ProjectionExpression = aws.String("PK, SK")
	return c.Query(ctx, op, in, yield)
}

// EntityPages yields the keys of the pages with usage of an entity. It sends a request for
// each month and each resource that has pages of it.
func (s *Snapshots) EntityPages(ctx context.Context, op, entity string, yield func(schema.Item) error) error {
	months, err := s.pageMonths(ctx, op, true)
	if err != nil {
		return err
	}
	for _, m := range months {
		for _, resource := range m.resources {
			if err := s.ofEntity(entity, resource, m.month).keys(ctx, s.conn, op, yield); err != nil {
				return err
			}
		}
	}
	return nil
}

// AllPages yields the keys of all pages, and of the items that lead to them.
func (s *Snapshots) AllPages(ctx context.Context, op string, yield func(schema.Item) error) error {
	months, err := s.pageMonths(ctx, op, true)
	if err != nil {
		return err
	}
	for _, m := range months {
		prefix := schema.PageMonthSK(m.month)
		for _, resource := range m.resources {
			for part := range schema.PageParts {
				r := pageRange{schema.PagePK(s.ns, resource, part), prefix, prefix + schema.MostOfID}
				if err := r.keys(ctx, s.conn, op, yield); err != nil {
					return err
				}
			}
		}
		if err := yield(schema.PageMonthKey(s.ns, m.month).Item()); err != nil {
			return err
		}
	}
	return nil
}
