package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// SlotPrefix begins the sort keys of slots, in the partition of shard 0 of a bucket.
const SlotPrefix = "#SLOTS#"

// Names of the attributes of slots. The peer knows none of them. There is no [EntityID]: its
// aggregator takes items of a bucket's partition that have one for a bucket.
const (
	SlotsUsed = "used" // N, the sum of what the entries hold
	// entryPrefix begins the names of entries: S, the four numbers of a [store.Holding].
	entryPrefix = "h_"
)

// SlotIndexPrefix begins the sort keys of slots in the indexes. In GSI3 they are in the partition
// of the entity, where deletions of entities find them, the peer's too. What looks for buckets
// there does not.
const SlotIndexPrefix = "SLOTS#"

// SlotKey is the key of the slots of a limit.
func SlotKey(ns string, k store.SlotKey) Key {
	return Key{BucketKey(ns, store.Bucket{Entity: k.Entity, Resource: k.Resource}).PK, SlotPrefix + k.Limit}
}

// SlotIndexKeys are the index keys of the slots of a limit. isSpread says that they are spread over
// partitions.
func SlotIndexKeys(ns string, isSpread bool, k store.SlotKey) Item {
	_, gsi4 := bucketIndexPKs(ns, k.Entity, k.Resource, isSpread)
	item := Item{GSI3PK: S(EntityPK(ns, k.Entity)), GSI3SK: S(SlotIndexPrefix + k.Resource + "#" + k.Limit)}
	putGSI4(item, gsi4, SlotIndexPrefix+k.Entity+"#"+k.Resource+"#"+k.Limit)
	return item
}

// SlotEntry is the attribute that holds the entry of a process.
func SlotEntry(process string) string { return entryPrefix + process }

// EncodeHolding is the text of an entry, of which no two are equal.
func EncodeHolding(h *store.Holding) string {
	return fmt.Sprint(h.Held, h.Wants, h.Until, h.Seq)
}

// ParseSlotKey is which slots a key is of.
func ParseSlotKey(key Key) (k store.SlotKey, ok bool) {
	_, b, isBucket := splitBucketPK(key.PK)
	limit, isSlots := strings.CutPrefix(key.SK, SlotPrefix)
	return store.SlotKey{Entity: b.Entity, Resource: b.Resource, Limit: limit}, isBucket && isSlots
}

// DecodeSlots reads slots.
func DecodeSlots(item Item) (*store.SlotImage, error) {
	k, ok := ParseSlotKey(KeyOf(item))
	if !ok {
		return nil, corrupt(item, SK, "it is not the key of slots")
	}
	img := &store.SlotImage{SlotKey: k}
	if img.Used, ok = integer(item[SlotsUsed]); !ok {
		return nil, corrupt(item, SlotsUsed, badNumber)
	}
	for attr, v := range item {
		process, isEntry := strings.CutPrefix(attr, entryPrefix)
		if !isEntry {
			continue
		}
		h, ok := decodeHolding(process, str(v))
		if !ok {
			return nil, corrupt(item, attr, "it is not four whole numbers")
		}
		img.Holdings = append(img.Holdings, h)
	}
	slices.SortFunc(img.Holdings, func(a, b store.Holding) int { return cmp.Compare(a.Process, b.Process) })
	return img, nil
}

func decodeHolding(process, text string) (h store.Holding, ok bool) {
	h.Process = process
	fields := strings.Split(text, " ")
	numbers := [...]*int64{&h.Held, &h.Wants, &h.Until, &h.Seq}
	if len(fields) != len(numbers) {
		return h, false
	}
	for i, to := range numbers {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if *to = n; err != nil || n < 0 {
			return h, false
		}
	}
	return h, true
}

// putSlots adds the limits of slots of a level.
func putSlots(item Item, limits []store.SlotLimit) {
	if len(limits) > 0 {
		item[SlotLimits] = SlotsDetail(limits)
	}
}

// SlotsDetail is limits of slots as a level has them, and an event.
func SlotsDetail(limits []store.SlotLimit) types.AttributeValue {
	numbers := make(map[string]int64, len(limits))
	for _, l := range limits {
		numbers[l.Name] = l.Slots
	}
	return Numbers(numbers)
}

// slotLimits reads the limits of slots of a level.
func slotLimits(v types.AttributeValue) ([]store.SlotLimit, bool) {
	if v == nil {
		return nil, true
	}
	numbers, ok := integers(v)
	limits := make([]store.SlotLimit, 0, len(numbers))
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		limits = append(limits, store.SlotLimit{Name: name, Slots: numbers[name]})
	}
	return limits, ok && store.ValidateSlots(limits) == nil
}
