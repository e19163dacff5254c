package sim_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
)

// patches is the name of a write that represents very many: it takes away the hidden
// limit's tokens, as thousands of writes a second would.
const patches = "patch"

// spots are buckets that get hot: some of them expire within minutes, others
// never.
var spots = []bucketKey{
	{"key-a", "api"}, {"project", "api"}, {"key-b", "web"}, {"key-c", "web"}, {"solo", "web"}, {"solo", "api"}, {"key-c", "chat"}, {"key-a", "own"},
}

// heat makes buckets hot: their items run out of writes and their partitions throttle, so
// that clients double them, several at a time.
func (p *play) heat() {
	r := p.w.dice.stream("heat")
	for round := range rounds {
		p.sleepUntil(p.start[round] + span(r, 0, time.Second))
		for range 1 + r.IntN(4) {
			p.exhaust(p.spots[round], r)
			if chance(r, 0.2) {
				p.w.lose(p.spots[round], r)
			}
			p.w.sleep(span(r, 50*time.Millisecond, 1500*time.Millisecond))
		}
	}
}

// exhaust takes away the writes of most shards of a bucket, for up to three seconds, and
// sometimes throttles one of their partitions.
func (p *play) exhaust(key bucketKey, r *rand.Rand) {
	w := p.w
	for i := range mostShards {
		id := key.shard(i)
		if !chance(r, 0.8) {
			continue
		}
		w.patch(id, -1000*r.Int64N(3000))
		if chance(r, 0.1) {
			until := w.now() + span(r, 20*time.Millisecond, pick(r, 200*time.Millisecond, 3*time.Second))
			w.mu.Lock()
			w.hot[id] = until
			w.mu.Unlock()
		}
	}
}

// lose removes one of several shards, as if it had expired.
func (w *world) lose(key bucketKey, r *rand.Rand) {
	var alive []bucketID
	w.mu.Lock()
	for i := range mostShards {
		if w.items[key.shard(i)] != nil {
			alive = append(alive, key.shard(i))
		}
	}
	w.mu.Unlock()
	if len(alive) < 2 {
		return
	}
	id := pick(r, alive...)
	if chance(r, 0.4) {
		id = alive[0]
	}
	w.sleep(1)
	_, err := w.apply(context.Background(), []bucketID{id}, write{op: "lose"}, func(ctx context.Context) error {
		_, err := w.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(tableName), Key: w.key(id)})
		return err
	})
	must(err)
}

// patch sets the remaining tokens of an item's hidden limit, if the item exists.
func (w *world) patch(id bucketID, milli int64) {
	w.mu.Lock()
	s := w.items[id]
	w.mu.Unlock()
	if s == nil {
		return
	}
	milli -= max(0, w.trueMS(w.now())-s.rf) * 1000 // what a reader will add as earned since the stamp
	w.sleep(1)
	_, err := w.apply(context.Background(), []bucketID{id}, write{op: patches, sent: w.now()}, func(ctx context.Context) error {
		_, err := w.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: aws.String(tableName), Key: w.key(id),
			UpdateExpression: aws.String("SET b_wcu_tk = :n"), ConditionExpression: aws.String("attribute_exists(PK)"),
			ExpressionAttributeValues: item{":n": &types.AttributeValueMemberN{Value: strconv.FormatInt(milli, 10)}},
		})
		return err
	})
	if err != nil && !isRefusal(err) {
		panic(err)
	}
}

// isHot reports whether the partition of any of these items throttles.
func (w *world) isHot(ids []bucketID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm.Load() == nil && slices.ContainsFunc(ids, func(id bucketID) bool { return w.now() < w.hot[id] })
}

