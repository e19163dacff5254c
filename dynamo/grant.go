package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Reset makes limits of one bucket full.
type Reset struct {
	Entity, Resource string
	Limits           []string // none means all limits of the bucket
	Cause
	// DryRun only tells what the reset would do.
	DryRun bool
}

// A TopUp adds tokens to limits of one bucket.
type TopUp struct {
	Entity, Resource string
	Amounts          map[string]int64 // whole tokens by limit, at least 1 each
	Cause
	// DryRun only tells what the top-up would do.
	DryRun bool
}

// A Grant is what a [Reset] or a [TopUp] did to a bucket.
type Grant struct {
	Shards int // of the bucket
	// Amounts are the whole tokens that each limit has more than before, rounded down. A reset takes some
	// from a limit that had been topped up.
	Amounts map[string]int64
	// Repeated says that an earlier call with the same key did this, and that this call did nothing.
	Repeated bool
}

// ResetBucket makes limits of a bucket full, as they would be without any use (ADR 046). A
// debt is forgiven. A quota gets the amount of a period and loses what it was topped up by;
// its period ends when it would have ended without the reset. The count of consumed tokens
// does not change.
//
// All shards and the audit event are written in one transaction, together with a record of
// the key, if there is one. The record is kept for three days at least. Until then, a call
// with the same key for the same bucket answers what the first one did. If it asks for
// something else, that is a [*KeyUsedError]. An entity that was deleted and created again
// begins without records.
//
// A reset of a bucket of one shard reads 37 units, because it looks for every shard that there
// may be, and writes 6.
//
// Without a key, [store.ErrUnavailable] means that the reset may have happened; the audit
// trail tells. It fails with [store.ErrNotFound] if there is no bucket: such a bucket is
// full. It fails with [store.ErrNotConfigured] if the bucket is not to have a limit, and with
// [store.ErrConflict] if others wrote to the bucket at each of four attempts.
func (s *Store) ResetBucket(ctx context.Context, r Reset) (Grant, error) {
	g := grant{
		bucket: store.Bucket{Entity: r.Entity, Resource: r.Resource}, cause: r.Cause, dryRun: r.DryRun,
		kind: schema.OperationReset, action: audit.BucketReset, asked: map[string]int64{},
	}
	for _, name := range r.Limits {
		if _, twice := g.asked[name]; twice {
			return Grant{}, &store.ValidationError{Field: "limits", Value: name, Reason: "name each limit once"}
		}
		g.asked[name] = 0
	}
	return s.grant(ctx, &g)
}

// TopUpBucket adds tokens to limits of a bucket (ADR 046). A quota gets the whole amount, and
// may hold that much more until its period ends. A rate gets at most what it lacks of being
// full. The rest is as for [Store.ResetBucket].
//
// It fails with [store.ErrIncompatible] if the aggregator of the table is one of the Python
// package before 0.17.0, which would take away what a quota was topped up by. Clients before
// that version cannot use the table any more after a quota was topped up.
func (s *Store) TopUpBucket(ctx context.Context, t TopUp) (Grant, error) {
	if len(t.Amounts) == 0 {
		return Grant{}, &store.ValidationError{Field: "amounts", Value: "", Reason: "give at least one"}
	}
	for name, tokens := range t.Amounts {
		if tokens < 1 || tokens > store.MaxTokens {
			return Grant{}, &store.ValidationError{
				Field: "amount of " + name, Value: strconv.FormatInt(tokens, 10), Reason: "give whole tokens, 1 to " + strconv.Itoa(store.MaxTokens),
			}
		}
	}
	return s.grant(ctx, &grant{
		bucket: store.Bucket{Entity: t.Entity, Resource: t.Resource}, cause: t.Cause, dryRun: t.DryRun,
		kind: schema.OperationTopUp, action: audit.BucketToppedUp, asked: t.Amounts,
	})
}

// A grant is a reset or a top-up under way.
type grant struct {
	bucket       store.Bucket
	cause        Cause
	dryRun       bool
	kind, action string
	asked        map[string]int64 // tokens by limit, 0 for a reset; none for a reset of all
	incarnation  string           // of the entity, if there is a key
}

// check validates a grant, except the amounts.
func (g *grant) check() error {
	if err := checkBucket(g.bucket); err != nil {
		return err
	}
	for name := range g.asked {
		if err := store.CheckLimitName(name); err != nil {
			return err
		}
	}
	return g.cause.Check()
}

