package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// spreaders is how many levels of entities are spread to their buckets at once.
const spreaders = 8

// A Level is what a level of configuration is to be. What it does not give stays as it
// is: at the system level the limits or OnUnavailable, and everywhere an operator's
// switches.
type Level struct {
	Key    store.ConfigKey
	Limits []store.Limit
	// OnUnavailable is for the system level only.
	OnUnavailable store.OnUnavailable
	// If, unless it is nil, is asked about what the level has; nil is a level that has nothing. With an
	// error, the level stays as it is. The change is made only if the level still has what If was asked
	// about (ADR 068, ADR 076). A conflict repeats the question, so If must not block.
	If func(*store.Config) error
}

// SetLevels sets levels as [Store.SetLimits] and [Store.SetSystem] set one, in
// transactions of up to [MaxLevels] levels: either all levels of a transaction change,
// or none. It returns an error for each level, nil for one that is set.
//
// If a transaction fails for one of its levels, SetLevels sends each level on its own,
// so that the others are set.
//
// SetLevels does not warn of limits that end: ask [Store.Unconfigured] before, for all
// levels that change, because each alone may seem to end a limit that another one sets.
func (s *Store) SetLevels(ctx context.Context, levels []Level) []error {
	jobs := make([]levelJob, len(levels))
	for i, l := range levels {
		jobs[i] = levelJob{
			key: l.Key, check: func() error {
				if err := l.Check(); err != nil {
					return err
				}
				return s.allow(ctx, l.Limits)
			},
			is: l.If, write: func(old item) levelWrite { return s.levelSetting(l, old) },
		}
	}
	return s.changeLevels(ctx, "set limits", jobs)
}

// DeleteLevels deletes the limits of levels as [Store.DeleteLimits] deletes one. It
// returns errors as [Store.SetLevels] does.
func (s *Store) DeleteLevels(ctx context.Context, keys []store.ConfigKey) []error {
	jobs := make([]levelJob, len(keys))
	for i, k := range keys {
		jobs[i] = levelJob{
			key: k, check: func() error { return checkLevel(k) },
			write: func(old item) levelWrite { return s.levelDeletion(k, old) },
		}
	}
	return s.changeLevels(ctx, "delete limits", jobs)
}

// Check reports why a level cannot be set, as a [*store.ValidationError].
func (l *Level) Check() error {
	if err := checkLevel(l.Key); err != nil {
		return err
	}
	isSystem := l.Key == store.ConfigKey{}
	switch {
	case l.OnUnavailable != "" && !isSystem:
		return &store.ValidationError{Field: "on unavailable", Value: string(l.OnUnavailable), Reason: "give it at the system level only"}
	case len(l.Limits) == 0 && (!isSystem || l.OnUnavailable == ""):
		return &store.ValidationError{Field: "limits", Value: "", Reason: "give at least one"}
	}
	if err := l.OnUnavailable.Validate(); err != nil {
		return err
	}
	return store.ValidateLimits(l.Limits)
}

// A levelJob is the change of one level, worked out from its item.
type levelJob struct {
	key   store.ConfigKey
	check func() error
	is    func(*store.Config) error // see [Level.If]
	write func(old item) levelWrite
	index int
}

// changeLevels carries out jobs, all of which set levels or all of which delete them.
func (s *Store) changeLevels(ctx context.Context, op string, jobs []levelJob) []error {
	errs := make([]error, len(jobs))
	var valid []levelJob
	seen := map[store.ConfigKey]bool{}
	for i, job := range jobs {
		job.index = i
		switch errs[i] = job.check(); {
		case errs[i] != nil:
		case seen[job.key]:
			errs[i] = &store.ValidationError{Field: "levels", Value: job.key.String(), Reason: "name each level once"}
		default:
			seen[job.key] = true
			valid = append(valid, job)
		}
	}
	for batch := range slices.Chunk(valid, MaxLevels) {
		s.changeBatch(ctx, op, batch, errs)
		s.spreadAll(ctx, batch, errs)
	}
	return errs
}

