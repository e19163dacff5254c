package usage

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// SaveDay copies what an entity consumed of a resource on a day (UTC) to a snapshot that the
// peer's package reads. [Snapshots.Read] leaves such copies out. A day without usage has none.
//
// SaveDay reads the day, with strongly consistent reads, and sets the snapshot. So it may be
// repeated, by any number of processes. Of two that read a day at the same time, the copy of
// the one that began later stays: it has seen everything that was complete when the earlier
// one began, and what was written until it began itself.
//
//	worker 1   begins ── reads shard 0 ───────────────────────── writes: refused
//	worker 2                shard 1 turns ── begins ── reads ── writes
//
// A snapshot that the peer's own aggregator wrote stays as it is.
func (s *Snapshots) SaveDay(ctx context.Context, entity, resource string, day time.Time) error {
	began, start := s.conn.Clock.Now(), Daily.Start(day)
	q := Query{Entity: entity, Resource: resource, Window: Daily, From: start, To: Daily.End(day), Now: true}
	if _, err := q.check(); err != nil {
		return err
	}
	u := schema.Usage{Entity: entity, Resource: resource, Window: Daily.String(), Start: start}
	found := false
	_, err := s.newReading(&q).walk(ctx, time.Time{}, endOfTime, func(of named, hours []hour) {
		q.windows(of, hours, func(of *schema.Usage) {
			found = true
			u.Events += of.Events
			for _, a := range of.Tokens {
				addTokens(&u, a.Limit, new(big.Int).Set(a.Milli))
			}
		})
	})
	if err != nil || !found {
		return err
	}
	var expires time.Time
	if s.ttl >= 0 {
		expires = Daily.End(day).Add(s.ttl)
	}
	item := schema.EncodeDay(s.ns, &u, began.UnixMilli(), expires)
	err = s.conn.PutItem(ctx, "save a day of "+q.subject(), &dynamodb.PutItemInput{
		Item:                      item,
		ConditionExpression:       aws.String("attribute_not_exists(PK) OR #read < :read"),
		ExpressionAttributeNames:  map[string]string{"#read": schema.DayRead},
		ExpressionAttributeValues: schema.Item{":read": item[schema.DayRead]},
	})
	if _, refused := conn.ConditionFailed(err); refused {
		return nil // a later reading, or the peer's
	}
	return err
}

// Restart removes from the diary of a bucket item the counts with which the open hour began, by
// limit: those of limits that a peer removed with their own counts, see
// [stream.Record.Restarts]. When such a limit comes back, it counts from 0, and the difference
// to a forgotten count would be far below 0.
//
// What the limit gained in the open hour before is lost. The item must have the open hour and
// the counts that were seen, so Restart may be repeated: a turn since then has set new ones.
func (s *Snapshots) Restart(ctx context.Context, b store.Bucket, hour int32, counts map[string]string) error {
	var errs []error
	for limit, count := range counts {
		err := s.conn.UpdateItem(ctx, "restart "+limit+" in the diary of "+b.Entity+" for "+b.Resource, &dynamodb.UpdateItemInput{
			Key:                      schema.BucketKey(s.ns, b).Item(),
			UpdateExpression:         aws.String("REMOVE #opened"),
			ConditionExpression:      aws.String("#hour = :hour AND #opened = :count"),
			ExpressionAttributeNames: map[string]string{"#opened": schema.OpenedAttr(limit), "#hour": schema.OpenHour},
			ExpressionAttributeValues: schema.Item{
				":hour": schema.N(int64(hour)), ":count": &types.AttributeValueMemberN{Value: count},
			},
		})
		if _, refused := conn.ConditionFailed(err); !refused {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// PeerCounts returns the resources that the peer's aggregator has counted in the last hour, of
// those with pages: their buckets keep the same usage, so sums count it twice. It reads the
// newest snapshots of each resource.
func (s *Snapshots) PeerCounts(ctx context.Context) (resources []string, err error) {
	const op, newest, recent = "look for usage that is counted twice", 10, time.Hour
	since := s.conn.Clock.Now().Add(-recent)
	bounds := keyRange{Query: &Query{From: Daily.Start(since)}}
	months, err := s.pageMonths(ctx, op, false)
	if err != nil || len(months) == 0 {
		return nil, err
	}
	for _, resource := range months[0].resources {
		in := conn.IndexQuery(schema.GSI2, schema.ResourcePK(s.ns, resource), "")
		bounds.apply(in, "GSI2SK", schema.UsageIndexPrefix)
		in.TableName, in.ScanIndexForward, in.Limit = s.conn.Table, aws.Bool(false), aws.Int32(newest)
		scan := &oldScan{conn: s.conn, op: op, in: in, window: anyWindow}
		found, _, err := scan.read(ctx)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(found, func(u schema.Usage) bool {
			w, err := parseWindow(u.Window)
			return err == nil && w.End(u.Start).After(since)
		}) {
			resources = append(resources, resource)
		}
	}
	return resources, nil
}
