package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

var (
	_ store.SlotStore  = (*Store)(nil)
	_ store.SlotLister = (*Store)(nil)
)

// Hold replaces the entry of a process in the slots of a limit (ADR 055):
//
//	SET     h_{process}, ttl; the index keys, if there was no entry; h_0… of leases that are written down
//	REMOVE  the dead entries; or also h_{process}
//	ADD     used, by what that changes
//	if      the entry is as seen, or absent, the dead ones are there, and the written ones are not; used leaves
//	        room, if the write raises it
//
// A client may repeat the request: the repetition is refused, and the image shows the entry.
func (s *Store) Hold(ctx context.Context, h *store.Hold) (store.SlotOutcome, error) {
	if err := checkHold(h); err != nil {
		return store.SlotOutcome{}, err
	}
	op := "hold " + h.Limit + " of " + h.Resource + " for " + h.Entity
	out, err := conn.Send(ctx, s.conn, s.conn.API.UpdateItem, s.holdInput(h), conn.Quiet)
	if err == nil {
		img, err := schema.DecodeSlots(out.Attributes)
		return store.SlotOutcome{Applied: true, Image: img}, err
	}
	it, refused := conn.ConditionFailed(err)
	switch {
	case !refused:
		return store.SlotOutcome{}, s.conn.Translate(op, err)
	case it == nil:
		return store.SlotOutcome{}, nil
	}
	img, err := schema.DecodeSlots(it)
	if err != nil {
		return store.SlotOutcome{}, err
	}
	is := img.Of(h.Next.Process)
	return store.SlotOutcome{Applied: is != nil && *is == h.Next, Image: img}, nil
}

