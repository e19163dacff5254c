package schema

import (
	"cmp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// Names of the features of a peer that an item may carry and that are not
// evaluated here, as [limiter.Image] and [limiter.Config] report them.
const (
	FeatureSchedule = "parameter schedule"
	FeatureQuota    = "quota"
	FeatureSoft     = "soft limit"
)

const badNumber = "it is not a whole number in range"

// noSchedule is a limit's own schedule where it opts out of the item's.
const noSchedule = "-"

// What an item said about a limit; a limit exists only with both of the first.
const (
	hasTokens = 1 << iota
	hasCapacity
	hasAmount
	hasPeriod
	isScheduled // a schedule of parameters of its own
	isQuota     // a reset, by calendar or by duration
)

type limitScan struct {
	limiter.LimitState
	seen uint8
	// bad is an attribute that could not be read. It matters only if the limit
	// exists.
	bad string
}

// typicalLimits is how many limits an item has before decoding it allocates
// more than the image and its limits.
const typicalLimits = 8

// bounds of stored parameters: within them no product of the bucket arithmetic
// leaves 128 bits, and none of its results 64.
const (
	maxMilli    = limiter.MaxTokens * 1000
	maxPeriodMS = int64(limiter.MaxPeriod / 1_000_000)
)

// DecodeBucket reads a bucket item. It keeps substrings of the item's strings
// and nothing else of it.
//
// A limit exists if its balance and its capacity do. An item without rf, or with
// a number that is not whole, out of range, or no number, is a
// [*limiter.CorruptError]. [limiter.Image.Writes] has no name where the item
// lacks the hidden limit. A window of a limit that is not a quota any more is a
// leftover and no feature.
func DecodeBucket(item Item) (*limiter.Image, error) {
	pk, ok := item[PK].(*types.AttributeValueMemberS)
	if !ok || pk == nil || str(item[SK]) != StateSK {
		return nil, corrupt(item, PK, "it is not the key of a bucket")
	}
	_, bucket, ok := ParseBucketPK(pk.Value)
	if !ok {
		return nil, corrupt(item, PK, "it is not the key of a bucket")
	}
	img := &limiter.Image{Bucket: bucket, ShardCount: 1, RefilledAt: -1}
	var room [typicalLimits]limitScan
	limits := room[:0]
	for attr, v := range item {
		if name, field, ok := splitLimitAttr(attr); ok {
			limits = scan(limits, name, field, attr, v)
		} else if !decodeBucketAttr(img, attr, v) {
			return nil, corrupt(item, attr, badNumber)
		}
	}
	if img.RefilledAt < 0 {
		return nil, corrupt(item, RF, "it is missing")
	}
	if err := gather(img, item, limits); err != nil {
		return nil, err
	}
	return img, nil
}

// scan takes in one attribute of a limit.
func scan(limits []limitScan, name, field, attr string, v types.AttributeValue) []limitScan {
	i := 0
	for i < len(limits) && limits[i].Name != name {
		i++
	}
	if i == len(limits) {
		limits = append(limits, limitScan{LimitState: limiter.LimitState{Name: name}})
	}
	if !limits[i].decode(field, v) {
		limits[i].bad = attr
	}
	return limits
}

// decodeBucketAttr reads an attribute of the item as a whole; false if it cannot
// be read.
func decodeBucketAttr(img *limiter.Image, attr string, v types.AttributeValue) (ok bool) {
	switch attr {
	case RF:
		img.RefilledAt, ok = integer(v)
		return ok && img.RefilledAt >= 0
	case ShardCount:
		n, ok := integer(v)
		img.ShardCount = int(max(n, 1))
		return ok && n <= MaxShards
	case TTL:
		n, ok := integer(v)
		img.ExpiresAt = max(n, 1) // 0 is never, and a sweep at 0 was long ago
		return ok
	case ValidUntil:
		img.HasValidUntil = true
		img.ValidUntil, ok = integer(v)
		return ok
	case PGen:
		img.ParentGeneration, ok = integer(v)
		return ok
	case Disabled:
		// Whatever it holds: writes are conditional on its absence.
		img.Disabled = true
	case Cascade:
		b, isBool := v.(*types.AttributeValueMemberBOOL)
		img.Cascade = isBool && b != nil && b.Value
	case ParentID:
		img.Parent = str(v)
	case PInc:
		img.Incarnation = str(v)
	}
	return true
}

// decode reads a field of the limit; false if it cannot be read.
func (l *limitScan) decode(field string, v types.AttributeValue) (ok bool) {
	switch field {
	case FieldTokens:
		l.seen |= hasTokens
		l.Tokens, ok = integer(v)
		return ok
	case FieldCapacity:
		l.seen |= hasCapacity
		l.Capacity, ok = integer(v)
		return ok && 1 <= l.Capacity && l.Capacity <= maxMilli
	case FieldAmount:
		l.seen |= hasAmount
		l.Amount, ok = integer(v)
		return ok && 0 <= l.Amount && l.Amount <= maxMilli
	case FieldPeriod:
		l.seen |= hasPeriod
		l.Period, ok = integer(v)
		return ok && 1 <= l.Period && l.Period <= maxPeriodMS
	case FieldConsumed:
		l.Consumed, ok = integer(v)
		return ok
	case FieldSched:
		if str(v) != noSchedule {
			l.seen |= isScheduled
		}
	case FieldRSched:
		if str(v) != noSchedule {
			l.seen |= isQuota
		}
	case FieldResetAfter:
		l.seen |= isQuota
	}
	return true
}

// gather fills in the limits that exist, by name, and the first feature that
// cannot be evaluated.
func gather(img *limiter.Image, item Item, limits []limitScan) error {
	_, scheduled := item[Sched]
	_, quota := item[RSched]
	n := 0
	for i := range limits {
		l := &limits[i]
		if l.seen&(hasTokens|hasCapacity) != hasTokens|hasCapacity || !knownLimit(l.Name) {
			continue
		}
		switch {
		case l.bad != "":
			return corrupt(item, l.bad, badNumber)
		case l.seen&hasAmount == 0:
			return corrupt(item, LimitAttr(l.Name, FieldAmount), "it is missing")
		case l.seen&hasPeriod == 0:
			return corrupt(item, LimitAttr(l.Name, FieldPeriod), "it is missing")
		case l.Name == WCU:
			img.Writes = l.LimitState
			continue
		}
		scheduled = scheduled || l.seen&isScheduled != 0
		quota = quota || l.seen&isQuota != 0 || l.Amount == 0
		limits[n] = *l
		n++
	}
	switch {
	case scheduled:
		img.Foreign = FeatureSchedule
	case quota:
		img.Foreign = FeatureQuota
	}
	if n == 0 {
		return nil
	}
	slices.SortFunc(limits[:n], func(a, b limitScan) int { return cmp.Compare(a.Name, b.Name) })
	img.Limits = make([]limiter.LimitState, n)
	for i := range img.Limits {
		img.Limits[i] = limits[i].LimitState
	}
	return nil
}

func knownLimit(name string) bool { return name == WCU || limiter.CheckLimitName(name) == nil }

// EncodeNewBucket is the item that c creates, in the namespace with the id ns.
// Parameters are stored whole, not divided by the number of shards.
func EncodeNewBucket(ns string, c *limiter.Create) Item {
	path := bucketPath(c.Bucket)
	shard := path[len(bucketPrefix)+len(c.Entity)+1+len(c.Resource):]
	item := make(Item, 18+5*(len(c.Limits)+1))
	item[PK], item[SK] = S(ns+"/"+path), S(StateSK)
	item[EntityID], item[Resource] = S(c.Entity), S(c.Resource)
	item[GSI2PK], item[GSI2SK] = S(ResourcePK(ns, c.Resource)), S(bucketPrefix+c.Entity+shard)
	item[GSI3PK], item[GSI3SK] = S(EntityPK(ns, c.Entity)), S(bucketPrefix+c.Resource+shard)
	putGSI4(item, ns, path)
	item[RF], item[ShardCount], item[Cascade] = N(c.Now), N(int64(c.ShardCount)), Bool(c.Owner.Cascade)
	if c.Owner.Parent != "" {
		item[ParentID] = S(c.Owner.Parent)
	}
	if c.Owner.Incarnation != "" {
		item[PGen], item[PInc] = N(c.Owner.Generation), S(c.Owner.Incarnation)
	}
	if c.ExpiresAt != 0 {
		item[TTL] = N(c.ExpiresAt)
	}
	putLimit(item, &c.Writes)
	for i := range c.Limits {
		putLimit(item, &c.Limits[i])
	}
	return item
}

func putLimit(item Item, l *limiter.NewLimit) {
	item[LimitAttr(l.Limit, FieldTokens)] = N(l.Tokens)
	item[LimitAttr(l.Limit, FieldCapacity)] = N(l.Capacity)
	item[LimitAttr(l.Limit, FieldAmount)] = N(l.Amount)
	item[LimitAttr(l.Limit, FieldPeriod)] = N(l.Period)
	item[LimitAttr(l.Limit, FieldConsumed)] = N(l.Consumed)
}
