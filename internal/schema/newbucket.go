package schema

import (
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// EncodeOwner returns what a bucket item copies of its entity's record.
func EncodeOwner(o store.Owner) Item {
	item := Item{Cascade: Bool(o.Cascade)}
	if o.Parent != "" {
		item[ParentID] = S(o.Parent)
	}
	if o.Incarnation != "" {
		item[PGen], item[PInc] = N(o.Generation), S(o.Incarnation)
	}
	return item
}

// EncodeNewBucket is the item that c creates, in the namespace with the id ns. isSpread says
// that its index keys are spread over partitions. Parameters are stored whole, not divided by
// the number of shards.
func EncodeNewBucket(ns string, isSpread bool, c *store.Create) Item {
	path := bucketPath(c.Bucket)
	shard := path[len(bucketPrefix)+len(c.Entity)+1+len(c.Resource):]
	item := make(Item, 21+5*(len(c.Limits)+1))
	item[PK], item[SK] = S(ns+"/"+path), S(StateSK)
	item[EntityID], item[Resource] = S(c.Entity), S(c.Resource)
	gsi2, gsi4 := bucketIndexPKs(ns, c.Entity, c.Resource, isSpread)
	item[GSI2PK], item[GSI2SK] = S(gsi2), S(bucketPrefix+c.Entity+shard)
	item[GSI3PK], item[GSI3SK] = S(EntityPK(ns, c.Entity)), S(bucketPrefix+c.Resource+shard)
	putGSI4(item, gsi4, path)
	item[RF], item[Created] = N(c.Stamp()), N(c.Now)
	item[OpenHour] = N(int64(diary.HourOf(c.Now)))
	if slices.ContainsFunc(c.Limits, func(l store.NewLimit) bool { return l.Consumed > 0 }) {
		item[Acquires] = N(1)
	}
	item[ShardCount] = N(int64(c.ShardCount))
	maps.Copy(item, EncodeOwner(c.Owner))
	if c.ExpiresAt != 0 {
		item[TTL] = N(c.ExpiresAt)
	}
	if c.ValidUntil != 0 {
		item[ValidUntil] = N(c.ValidUntil)
	}
	if c.InStep {
		item[InStep] = N(c.Stamp())
	}
	if c.Disabled {
		item[Disabled] = Bool(true)
	}
	if c.Bypassed {
		item[Bypass] = N(c.MarkedUntil)
	} else if c.MarkedUntil != 0 {
		item[DisabledUntil] = N(c.MarkedUntil)
	}
	PutFirst(item, c)
	putLimit(item, &c.Writes, c.ShardCount)
	for i := range c.Limits {
		putLimit(item, &c.Limits[i], c.ShardCount)
	}
	return item
}

func putLimit(item Item, l *store.NewLimit, shards int) {
	item[LimitAttr(l.Limit, FieldTokens)] = N(l.Tokens)
	item[LimitAttr(l.Limit, FieldCapacity)] = N(l.Capacity)
	item[LimitAttr(l.Limit, FieldAmount)] = N(l.Amount)
	item[LimitAttr(l.Limit, FieldPeriod)] = N(l.Period)
	item[LimitAttr(l.Limit, FieldConsumed)] = N(l.Consumed)
	if code, zone := EncodeRenewal(l.Renewal); code != "" {
		item[LimitAttr(l.Limit, FieldRSched)], item[SchedTZ] = S(code), S(zone)
	}
	if seconds := SessionSeconds(l.Renewal); seconds != 0 {
		item[LimitAttr(l.Limit, FieldResetAfter)] = N(seconds)
		item[LimitAttr(l.Limit, FieldWindowStart)], item[LimitAttr(l.Limit, FieldApplied)] = N(l.Opened), N(l.Opened)
	}
	if l.Renewal != nil {
		item[LimitAttr(l.Limit, FieldGrantCount)] = N(int64(shards))
	}
	if l.TopUp != 0 {
		item[LimitAttr(l.Limit, FieldToppedUp)] = N(l.TopUp)
	}
	if code := EncodeCarried(&l.Params); code != "" {
		item[LimitAttr(l.Limit, FieldCarry)] = S(code)
	}
	if l.Varies != nil {
		code, zone := EncodeSchedule(l.Varies)
		item[LimitAttr(l.Limit, FieldSched)], item[SchedTZ] = S(code), S(zone)
	}
	if l.SoftUntil != 0 {
		item[LimitAttr(l.Limit, FieldSoft)] = N(l.SoftUntil)
	}
	if l.Mode != store.Enforce {
		item[LimitAttr(l.Limit, FieldMode)] = S(l.Mode.String())
	}
	if l.ShadowedAt != 0 {
		item[LimitAttr(l.Limit, FieldShadowed)], item[LimitAttr(l.Limit, FieldShadowedAt)] = N(l.Shadowed), N(l.ShadowedAt)
	}
}

// EncodeSchedule is when a limit has other parameters, as items of buckets and of
// configuration have it: the attributes sched and sched_tz.
func EncodeSchedule(s *store.Schedule) (code, zone string) {
	if s == nil {
		return "", ""
	}
	return s.Encode(), s.Zone()
}

// EncodeRenewal is when a limit renews, as items of buckets and of configuration have it: the
// attributes rsched and sched_tz. A session has none of them, but the attribute rsa: see
// [SessionSeconds].
func EncodeRenewal(r *store.Renewal) (code, zone string) {
	if r == nil {
		return "", ""
	}
	code, _ = r.Encode()
	return code, r.Zone()
}

// SessionSeconds is the attribute rsa of a limit, 0 if it is no session.
func SessionSeconds(r *store.Renewal) int64 {
	if r == nil {
		return 0
	}
	return r.Session() / 1000
}
