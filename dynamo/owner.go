package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Cascade is what an operator decides at the level of an entity or a resource: whether an
// acquire from an entity also takes from its parent.
type Cascade struct {
	// Policy lets the level's buckets cascade with [store.Yes], and not with [store.No],
	// whatever the levels after this one and the entity's record say. [store.Inherit] removes
	// the policy. An entity without a parent never cascades.
	Policy store.Policy
	Cause
	// If is asked about the level as that of a [Level] is: for its limits, too.
	If func(*store.Config) error
}

// word is the policy in the record of a key.
func (to Cascade) word() string {
	return map[store.Policy]string{store.Yes: "on", store.No: "off", store.Inherit: "clear"}[to.Policy]
}

// SetCascade sets or removes the cascade policy of an entity's level or a resource's, with its
// audit event, and makes the buckets below follow before it returns. The first of these levels
// that has a policy decides: the entity's for the resource, the entity's for
// [store.DefaultResource], the resource's. If none has, the entity's record does.
//
// A cascade is one level, whatever a policy says: nothing is taken from the parent's parent.
//
// It reaches buckets and clients as [Store.SetParent] does. Tokens taken stay where they were
// taken, and are returned there. With a key, the policy is set once, as [Store.SetSwitch] sets a
// switch. The key must not be used for another policy.
func (s *Store) SetCascade(ctx context.Context, k store.ConfigKey, to Cascade, progress func(Switched)) (Switched, error) {
	if err := checkPolicy(k, to.Policy, store.No, "cascade policy"); err != nil {
		return Switched{}, err
	}
	if err := to.Check(); err != nil {
		return Switched{}, err
	}
	const op = "set the cascade policy"
	if err := s.require(ctx, gateCascade); err != nil {
		return Switched{}, err
	}
	p := policy{
		sets: store.Config{Cascade: to.Policy}, attrs: []string{schema.Cascade},
		details: schema.CascadeDetails(to.Policy, to.Reason, to.Key), is: to.If,
	}
	set := onceOf(s.ns, k, to.Cause, schema.OperationSetCascade, schema.Operation{To: to.word()})
	done, err := s.setPolicy(ctx, op, k, p, &set)
	if err != nil {
		return Switched{}, err
	}
	return s.markAll(ctx, k, true, s.followOwner, Switched{Repeated: done != nil}, progress)
}

// followOwner makes a bucket follow its entity's record, and the cascade policies that hold
// for it.
func (s *Store) followOwner(ctx context.Context, b store.Bucket) marked {
	return follow(ctx, s, b, trait[store.Owner]{read: s.owner, has: func(img *store.Image, is store.Owner) bool { return img.Owner() == is }, mark: s.stampOwner})
}

// owner reads what a bucket is to copy of its entity's record.
func (s *Store) owner(ctx context.Context, b store.Bucket) (store.Owner, error) {
	loaded, err := s.levelsOf(ctx, b, b.Entity)
	if err != nil {
		return store.Owner{}, err
	}
	var of store.Cascades
	for i, c := range loaded.Configs {
		if c != nil {
			of[i] = c.Cascade
		}
	}
	return of.Owner(loaded.Entity), nil
}

// stampOwner copies an owner to an item, whatever else it holds, unless the item has a newer one
// (ADR 049):
//
//	SET     cascade, parent_id, pgen, pinc; or
//	REMOVE  what the owner lacks
//	if      there is an item, and its pinc is another, or its pgen is not higher
//
// It moves no rf: a refill that sets the owner requires the one seen, and so does the birth of
// a shard, which copies it. Takes and credits are free to land in between.
func (s *Store) stampOwner(ctx context.Context, op string, b store.Bucket, o store.Owner) error {
	to, names, values := schema.EncodeOwner(o), map[string]string{}, item{}
	condition := "attribute_exists(PK)"
	if o.Incarnation != "" {
		names["#pgen"], names["#pinc"], values[":pgen"], values[":pinc"] = schema.PGen, schema.PInc, to[schema.PGen], to[schema.PInc]
		condition += " AND (attribute_not_exists(#pinc) OR #pinc <> :pinc OR attribute_not_exists(#pgen) OR #pgen <= :pgen)"
	}
	update := assign(to, []string{schema.Cascade, schema.ParentID, schema.PGen, schema.PInc}, names, values)
	return s.sendMark(ctx, op, &dynamodb.UpdateItemInput{
		Key: s.bucketKey(b), UpdateExpression: &update, ConditionExpression: &condition,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	})
}