// errKeyUsed says that the transaction of a grant found the record of its key.
var errKeyUsed = errors.New("the key was used before")

func (s *Store) grant(ctx context.Context, g *grant) (Grant, error) {
	if err := g.check(); err != nil {
		return Grant{}, err
	}
	op := strings.ReplaceAll(g.kind, "_", " ") + " " + g.bucket.Resource + " of " + g.bucket.Entity
	if g.cause.Key != "" {
		if done, err := s.grantedBefore(ctx, op, g); done != nil || err != nil {
			return repeated(done), err
		}
	}
	given, err := s.carryOut(ctx, op, g)
	if errors.Is(err, errKeyUsed) {
		done, err := s.grantedBefore(ctx, op, g)
		if err == nil && done == nil {
			err = fmt.Errorf("%s: %w: the entity was deleted or created meanwhile: try again", op, store.ErrConflict)
		}
		return repeated(done), err
	}
	if err != nil {
		return Grant{}, err
	}
	return Grant{Shards: given.Shards, Amounts: amountsOf(given)}, nil
}

// repeated is what an earlier call did, if it did anything.
func repeated(done *schema.Operation) Grant {
	if done == nil {
		return Grant{}
	}
	return Grant{Shards: int(done.Shards), Amounts: done.Amounts, Repeated: true}
}

// carryOut sends the transaction of a grant.
func (s *Store) carryOut(ctx context.Context, op string, g *grant) (upkeep.Given, error) {
	keeper, err := upkeep.NewKeeper(s, process.Options{Logger: s.conn.Log})
	if err != nil {
		return upkeep.Given{}, err
	}
	to := upkeep.Grant{Bucket: g.bucket, Resets: g.kind == schema.OperationReset}
	for _, name := range slices.Sorted(maps.Keys(g.asked)) {
		to.Amounts = append(to.Amounts, store.Amount{Limit: name, Milli: g.asked[name] * store.Milli})
	}
	if !g.dryRun {
		to.Write = func(ctx context.Context, refills []*store.Refill, given upkeep.Given) (store.Joint, error) {
			return s.sendGrant(ctx, op, g, refills, given)
		}
	}
	given, err := keeper.Grant(ctx, &to)
	return given, errors.Join(err, keeper.Close())
}

// sendGrant sends what a grant does to each shard, its record and its event in one
// transaction: at most as many items as [store.MaxShards], and two.
func (s *Store) sendGrant(ctx context.Context, op string, g *grant, refills []*store.Refill, given upkeep.Given) (store.Joint, error) {
	if slices.ContainsFunc(refills, raises) {
		if err := s.require(ctx, &topUps); err != nil {
			return store.Joint{}, err
		}
	}
	const besides = 2
	writes := make([]types.TransactWriteItem, 0, len(refills)+besides)
	for _, r := range refills {
		update, err := s.refillUpdate(ctx, r)
		if err != nil {
			return store.Joint{}, err
		}
		writes = append(writes, types.TransactWriteItem{Update: update})
	}
	amounts := amountsOf(given)
	details := item{"amounts": schema.Numbers(amounts), "shards": schema.N(int64(given.Shards))}
	if g.cause.Reason != "" {
		details["reason"] = schema.S(g.cause.Reason)
	}
	if g.cause.Key != "" {
		details["idempotency_key"] = schema.S(g.cause.Key)
	}
	event, err := s.auditPut(ctx, &schema.AuditEvent{Action: g.action, Entity: g.bucket.Entity, Resource: g.bucket.Resource, Details: details})
	if err != nil {
		return store.Joint{}, err
	}
	writes = append(writes, event)
	if g.cause.Key != "" {
		writes = append(writes, types.TransactWriteItem{Put: s.recordPut(g, given.Shards, amounts)})
	}
	joint, err := s.together(ctx, op, writes)
	if len(joint.Refusals) == 0 {
		return joint, err
	}
	if g.cause.Key != "" && joint.Refusals[len(writes)-1].Refused {
		return store.Joint{}, errKeyUsed
	}
	joint.Refusals = joint.Refusals[:len(refills)]
	return joint, err
}

// raises reports whether a refill tops a quota up.
func raises(r *store.Refill) bool {
	return slices.ContainsFunc(r.Changes, func(c store.Change) bool { return c.TopUp != 0 })
}

func amountsOf(given upkeep.Given) map[string]int64 {
	amounts := make(map[string]int64, len(given.Limits))
	for i, name := range given.Limits {
		amounts[name] = given.Tokens[i]
	}
	return amounts
}

