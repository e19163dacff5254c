package usage

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// An oldScan reads snapshots that the stream counted, in a range of keys, in the order of
// [order]. It is read page by page, on demand. The next version of this package has no need of
// it once the last of them has expired.
type oldScan struct {
	conn   *conn.Conn
	op     string
	in     *dynamodb.QueryInput
	window string        // anyWindow for all
	after  *schema.Usage // the last snapshot of the page before; nil on the first page
}

const anyWindow = ""

// read reads a page.
func (s *oldScan) read(ctx context.Context) (next []schema.Usage, done bool, err error) {
	out, err := conn.Call(ctx, s.conn, s.op, s.conn.API.Query, s.in)
	if err != nil {
		return nil, false, err
	}
	s.in.ExclusiveStartKey = out.LastEvaluatedKey
	items := out.Items
	if s.in.IndexName != nil {
		if items, err = s.whole(ctx, items); err != nil {
			return nil, false, err
		}
	}
	for _, it := range items {
		u, err := schema.DecodeUsage(it)
		if err != nil {
			return nil, false, err
		}
		if it[schema.DayRead] != nil {
			continue // a copy of what diaries have
		}
		if (s.window == anyWindow || u.Window == s.window) && (s.after == nil || order(s.after, &u) < 0) {
			next = append(next, u)
		}
	}
	return next, len(out.LastEvaluatedKey) == 0, nil
}

// whole reads from the table the items behind the entries of an index, because an index
// may project only its keys. It leaves out items that no longer exist.
func (s *oldScan) whole(ctx context.Context, entries []schema.Item) ([]schema.Item, error) {
	keys := make([]schema.Key, len(entries))
	for i, entry := range entries {
		keys[i] = schema.KeyOf(entry)
	}
	found, err := s.conn.BatchGet(ctx, s.op, keys, false)
	if err != nil {
		return nil, err
	}
	items := make([]schema.Item, 0, len(keys))
	for _, k := range keys {
		if it, there := found[k]; there {
			items = append(items, it)
		}
	}
	return items, nil
}

// afterHash sorts after "#", and before every other character of a name.
const afterHash = "$"

// A keyRange is the part of a query that bounds keys.
type keyRange struct {
	*Query
	after *schema.Usage
}

// oldScans returns scans of the snapshots that the stream counted, and of the peer's. They
// begin behind after. q's limit is the number of snapshots of a request, 0 for as many as
// fit a page.
func (s *Snapshots) oldScans(ctx context.Context, q *Query, after *schema.Usage) (scans []*scan, err error) {
	bounds := keyRange{q, after}
	add := func(in *dynamodb.QueryInput) {
		in.TableName, in.ScanIndexForward = s.conn.Table, aws.Bool(false)
		if q.Limit > 0 {
			// One more tells whether another page follows, and one may be the cursor's
			// own.
			in.Limit = aws.Int32(int32(q.Limit + 2)) //nolint:mnd,gosec // bounded by MaxLimit
		}
		old := &oldScan{conn: s.conn, op: "read usage of " + q.subject(), in: in, window: q.Window.String(), after: after}
		scans = append(scans, &scan{read: old.read})
	}
	if q.Entity == "" {
		for _, form := range []string{q.Window.String(), peerForm} {
			in := conn.IndexQuery(schema.GSI2, schema.ResourcePK(s.ns, q.Resource), "")
			if bounds.apply(in, "GSI2SK", schema.UsageIndexPrefix+schema.UsageWindow(form)) {
				add(in)
			}
		}
		return scans, nil
	}
	uses := []use{{q.Resource, true}}
	if q.Resource == "" {
		if uses, err = s.uses(ctx, q.Entity); err != nil {
			return nil, err
		}
	}
	for _, u := range uses {
		for _, form := range []string{q.Window.String(), peerForm} {
			in := s.own(q.Entity)
			if (form != peerForm || u.peer) && bounds.apply(in, "SK", schema.UsageSK(u.resource, form)) {
				add(in)
			}
		}
	}
	return scans, nil
}

// peerForm stands for the window in keys of the peer's form, which name no window.
const peerForm = ""

func (q *Query) subject() string {
	switch {
	case q.Entity == "":
		return "all for " + q.Resource
	case q.Resource == "":
		return q.Entity
	}
	return q.Entity + " for " + q.Resource
}

// own queries the partition of an entity.
func (s *Snapshots) own(entity string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName: s.conn.Table, KeyConditionExpression: aws.String("PK = :pk"),
		ExpressionAttributeValues: schema.Item{":pk": schema.S(schema.EntityPK(s.ns, entity))},
	}
}

// apply bounds a query by the times and the cursor. prefix is the part of its sort keys
// before the start of the window. apply reports whether the bounds are not empty.
func (b keyRange) apply(in *dynamodb.QueryInput, sk, prefix string) bool {
	from, to := prefix, prefix+":" // ":" sorts after every digit
	if !b.From.IsZero() {
		from += schema.Timestamp(nextSecond(b.From))
	}
	if !b.To.IsZero() {
		to = prefix + schema.Timestamp(nextSecond(b.To).Add(-time.Second)) + afterHash
	}
	if b.after != nil {
		last := prefix + schema.Timestamp(b.after.Start)
		if b.Entity == "" {
			last += "#" + b.after.Entity
		}
		to = min(to, last)
	}
	*in.KeyConditionExpression += " AND " + sk + " BETWEEN :from AND :to"
	in.ExpressionAttributeValues[":from"], in.ExpressionAttributeValues[":to"] = schema.S(from), schema.S(to)
	return from <= to
}

// nextSecond returns the first whole second at or after t: windows start on one.
func nextSecond(t time.Time) time.Time {
	if cut := t.Truncate(time.Second); cut.Before(t) {
		return cut.Add(time.Second)
	}
	return t
}

// A use is a resource of which an entity has snapshots; peer reports whether a peer
// wrote some of them.
type use struct {
	resource string
	peer     bool
}

// uses finds the resources of which an entity has snapshots. From each resource, it
// skips to the first key beyond all keys of that resource. If a resource has keys of
// the peer's form, its first key is one, because there a digit follows the resource.
func (s *Snapshots) uses(ctx context.Context, entity string) ([]use, error) {
	var found []use
	for from := schema.UsagePrefix; ; {
		in := s.own(entity)
		*in.KeyConditionExpression += " AND SK BETWEEN :from AND :to"
		in.ExpressionAttributeValues[":from"] = schema.S(from)
		in.ExpressionAttributeValues[":to"] = schema.S(strings.TrimSuffix(schema.UsagePrefix, "#") + afterHash)
		in.ProjectionExpression, in.Limit = aws.String("PK, SK"), aws.Int32(1)
		out, err := conn.Call(ctx, s.conn, "list resources used by "+entity,
			s.conn.API.Query, in)
		if err != nil || len(out.Items) == 0 {
			return found, err
		}
		key := schema.KeyOf(out.Items[0])
		u, ok := schema.ParseUsageKey(key)
		if !ok {
			return nil, &store.CorruptError{Key: key.String(), Attr: schema.SK, Reason: "it is not the key of a usage snapshot"}
		}
		found = append(found, use{u.Resource, u.Peer})
		from = schema.UsagePrefix + u.Resource + afterHash
	}
}
