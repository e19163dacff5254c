package sim_test

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// This file changes configuration as the Python package does. It writes the level's item,
// and then updates the entity's buckets item by item. It writes only parameters, neither
// balances nor the stamp.

// send sends a request of the peer's, a few milliseconds after its last one. ids are the
// buckets that it writes.
func (o operator) send(ids []bucketID, do func(context.Context) error) {
	o.w.sleep(5 * time.Millisecond)
	_, err := o.w.apply(context.Background(), ids, write{op: patches, sent: o.w.now()}, do)
	if err != nil && !isRefusal(err) {
		panic(err)
	}
}

func (o operator) update(id *bucketID, key item, expression string, values item) {
	in := &dynamodb.UpdateItemInput{TableName: aws.String(tableName), Key: key, UpdateExpression: &expression}
	if len(values) > 0 {
		in.ExpressionAttributeValues = values
	}
	var ids []bucketID
	if id != nil {
		ids = []bucketID{*id}
		in.ConditionExpression = aws.String("attribute_exists(PK)")
	}
	o.send(ids, func(ctx context.Context) error {
		_, err := o.w.db.UpdateItem(ctx, in)
		return err
	})
}

// writeAsPeer replaces the item of a level, and syncs the buckets if it is an entity's.
func (o operator) writeAsPeer(k limiter.ConfigKey, limits []limiter.Limit) {
	key := schema.ConfigKey(o.w.ns, k).Item()
	got, err := o.w.db.GetItem(context.Background(), &dynamodb.GetItemInput{TableName: aws.String(tableName), Key: key, ConsistentRead: aws.Bool(true)})
	must(err)
	if limits == nil && got.Item == nil {
		return
	}
	it := schema.EncodeConfig(o.w.ns, k, &limiter.Config{Limits: limits})
	if v, ok := got.Item["disabled"]; ok {
		it["disabled"] = v
	}
	o.send(nil, func(ctx context.Context) (err error) {
		if limits == nil && it["disabled"] == nil {
			_, err = o.w.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(tableName), Key: key})
		} else {
			_, err = o.w.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: it})
		}
		return err
	})
	if k.Entity == "" {
		return
	}
	o.play.mu.Lock()
	o.configs[k] = limits
	o.play.mu.Unlock()
	for range 2 {
		for _, id := range o.itemsOf(func(id bucketID) bool {
			return id.entity == k.Entity && (k.Resource == limiter.DefaultResource || id.resource == k.Resource)
		}) {
			o.sync(id)
		}
	}
}

// itemsOf are the existing bucket items.
func (o operator) itemsOf(which func(bucketID) bool) (ids []bucketID) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	for id, s := range o.w.items {
		if s != nil && which(id) {
			ids = append(ids, id)
		}
	}
	return sortedBuckets(ids)
}

// sync overwrites the parameters of a bucket item with the configured ones. A limit that
// the item lacks gets parameters and no balance.
func (o operator) sync(id bucketID) {
	limits := o.configured(id.entity, id.resource)
	if len(limits) == 0 {
		return
	}
	sets, removes := []string{"vu = :zero"}, []string(nil)
	values := item{":zero": schema.N(0)}
	has := map[string]bool{hidden: true}
	for i, l := range limits {
		n := string(rune('a' + i))
		has[l.Name] = true
		for field, v := range map[string]int64{"cp": l.Capacity * 1000, "ra": l.Amount * 1000, "rp": l.Period.Milliseconds()} {
			sets = append(sets, "b_"+l.Name+"_"+field+" = :"+field+n)
			values[":"+field+n] = schema.N(v)
		}
	}
	o.w.mu.Lock()
	for _, name := range names(o.w.items[id], nil) {
		if !has[name] {
			for _, field := range []string{"tk", "cp", "ra", "rp", "tc"} {
				removes = append(removes, "b_"+name+"_"+field)
			}
		}
	}
	o.w.mu.Unlock()
	if o.isOwn(id) {
		removes = append(removes, "#ttl")
	} else {
		sets = append(sets, "#ttl = :ttl")
		values[":ttl"] = schema.N(time.Now().Unix() + horizon(limits))
	}
	expression := "SET " + strings.Join(sets, ", ")
	if len(removes) > 0 {
		expression += " REMOVE " + strings.Join(removes, ", ")
	}
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String(tableName), Key: o.w.key(id), UpdateExpression: &expression, ConditionExpression: aws.String("attribute_exists(PK)"),
		ExpressionAttributeNames: map[string]string{"#ttl": "ttl"}, ExpressionAttributeValues: values,
	}
	o.send([]bucketID{id}, func(ctx context.Context) error {
		_, err := o.w.db.UpdateItem(ctx, in)
		return err
	})
}

// isOwn reports whether a bucket's limits are its entity's own.
func (o operator) isOwn(id bucketID) bool {
	return len(o.configs[limiter.ConfigKey{Entity: id.entity, Resource: id.resource}]) > 0 || len(o.configs[limiter.ConfigKey{Entity: id.entity, Resource: limiter.DefaultResource}]) > 0
}

// horizon is the number of seconds for which a peer keeps a bucket.
func horizon(limits []limiter.Limit) (s int64) {
	const multiplier = 7
	for _, l := range limits {
		s = max(s, multiplier*(l.Capacity*l.Period.Milliseconds()/l.Amount/1000+1))
	}
	return s
}

// flipAsPeer sets the switch of a level: "off", "on", or none.
func (o operator) flipAsPeer(k limiter.ConfigKey, to string) {
	key := schema.ConfigKey(o.w.ns, k).Item()
	if to == "" {
		o.update(nil, key, "REMOVE disabled", nil)
		return
	}
	o.update(nil, key, "SET disabled = :v", item{":v": &types.AttributeValueMemberBOOL{Value: to == "off"}})
}

// stampAll stamps the items whose configuration is switched off, and no others.
func (o operator) stampAll() {
	for range 2 {
		for _, id := range o.itemsOf(func(bucketID) bool { return true }) {
			all := o.versions(id.whole())
			off := all[len(all)-1].off
			o.w.mu.Lock()
			s := o.w.items[id]
			o.w.mu.Unlock()
			switch {
			case s == nil || s.disabled == off:
			case off:
				o.update(&id, o.w.key(id), "SET disabled = :v", item{":v": &types.AttributeValueMemberBOOL{Value: true}})
			default:
				o.update(&id, o.w.key(id), "REMOVE disabled", nil)
			}
		}
	}
}
