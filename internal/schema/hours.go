package schema

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Diary is what a bucket item keeps of its hours.
type Diary struct {
	store.Bucket
	Life int64 // when the item was made, in ms; it tells two items of one key apart
	// Closed are the hours that ended, in the order in which they were closed. They never
	// change.
	Closed []diary.Entry
	// Open is the hour that the item counts now, so far. Another turn may be overdue. It
	// has no amounts if nothing was consumed in it.
	Open diary.Entry
	// Shards is the number of items of the bucket that this one knows of.
	Shards int
}

// Entries are all hours, the open one included if it has amounts.
func (d *Diary) Entries() []diary.Entry {
	if len(d.Open.Amounts) == 0 {
		return d.Closed
	}
	return append(slices.Clip(d.Closed), d.Open)
}

// DecodeDiary reads the diary of a bucket item. An item that no client with a diary has
// written has no hours.
//
// It reads counters, not limits: a limit that was removed from the item keeps what it
// consumed. Counters wrap at 64 bits, and so does their difference.
func DecodeDiary(item Item) (*Diary, error) {
	_, bucket, ok := ParseBucketPK(str(item[PK]))
	if !ok || str(item[SK]) != StateSK {
		return nil, corrupt(item, PK, "it is not the key of a bucket")
	}
	d := &Diary{Bucket: bucket, Shards: 1}
	if v, there := item[Created]; there {
		if d.Life, ok = integer(v); !ok {
			return nil, corrupt(item, Created, badNumber)
		}
	}
	if n, ok := integer(item[ShardCount]); ok {
		d.Shards = int(max(1, min(n, MaxShards)))
	}
	open, ok := item[OpenHour]
	if !ok {
		return d, nil
	}
	if d.Open.Hour, ok = hour(open); !ok {
		return nil, corrupt(item, OpenHour, badNumber)
	}
	var err error
	if d.Closed, err = diary.Parse(str(item[DiaryText])); err != nil {
		return nil, corrupt(item, DiaryText, err.Error())
	}
	if d.Open.Amounts, err = gained(item, counted, func(limit, attr string) (int64, bool) {
		return difference(item[attr], item[OpenedAttr(limit)])
	}); err != nil {
		return nil, err
	}
	closed, ok := item[ClosedHour]
	if !ok {
		return d, nil
	}
	last := diary.Entry{}
	if last.Hour, ok = hour(closed); !ok {
		return nil, corrupt(item, ClosedHour, badNumber)
	}
	if last.Amounts, err = gained(item, closedGain, func(_, attr string) (int64, bool) {
		return scalarOf(item[attr]).counter()
	}); err != nil {
		return nil, err
	}
	if len(last.Amounts) > 0 {
		d.Closed = append(d.Closed, last)
	}
	return d, nil
}

// gained returns the amounts of the attributes in which limitOf finds a limit, by limit.
// It leaves out 0.
func gained(item Item, limitOf func(attr string) (string, bool), value func(limit, attr string) (int64, bool)) (amounts []store.Amount, err error) {
	for attr := range item {
		limit, ok := limitOf(attr)
		if !ok || limit != "" && store.CheckLimitName(limit) != nil {
			continue
		}
		n, ok := value(limit, attr)
		if !ok {
			return nil, corrupt(item, attr, badNumber)
		}
		if n != 0 {
			amounts = append(amounts, store.Amount{Limit: limit, Milli: n})
		}
	}
	slices.SortFunc(amounts, func(a, b store.Amount) int { return cmp.Compare(a.Limit, b.Limit) })
	return amounts, nil
}

// counted is the limit whose count an attribute is, "" for acquires.
func counted(attr string) (limit string, ok bool) {
	if attr == Acquires {
		return "", true
	}
	limit, field, ok := splitLimitAttr(attr)
	return limit, ok && field == FieldConsumed
}

// closedGain is the limit that gained an attribute in the closed hour.
func closedGain(attr string) (limit string, ok bool) { return strings.CutPrefix(attr, gainedPrefix) }

// difference is a count less what it was, 0 if that is absent.
func difference(count, was types.AttributeValue) (int64, bool) {
	now, ok := scalarOf(count).counter()
	if !ok || was == nil {
		return now, ok
	}
	then, ok := scalarOf(was).counter()
	return now - then, ok
}

// hour reads a number of hours.
func hour(v types.AttributeValue) (int32, bool) {
	n, ok := integer(v)
	return int32(n), ok && n == int64(int32(n)) //nolint:gosec // that is the check
}