// recordPut is the write of the record of a grant. Of all transactions with the key, at most
// one is applied. A record of an entity that was deleted since counts as none. An entity
// without a record is like any other one, as for the peer: a call may come before the entity
// is created, and its repetition after that.
func (s *Store) recordPut(g *grant, shards int, amounts map[string]int64) *types.Put {
	writer := make([]byte, 12)
	_, _ = rand.Read(writer) // it never fails
	put := s.conn.PutNew(schema.EncodeOperation(s.ns, g.bucket, &schema.Operation{
		ID: g.cause.Key, Kind: g.kind, Writer: hex.EncodeToString(writer), Incarnation: g.incarnation,
		Shards: int64(shards), Amounts: amounts, Asked: g.asked, Expires: s.conn.Clock.Now().Add(schema.OperationTTL),
	}))
	if g.incarnation != schema.NoIncarnation {
		put.ConditionExpression = aws.String("attribute_not_exists(PK) OR (ent <> :ent AND ent <> :none)")
		put.ExpressionAttributeValues = item{":ent": schema.S(g.incarnation), ":none": schema.S(schema.NoIncarnation)}
	}
	return put
}

// grantedBefore reads what an earlier call with the key of a grant did; nil if there was none. It learns the
// incarnation of the entity.
func (s *Store) grantedBefore(ctx context.Context, op string, g *grant) (*schema.Operation, error) {
	meta, key := schema.MetaKey(s.ns, g.bucket.Entity), schema.OperationKey(s.ns, g.bucket, g.cause.Key)
	items, err := s.conn.BatchGet(ctx, op, []schema.Key{meta, key}, true)
	if err != nil {
		return nil, err
	}
	g.incarnation = schema.NoIncarnation
	if it := items[meta]; it != nil {
		e, err := schema.DecodeEntity(it)
		if err != nil {
			return nil, err
		}
		g.incarnation = e.Incarnation
	}
	it := items[key]
	if it == nil {
		return nil, nil
	}
	done, err := schema.DecodeOperation(it)
	if err != nil {
		return nil, err
	}
	if was := done.Incarnation; was != g.incarnation && was != schema.NoIncarnation && g.incarnation != schema.NoIncarnation {
		return nil, nil
	}
	if !g.isSame(done) {
		return nil, &KeyUsedError{
			Key: done.ID, Entity: g.bucket.Entity, Resource: g.bucket.Resource, Operation: strings.ReplaceAll(done.Kind, "_", "-"), Amounts: done.Amounts,
			Until: done.Expires,
		}
	}
	return done, nil
}

// isSame reports whether a call asked for the same. A record of the peer says only what was
// given: less than what was asked, if a rate was full.
func (g *grant) isSame(done *schema.Operation) bool {
	switch {
	case done.Kind != g.kind:
		return false
	case done.Asked != nil:
		return maps.Equal(done.Asked, g.asked)
	case len(g.asked) == 0:
		return true
	}
	return maps.EqualFunc(done.Amounts, g.asked, func(given, asked int64) bool { return g.kind == schema.OperationReset || given <= asked })
}

// ErrKeyUsed says that the key of a [Cause] was used for another change. See [KeyUsedError].
var ErrKeyUsed = errors.New("idempotency key used for another change")

// A KeyUsedError says that the key of a change was used for another change of the same bucket, and
// what that was. It is [ErrKeyUsed].
type KeyUsedError struct {
	Key              string
	Entity, Resource string
	Operation        string           // "reset" or "top-up"
	Amounts          map[string]int64 // whole tokens that limits got
	Until            time.Time        // until then the key is kept, at least
}

// Error says what the key was used for, and what to do.
func (e *KeyUsedError) Error() string {
	amounts := make([]string, 0, len(e.Amounts))
	for _, name := range slices.Sorted(maps.Keys(e.Amounts)) {
		amounts = append(amounts, fmt.Sprintf("%s by %+d", name, e.Amounts[name]))
	}
	return fmt.Sprintf("the idempotency key %q was used for a %s of %s of %s, which changed %s: nothing is changed now: give another key for another change",
		e.Key, e.Operation, e.Resource, e.Entity, cmp.Or(strings.Join(amounts, ", "), "nothing"))
}

// Is reports whether target is [ErrKeyUsed].
func (e *KeyUsedError) Is(target error) bool { return target == ErrKeyUsed }