// changeBatch changes the levels of a batch in one transaction, or each on its own if
// that fails for one of them. It does not try each if the table cannot be reached.
func (s *Store) changeBatch(ctx context.Context, op string, batch []levelJob, errs []error) {
	err := s.changeTogether(ctx, op, batch)
	if err == nil {
		return
	}
	separately := len(batch) > 1 && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrAccessDenied)
	for i, job := range batch {
		if separately && ctx.Err() == nil {
			err = s.changeTogether(ctx, op, batch[i:i+1])
		}
		if err != nil {
			errs[job.index] = fmt.Errorf("%s of %s: %w", op, job.key.String(), err)
		}
	}
}

// changeTogether reads the items of levels and writes them in one transaction. It
// repeats both if an item changed in between. As [Store.changeConfig] does, it notifies
// watchers whatever the outcome.
func (s *Store) changeTogether(ctx context.Context, op string, batch []levelJob) error {
	keys := make([]schema.Key, len(batch))
	for i, job := range batch {
		keys[i] = schema.ConfigKey(s.ns, job.key)
	}
	for range conn.AdminAttempts {
		olds, err := s.conn.BatchGet(ctx, op, keys, true)
		if err != nil {
			return err
		}
		writes := make([]levelWrite, len(batch))
		for i, job := range batch {
			if err := ask(job.is, olds[keys[i]]); err != nil {
				return err
			}
			writes[i] = job.write(olds[keys[i]])
		}
		err = s.sendLevels(ctx, op, writes...)
		for _, job := range batch {
			s.changed(job.key)
		}
		if err == nil {
			return nil
		}
		if _, lost := conn.ConditionFailed(err); !lost {
			return err
		}
	}
	return fmt.Errorf("%w: try again", store.ErrConflict)
}

// spreadAll repairs the buckets of the entities whose levels were changed.
func (s *Store) spreadAll(ctx context.Context, batch []levelJob, errs []error) {
	var wait sync.WaitGroup
	places := make(chan struct{}, spreaders)
	for _, job := range batch {
		if errs[job.index] != nil || job.key.Entity == "" {
			continue
		}
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			errs[job.index] = s.spread(ctx, job.key)
		})
	}
	wait.Wait()
}

// ask asks about what a level has, see [Level.If].
func ask(is func(*store.Config) error, old item) error {
	if is == nil {
		return nil
	}
	if old == nil {
		return is(nil)
	}
	was, err := schema.DecodeConfig(old)
	if err != nil {
		return err
	}
	return is(was)
}

// A levelWrite is the change of one level: the write of its item with its event, and
// what it does to the registries. Without an event the item is as it should be.
type levelWrite struct {
	write    types.TransactWriteItem
	event    *schema.AuditEvent
	record   *types.Put // of the key of the change, if it has one
	registry registryChange
}

// sendLevels sends the changes of levels in one transaction.
func (s *Store) sendLevels(ctx context.Context, op string, changes ...levelWrite) error {
	var writes []types.TransactWriteItem
	var registry registryChange
	for _, c := range changes {
		registry.add(c.registry)
		if c.record != nil {
			writes = append(writes, types.TransactWriteItem{Put: c.record})
		}
		if c.event == nil {
			continue
		}
		event, err := s.auditPut(ctx, c.event)
		if err != nil {
			return err
		}
		writes = append(writes, c.write, event)
	}
	updates := s.registryUpdates(&registry)
	if len(writes) == 0 {
		return s.register(ctx, updates)
	}
	for _, u := range updates {
		writes = append(writes, types.TransactWriteItem{Update: u})
	}
	if err := s.conn.Transact(ctx, op, &dynamodb.TransactWriteItemsInput{TransactItems: writes}); err != nil {
		return err
	}
	for resource, n := range registry.counts {
		if n < 0 {
			s.tidyRegistry(ctx, resource)
		}
	}
	return nil
}

// levelSetting is the change that sets what a level gives, and keeps the rest.
func (s *Store) levelSetting(l Level, old item) levelWrite {
	c := &store.Config{Limits: l.Limits, OnUnavailable: l.OnUnavailable}
	if len(l.Limits) == 0 {
		return s.outageSetting(l, old)
	}
	return s.levelPut(l.Key, old, c, l.OnUnavailable != "", limitsSet(l.Key, c))
}