// holdInput is the request of a [store.Hold].
func (s *Store) holdInput(h *store.Hold) *dynamodb.UpdateItemInput {
	own, seen, to := schema.SlotEntry(h.Next.Process), item{}, item{}
	entries := []string{own}
	if h.Seen != nil {
		seen[own] = schema.S(schema.EncodeHolding(h.Seen))
	} else {
		to = schema.SlotIndexKeys(s.ns, s.isSpread, h.SlotKey)
	}
	for i := range h.Dead {
		attr := schema.SlotEntry(h.Dead[i].Process)
		entries, seen[attr] = append(entries, attr), schema.S(schema.EncodeHolding(&h.Dead[i]))
	}
	for i := range h.Written {
		attr := schema.SlotEntry(h.Written[i].Process)
		entries, to[attr] = append(entries, attr), schema.S(schema.EncodeHolding(&h.Written[i]))
	}
	to[schema.TTL] = schema.N(h.ExpiresAt)
	if !h.Next.IsEmpty() {
		to[own] = schema.S(schema.EncodeHolding(&h.Next))
	}
	terms, names, values := seenTerms(seen, entries)
	net := h.Net()
	names["#used"], values[":net"] = schema.SlotsUsed, schema.N(net)
	if net > 0 {
		terms = append(terms, "(attribute_not_exists(#used) OR #used <= :room)")
		values[":room"] = schema.N(h.Cap - net)
	}
	update := assign(to, slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(entries, maps.Keys(to))))), names, values) + " ADD #used :net"
	condition := strings.Join(terms, " AND ")
	return &dynamodb.UpdateItemInput{
		TableName: s.conn.Table, Key: schema.SlotKey(s.ns, h.SlotKey).Item(), UpdateExpression: &update, ConditionExpression: &condition,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values, ReturnValues: types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// checkHold validates a change of an entry.
func checkHold(h *store.Hold) error {
	if err := checkSlotKey(h.SlotKey); err != nil {
		return err
	}
	invalid := func(field string, value any, reason string) error {
		return &store.ValidationError{Field: field, Value: fmt.Sprint(value), Reason: reason}
	}
	switch name := h.Next.Process; {
	case !isEntryName(name):
		return invalid("process", name, "give 1 to "+strconv.Itoa(longestEntryName)+" lower-case letters and digits")
	case h.Next.Held < 0 || h.Next.Held > h.Cap && h.Net() > 0:
		return invalid("slots", h.Next.Held, "hold from 0 to "+strconv.FormatInt(h.Cap, 10))
	case h.Seen != nil && (h.Seen.Process != name || h.Seen.Seq >= h.Next.Seq):
		return invalid("entry", schema.EncodeHolding(&h.Next), "give the next entry of the process that was seen")
	case len(h.Dead) > store.MaxDead:
		return invalid("dead entries", len(h.Dead), "remove at most "+strconv.Itoa(store.MaxDead)+" in one write")
	case len(h.Written) > store.MaxWritten:
		return invalid("written entries", len(h.Written), "write at most "+strconv.Itoa(store.MaxWritten)+" leases down in one write")
	}
	for i := range h.Written {
		name := h.Written[i].Process
		same := func(other store.Holding) bool { return other.Process == name }
		if !h.Written[i].IsLease() || !isEntryName(name) || name == h.Next.Process || slices.ContainsFunc(h.Written[:i], same) || slices.ContainsFunc(h.Dead, same) {
			return invalid("written entries", name, "give each lease a name of its own that begins with "+store.LeasePrefix+", of lower-case letters and digits")
		}
	}
	if slices.ContainsFunc(h.Dead, func(d store.Holding) bool { return d.Process == h.Next.Process }) {
		return invalid("dead entries", h.Next.Process, "leave out the entry of the process that writes")
	}
	return nil
}

// longestEntryName is the most letters and digits of the name of an entry.
const longestEntryName = 16

func isEntryName(name string) bool {
	return name != "" && len(name) <= longestEntryName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// checkSlotKey validates the names in the key of slots.
func checkSlotKey(k store.SlotKey) error {
	if err := checkBucket(store.Bucket{Entity: k.Entity, Resource: k.Resource}); err != nil {
		return err
	}
	return store.CheckLimitName(k.Limit)
}

// Slots reads the entries of the slots of a limit.
func (s *Store) Slots(ctx context.Context, k store.SlotKey) (*store.SlotImage, error) {
	if err := checkSlotKey(k); err != nil {
		return nil, err
	}
	key := schema.SlotKey(s.ns, k)
	items, err := s.conn.BatchGet(ctx, "read "+k.Limit+" of "+k.Resource+" for "+k.Entity, []schema.Key{key}, true) // as Open: with its permission
	if err != nil || items[key] == nil {
		return nil, err
	}
	return schema.DecodeSlots(items[key])
}

// ResourceSlots yields the slots of a resource, or of all resources if it is "", by entity. It finds
// them through an index of the whole namespace that lags behind, and reads those of the resource
// with eventually consistent reads, at half a read unit each. About 20 entries of the index cost
// half a unit, and its 17 partitions 8.5 units at least. An item lives for a day after its last
// write, so there are those that were held since.
func (s *Store) ResourceSlots(ctx context.Context, resource string) iter.Seq2[*store.SlotImage, error] {
	return func(yield func(*store.SlotImage, error) bool) {
		b := slotBatch{store: s, op: "list slots", yield: yield}
		if resource != "" {
			if err := store.CheckResource(resource); err != nil {
				yield(nil, err)
				return
			}
			b.op += " of " + resource
		}
		err := s.conn.QueryMerged(ctx, b.op, schema.GSI4, schema.NamespaceIndexPKs(s.ns), schema.SlotIndexPrefix, func(it item) error {
			key := schema.KeyOf(it)
			if k, ok := schema.ParseSlotKey(key); !ok || resource != "" && k.Resource != resource {
				return nil
			}
			if b.keys = append(b.keys, key); len(b.keys) < bucketsAtOnce {
				return nil
			}
			return b.flush(ctx)
		})
		if err == nil {
			err = b.flush(ctx)
		}
		if err != nil && !errors.Is(err, conn.ErrStop) {
			yield(nil, err)
		}
	}
}

// A slotBatch reads slots whose keys an index yields, many in one request.
type slotBatch struct {
	store *Store
	op    string
	yield func(*store.SlotImage, error) bool
	keys  []schema.Key
}

// flush reads the slots and yields them; [conn.ErrStop] if nobody wants more.
func (b *slotBatch) flush(ctx context.Context) error {
	keys := b.keys
	b.keys = nil
	items, err := b.store.conn.BatchGet(ctx, b.op, keys, false)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if items[key] == nil {
			continue // expired meanwhile
		}
		img, err := schema.DecodeSlots(items[key])
		if err != nil {
			return err
		}
		if !b.yield(img, nil) {
			return conn.ErrStop
		}
	}
	return nil
}

// SetSlots replaces the limits of slots of one level of configuration, with its audit event;
// none removes them. The level's rate limits and other settings stay, and neither does setting or
// deleting limits change its slots. But a client of the Python package that sets limits of the
// level removes them. reason is as that of a [Cause].
//
// The first level that has slots holds for them, in the order of [store.ConfigKey]. Levels are
// not merged. A change reaches the limiters of this library within [limiter.Options.ConfigTTL].
// If there are fewer slots than are held, nobody gets any until enough are returned.
func (s *Store) SetSlots(ctx context.Context, k store.ConfigKey, limits []store.SlotLimit, reason string) error {
	return s.SetSlotsIf(ctx, k, limits, reason, nil)
}

// SetSlotsIf is [Store.SetSlots], if the level is as [Level].If has it.
func (s *Store) SetSlotsIf(ctx context.Context, k store.ConfigKey, limits []store.SlotLimit, reason string, is func(*store.Config) error) error {
	if err := cmp.Or(checkLevel(k), store.ValidateSlots(limits), checkReason(reason)); err != nil {
		return err
	}
	p := policy{
		sets: store.Config{Slots: limits}, attrs: []string{schema.SlotLimits},
		details: schema.SlotLimitDetails(limits, reason), is: is,
	}
	_, err := s.setPolicy(ctx, "set slots", k, p, &once{})
	return err
}