// doubleTo makes a client double a bucket before the play begins, up to a number of shards, or
// as far as that many calls go.
func (p *play) doubleTo(key bucketKey, shards, calls int) {
	limits := p.configured(key.entity, key.resource)
	if len(limits) == 0 {
		return
	}
	req := limiter.Request{Entity: key.entity, Resource: key.resource, Consume: map[string]int64{limits[0].Name: 0}}
	for range calls {
		p.w.mu.Lock()
		s := p.w.items[key.shard(0)]
		p.w.mu.Unlock()
		if s != nil && s.count >= shards {
			return
		}
		for i := range mostShards {
			p.w.patch(key.shard(i), -2_000_000)
		}
		p.probes++
		k := &call{name: "admin/double#" + strconv.Itoa(p.probes), kind: acquiring, client: p.admin, req: req}
		ctx := k.begin(p.w)
		lease, err := p.admin.limiter.Acquire(ctx, req)
		k.lease = lease
		k.finish(p.w, err)
		p.w.sleep(1100 * time.Millisecond) // the next doubling is allowed by then
	}
}

// aggregate refills buckets now and then, as an aggregator does from the stream of changes:
// under the stamp's lock, without counting as a write.
func (p *play) aggregate(c *client, stop <-chan struct{}) {
	r := p.w.dice.stream("aggregate")
	for n := 0; !c.standsStill(); n++ {
		t := time.NewTimer(p.w.unique(span(r, 200*time.Millisecond, pick(r, 3*time.Second, time.Minute, time.Hour))))
		select {
		case <-stop:
			t.Stop()
			return
		case <-t.C:
		}
		for range 3 {
			if id, ok := p.w.anyItem(r); ok {
				ctx := context.WithValue(context.Background(), callKey{}, &call{name: "aggregator#" + strconv.Itoa(n), kind: administering, client: c})
				ctx, cancel := context.WithTimeout(ctx, storeTimeout)
				c.accrue(ctx, id)
				cancel()
			}
		}
	}
}

// anyItem draws one of the bucket items that exist.
func (w *world) anyItem(r *rand.Rand) (bucketID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []bucketID
	for id, s := range w.items {
		if s != nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return bucketID{}, false
	}
	return pick(r, sortedBuckets(ids)...), true
}

// accrue refills an item to now, if it is unchanged since it was read. If that fails, the
// next call tries again.
func (c *client) accrue(ctx context.Context, id bucketID) {
	api := c.api()
	got, err := api.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(tableName), Key: c.w.key(id), ConsistentRead: aws.Bool(true)})
	if err != nil || got.Item == nil {
		return
	}
	s := readState(got.Item)
	now := c.clock().UnixMilli()
	if now <= s.rf || got.Item["vu"] != nil || c.standsStill() {
		return
	}
	number := func(n int64) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
	}
	update, conditions := "SET rf = :now", []string{"rf = :rf"}
	values := item{":now": number(now), ":rf": number(s.rf)}
	var adds []string
	for i, name := range names(s, nil) {
		share, _ := s.share(id, name)
		if name == hidden {
			continue
		}
		n := strconv.Itoa(i)
		adds = append(adds, "b_"+name+"_tk :e"+n)
		conditions = append(conditions, "b_"+name+"_tk = :t"+n, "b_"+name+"_ra = :a"+n, "b_"+name+"_cp = :c"+n)
		values[":e"+n], values[":t"+n] = number(share.balance(s.rf, now)-share.tk), number(share.tk)
		values[":a"+n], values[":c"+n] = number(share.ra), number(s.levels[name].cp)
	}
	if len(adds) == 0 {
		return
	}
	if got.Item["shard_count"] == nil {
		conditions = append(conditions, "attribute_not_exists(shard_count)")
	} else {
		conditions = append(conditions, "shard_count = :n")
		values[":n"] = number(int64(s.count))
	}
	condition := strings.Join(conditions, " AND ")
	update += " ADD " + strings.Join(adds, ", ")
	_, _ = api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(tableName), Key: c.w.key(id), UpdateExpression: &update, ConditionExpression: &condition,
		ExpressionAttributeValues: values,
	})
}