// outageSetting sets the behaviour when the store is unavailable, and nothing else of
// the system level. It does not touch the limits, so it needs no condition on them, unless the caller
// has asked about them.
func (s *Store) outageSetting(l Level, old item) levelWrite {
	on := l.OnUnavailable
	if schema.DecodeOutage(old) == on {
		return levelWrite{}
	}
	to, update := schema.EncodeOutage(on), "SET on_unavailable = :on, config_version = if_not_exists(config_version, :zero) + :one, "+
		"GSI4PK = if_not_exists(GSI4PK, :pk), GSI4SK = if_not_exists(GSI4SK, :sk)"
	values := item{":on": to[schema.OnUnavailable], ":zero": schema.N(0), ":one": schema.N(1), ":pk": schema.S(s.ns), ":sk": schema.S(schema.SystemPK(s.ns))}
	if shares := to[schema.OutageShare]; shares != nil {
		update, values[":shares"] = update+", outage_share = :shares", shares
	} else {
		update += " REMOVE outage_share"
	}
	system := store.ConfigKey{}
	e := limitsSet(system, &store.Config{OnUnavailable: on})
	delete(e.Details, "limits")
	u := &types.Update{
		TableName: s.conn.Table, Key: schema.ConfigKey(s.ns, system).Item(),
		UpdateExpression: aws.String(update), ExpressionAttributeValues: values,
	}
	switch {
	case l.If == nil:
	case old == nil:
		u.ConditionExpression = aws.String("attribute_not_exists(PK)")
	default:
		var seen item
		u.ConditionExpression, u.ExpressionAttributeNames, seen = unchanged(old, false, schema.ConfigVersion)
		maps.Copy(values, seen)
	}
	return levelWrite{event: e, write: types.TransactWriteItem{Update: u}}
}

// levelPut replaces a level's item by c and the settings of old that outlive its
// limits, provided that those are still as in old. whole says that on_unavailable does
// not outlive the limits.
//
// It puts the item instead of updating it, so that its limits are exactly the ones
// given: an update could not remove limits that another writer added since old was
// read. It writes neither the item nor its event if the item is already as it should
// be.
func (s *Store) levelPut(k store.ConfigKey, old item, c *store.Config, whole bool, e *schema.AuditEvent) levelWrite {
	it := schema.EncodeConfig(s.ns, k, c)
	put := s.conn.PutNew(it)
	if old != nil {
		maps.Copy(it, policies(old, whole))
		it[schema.ConfigVersion] = old[schema.ConfigVersion]
		put.ConditionExpression, put.ExpressionAttributeNames, put.ExpressionAttributeValues = unchanged(old, whole, schema.ConfigVersion)
	}
	w := levelWrite{registry: setting(k, old)}
	if !reflect.DeepEqual(old, it) {
		it[schema.ConfigVersion] = schema.NextConfigVersion(old)
		w.write, w.event = types.TransactWriteItem{Put: put}, e
	}
	return w
}

// levelDeletion deletes the limits of a level. Its item stays if it has settings that
// outlive limits.
func (s *Store) levelDeletion(k store.ConfigKey, old item) levelWrite {
	switch {
	case old == nil || schema.HasPolicy(old) && !schema.HasLimits(old):
		return levelWrite{}
	case schema.HasPolicy(old):
		w := s.levelPut(k, old, &store.Config{}, true, limitsDeleted(k, old))
		w.registry.listed = nil // one transaction cannot list a resource and unlist another
		return w
	}
	condition, names, values := unchanged(old, true, schema.ConfigVersion)
	return s.levelDelete(k, old, &types.Delete{
		ConditionExpression: condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	})
}

// levelDelete deletes a level's item, if del's condition holds, and removes the level
// from its registry.
func (s *Store) levelDelete(k store.ConfigKey, old item, del *types.Delete) levelWrite {
	del.TableName, del.Key = s.conn.Table, schema.ConfigKey(s.ns, k).Item()
	return levelWrite{write: types.TransactWriteItem{Delete: del}, event: limitsDeleted(k, old), registry: deleting(k, old)}
}
