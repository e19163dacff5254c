package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

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
	// If is asked about the entity's own level for the resource, as that of a [Level] is.
	If func(*store.Config) error
	// DryRun only tells what the reset would do.
	DryRun bool
}

// A TopUp adds tokens to limits of one bucket.
type TopUp struct {
	Entity, Resource string
	Amounts          map[string]int64 // whole tokens by limit, at least 1 each
	Cause
	// If is asked about the entity's own level for the resource, as that of a [Level] is.
	If func(*store.Config) error
	// DryRun only tells what the top-up would do.
	DryRun bool
}

// An Amended is what a [Reset] or a [TopUp] did to a bucket.
type Amended struct {
	Shards int // of the bucket
	// Amounts are the whole tokens that each limit has more than before, rounded down. A
	// reset takes some from a limit that had been topped up.
	Amounts map[string]int64
	// Repeated says that an earlier call with the same key did this, and that this call did
	// nothing.
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
func (s *Store) ResetBucket(ctx context.Context, r Reset) (Amended, error) {
	am := amendment{
		once:   once{cause: r.Cause, kind: schema.OperationReset},
		bucket: store.Bucket{Entity: r.Entity, Resource: r.Resource}, dryRun: r.DryRun, action: audit.BucketReset, asked: map[string]int64{}, is: r.If,
	}
	for _, name := range r.Limits {
		if _, twice := am.asked[name]; twice {
			return Amended{}, &store.ValidationError{Field: "limits", Value: name, Reason: "name each limit once"}
		}
		am.asked[name] = 0
	}
	return s.amend(ctx, &am)
}

// TopUpBucket adds tokens to limits of a bucket (ADR 046). A quota gets the whole amount, and
// may hold that much more until its period ends. A rate gets at most what it lacks of being
// full. The rest is as for [Store.ResetBucket].
//
// It fails with a [*VersionError] if the aggregator of the table is one of the Python
// package before 0.17.0, which would take away what a quota was topped up by. Clients before
// that version cannot use the table any more after a quota was topped up.
func (s *Store) TopUpBucket(ctx context.Context, t TopUp) (Amended, error) {
	if len(t.Amounts) == 0 {
		return Amended{}, &store.ValidationError{Field: "amounts", Value: "", Reason: "give at least one"}
	}
	for name, tokens := range t.Amounts {
		if tokens < 1 || tokens > store.MaxTokens {
			return Amended{}, &store.ValidationError{
				Field: "amount of " + name, Value: strconv.FormatInt(tokens, 10), Reason: "give whole tokens, 1 to " + strconv.Itoa(store.MaxTokens),
			}
		}
	}
	return s.amend(ctx, &amendment{
		once:   once{cause: t.Cause, kind: schema.OperationTopUp},
		bucket: store.Bucket{Entity: t.Entity, Resource: t.Resource}, dryRun: t.DryRun, action: audit.BucketToppedUp, asked: t.Amounts, is: t.If,
	})
}

// An amendment is a reset or a top-up under way.
type amendment struct {
	once
	bucket store.Bucket
	dryRun bool
	action string
	asked  map[string]int64 // tokens by limit, 0 for a reset; none for a reset of all
	is     func(*store.Config) error
}

// check validates an amendment, except the amounts.
func (am *amendment) check() error {
	if err := checkBucket(am.bucket); err != nil {
		return err
	}
	for name := range am.asked {
		if err := store.CheckLimitName(name); err != nil {
			return err
		}
	}
	return am.cause.Check()
}

// errKeyUsed says that the transaction of an amendment found the record of its key.
var errKeyUsed = errors.New("the key was used before")

func (s *Store) amend(ctx context.Context, am *amendment) (Amended, error) {
	if err := am.check(); err != nil {
		return Amended{}, err
	}
	op := verb(am.kind, " ") + " " + am.bucket.Resource + " of " + am.bucket.Entity
	am.entity, am.resource, am.at = am.bucket.Entity, am.bucket.Resource, schema.OperationKey(s.ns, am.bucket, am.cause.Key)
	if am.cause.Key != "" {
		if done, err := s.doneBefore(ctx, op, &am.once, am.isSame); done != nil || err != nil {
			return repeated(done), err
		}
	}
	given, err := s.carryOut(ctx, op, am)
	if errors.Is(err, errKeyUsed) {
		done, err := s.doneBefore(ctx, op, &am.once, am.isSame)
		if err == nil && done == nil {
			err = fmt.Errorf("%s: %w: the entity was deleted or created meanwhile: try again", op, store.ErrConflict)
		}
		return repeated(done), err
	}
	if err != nil {
		return Amended{}, err
	}
	return Amended{Shards: given.Shards, Amounts: amountsOf(given)}, nil
}

// repeated is what an earlier call did, if it did anything.
func repeated(done *schema.Operation) Amended {
	if done == nil {
		return Amended{}
	}
	return Amended{Shards: int(done.Shards), Amounts: done.Amounts, Repeated: true}
}

// carryOut sends the transaction of an amendment.
func (s *Store) carryOut(ctx context.Context, op string, am *amendment) (upkeep.Given, error) {
	keeper, err := upkeep.NewKeeper(s, process.Options{Logger: s.conn.Log})
	if err != nil {
		return upkeep.Given{}, err
	}
	to := upkeep.Amendment{Bucket: am.bucket, Resets: am.kind == schema.OperationReset}
	for _, name := range slices.Sorted(maps.Keys(am.asked)) {
		to.Amounts = append(to.Amounts, store.Amount{Limit: name, Milli: am.asked[name] * store.Milli})
	}
	if am.dryRun {
		if _, err := s.askedLevel(ctx, op, am); err != nil {
			return upkeep.Given{}, errors.Join(err, keeper.Close())
		}
	} else {
		to.Write = func(ctx context.Context, refills []*store.Refill, given upkeep.Given) (store.Joint, error) {
			return s.sendAmendment(ctx, op, am, refills, given)
		}
	}
	given, err := keeper.Amend(ctx, &to)
	return given, errors.Join(err, keeper.Close())
}

// askedLevel asks about the level of an amendment, and is the check that the level still is as it was then;
// nil if there is no question.
func (s *Store) askedLevel(ctx context.Context, op string, am *amendment) (*types.ConditionCheck, error) {
	if am.is == nil {
		return nil, nil //nolint:nilnil // nothing is to be checked, and nothing failed
	}
	k := store.ConfigKey{Entity: am.bucket.Entity, Resource: am.bucket.Resource}
	old, err := s.configItem(ctx, k)
	if err == nil {
		err = ask(am.is, old)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	check := &types.ConditionCheck{
		TableName: s.conn.Table, Key: schema.ConfigKey(s.ns, k).Item(), ConditionExpression: aws.String("attribute_not_exists(PK)"),
	}
	if old != nil {
		check.ConditionExpression, check.ExpressionAttributeNames, check.ExpressionAttributeValues = unchanged(old, false, schema.ConfigVersion)
	}
	return check, nil
}

// sendAmendment sends what an amendment does to each shard, its record and its event in one
// transaction: at most as many items as [store.MaxShards], and three. One is the check of the level that the
// operator has asked about:
//
//	operator  ── reads the level, asks ──────────────────────── refills + event + check ─▶ refused, asks again
//	another   ────────────────────────── changes the level ─▶
func (s *Store) sendAmendment(ctx context.Context, op string, am *amendment, refills []*store.Refill, given upkeep.Given) (store.Joint, error) {
	if slices.ContainsFunc(refills, raises) {
		if err := s.require(ctx, gateTopUps); err != nil {
			return store.Joint{}, err
		}
	}
	check, err := s.askedLevel(ctx, op, am)
	if err != nil {
		return store.Joint{}, err
	}
	const besides = 3
	writes := make([]types.TransactWriteItem, 0, len(refills)+besides)
	for _, r := range refills {
		update, err := s.refillUpdate(ctx, r)
		if err != nil {
			return store.Joint{}, err
		}
		writes = append(writes, types.TransactWriteItem{Update: update})
	}
	amounts := amountsOf(given)
	details := schema.AmendmentDetails(amounts, int64(given.Shards), am.cause.Reason, am.cause.Key)
	event, err := s.auditPut(ctx, &schema.AuditEvent{Action: am.action, Entity: am.bucket.Entity, Resource: am.bucket.Resource, Details: details})
	if err != nil {
		return store.Joint{}, err
	}
	writes = append(writes, event)
	if am.cause.Key != "" {
		writes = append(writes, types.TransactWriteItem{Put: s.recordPut(&am.once, &schema.Operation{Shards: int64(given.Shards), Amounts: amounts, Asked: am.asked})})
	}
	if check != nil {
		writes = append(writes, types.TransactWriteItem{ConditionCheck: check})
	}
	joint, err := s.together(ctx, op, writes)
	if len(joint.Refusals) == 0 {
		return joint, err
	}
	if record := len(refills) + 1; am.cause.Key != "" && joint.Refusals[record].Refused {
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

// isSame reports whether a call asked for the same. A record of the peer says only what was
// given: less than what was asked, if a rate was full.
func (am *amendment) isSame(done *schema.Operation) bool {
	switch {
	case done.Asked != nil:
		return maps.Equal(done.Asked, am.asked)
	case len(am.asked) == 0:
		return true
	}
	return maps.EqualFunc(done.Amounts, am.asked, func(given, asked int64) bool { return am.kind == schema.OperationReset || given <= asked })
}
