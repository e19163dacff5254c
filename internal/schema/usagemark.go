package schema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// A snapshot has three attributes for each shard of the bucket that it has counted. They
// are strings. The sequence attribute has the sequence number of the last change counted,
// padded, and the item's count of writes after it. The counters attribute has the item's
// counters of consumed tokens after it. The low end has the sequence number of the first
// change counted, and the count of writes and the counters before it.
const (
	sequencePrefix = "seq#"
	countersPrefix = "at#"
	lowPrefix      = "low#"
)

// UsageSequenceAttr is the attribute of a snapshot with a shard's last change, see
// [UsageSequence].
func UsageSequenceAttr(shard int) string { return sequencePrefix + strconv.Itoa(shard) }

// UsageCountersAttr is the attribute of a snapshot with a shard's counters after the last
// change, see [UsageCounters].
func UsageCountersAttr(shard int) string { return countersPrefix + strconv.Itoa(shard) }

// UsageLowAttr is the attribute of a snapshot with the state of a shard before the first
// change counted, see [UsageLow].
func UsageLowAttr(shard int) string { return lowPrefix + strconv.Itoa(shard) }

// UsageMarks are the attributes of a snapshot that say what was counted, in order.
func UsageMarks(item Item) (attrs []string) {
	for name := range item {
		if strings.HasPrefix(name, sequencePrefix) || strings.HasPrefix(name, countersPrefix) || strings.HasPrefix(name, lowPrefix) {
			attrs = append(attrs, name)
		}
	}
	slices.Sort(attrs)
	return attrs
}

// zeros has as many digits as a padded sequence number.
const zeros = "0000000000000000000000000000000000000000"

// PadSequence pads a stream's sequence number with zeros, so that strings compare like the
// numbers; ok is false if it is not a number.
func PadSequence(s string) (padded string, ok bool) {
	if s == "" || len(s) > len(zeros) {
		return "", false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return "", false
		}
	}
	return zeros[len(s):] + s, true
}

// UsageSequence is the value of a sequence attribute: a padded sequence number, a space,
// and the count of writes of the image after the change, in thousandths. Such values
// compare with a padded sequence number as the sequence numbers do, if they differ.
func UsageSequence(padded string, after *store.Image) string {
	return padded + " " + strconv.FormatInt(writesOf(after), 10)
}

// createdSign begins the creation time in a counters attribute. No limit name begins so.
const createdSign = '@'

// base is the base of the numbers there. A creation time has eight digits until the year 2059.
const base = 36

// UsageCounters is the value of a counters attribute: "@" and the item's creation time, if
// it is known, then for each limit its name, "=" and its counter in millitokens, with
// commas in between.
func UsageCounters(img *store.Image) string {
	if img == nil {
		return ""
	}
	var room [128]byte
	text := room[:0]
	if img.CreatedAt > 0 {
		text = strconv.AppendInt(append(text, createdSign), img.CreatedAt, base)
	}
	for i := range img.Limits {
		l := &img.Limits[i]
		if len(text) > 0 {
			text = append(text, ',')
		}
		text = append(append(text, l.Name...), '=')
		text = strconv.AppendInt(text, l.Consumed, base)
	}
	return string(text)
}

// UsageLow is the value of a low end: the sequence number without zeros in front, and the
// count of writes and the counters of the image before the change, with spaces in between.
func UsageLow(padded string, before *store.Image) string {
	return UsageSequence(UsageLowAlone(padded), before) + " " + UsageCounters(before)
}

// UsageLowAlone is a low end with unknown counters.
func UsageLowAlone(padded string) string { return strings.TrimLeft(padded, "0") }

// UsageLowest is the low end of a shard of which nothing earlier can be counted.
const UsageLowest = "0"

func writesOf(img *store.Image) int64 {
	if img == nil {
		return 0
	}
	return img.Writes.Consumed
}

// A UsageMark says which changes of a shard a snapshot has counted: all from the low end
// to the high end.
type UsageMark struct {
	Low, High UsagePoint
	// Sequence and LowEnd are the attributes as they are in the item; "" is absent.
	Sequence, LowEnd string
}

// A UsagePoint is a state of a shard: before the first change counted, or after the last.
type UsagePoint struct {
	Sequence string // of that change, padded
	// HasCounters is false in snapshots of earlier versions. Then the other fields are empty.
	HasCounters bool
	Writes      int64
	CreatedAt   int64          // see [store.Image.CreatedAt]
	Consumed    []store.Amount // by limit name
}

// PointOf is the state of a shard that an image shows; nil is a shard that does not exist.
func PointOf(img *store.Image) UsagePoint {
	p := UsagePoint{HasCounters: true, Writes: writesOf(img)}
	if img != nil {
		p.CreatedAt = img.CreatedAt
		p.Consumed = make([]store.Amount, len(img.Limits))
		for i := range img.Limits {
			p.Consumed[i] = store.Amount{Limit: img.Limits[i].Name, Milli: img.Limits[i].Consumed}
		}
	}
	return p
}

// DecodeUsageMark reads what a snapshot has counted of a shard; nil if that is nothing. It
// fails with a [*store.CorruptError].
func DecodeUsageMark(item Item, shard int) (*UsageMark, error) {
	attr := UsageSequenceAttr(shard)
	for _, attr := range [...]string{attr, UsageCountersAttr(shard), UsageLowAttr(shard)} {
		if _, isText := item[attr].(*types.AttributeValueMemberS); !isText && item[attr] != nil {
			return nil, corrupt(item, attr, "it is not a string")
		}
	}
	if item[attr] == nil {
		return nil, nil
	}
	m := &UsageMark{Sequence: str(item[attr]), LowEnd: str(item[UsageLowAttr(shard)])}
	sequence, writes, hasWrites := strings.Cut(m.Sequence, " ")
	padded, ok := PadSequence(sequence)
	if !ok || padded != sequence {
		return nil, corrupt(item, attr, "it is not a padded sequence number")
	}
	m.High.Sequence = padded
	if hasWrites {
		if m.High, ok = parsePoint(padded, writes, str(item[UsageCountersAttr(shard)])); !ok {
			return nil, corrupt(item, attr, "it does not end with a count of writes, or the counters beside it are damaged")
		}
	}
	if m.Low, ok = parseLow(m.LowEnd); !ok {
		return nil, corrupt(item, UsageLowAttr(shard), "it is not a sequence number, a count of writes and counters")
	}
	return m, nil
}

// parseLow reads a low end. Snapshots of earlier versions have none: below their last
// change, nothing can be counted.
func parseLow(s string) (UsagePoint, bool) {
	sequence, rest, hasCounters := strings.Cut(cmp.Or(s, UsageLowest), " ")
	padded, ok := PadSequence(sequence)
	if !ok || !hasCounters {
		return UsagePoint{Sequence: padded}, ok
	}
	writes, counters, ok := strings.Cut(rest, " ")
	if !ok {
		return UsagePoint{}, false
	}
	return parsePoint(padded, writes, counters)
}

func parsePoint(sequence, writes, counters string) (p UsagePoint, ok bool) {
	p = UsagePoint{Sequence: sequence, HasCounters: true}
	var err error
	if p.Writes, err = strconv.ParseInt(writes, 10, 64); err != nil {
		return p, false
	}
	if counters == "" {
		return p, true
	}
	if counters[0] == createdSign {
		var created string
		created, counters, _ = strings.Cut(counters[1:], ",")
		if p.CreatedAt, err = strconv.ParseInt(created, base, 64); err != nil || counters == "" {
			return p, err == nil
		}
	}
	for part := range strings.SplitSeq(counters, ",") {
		limit, number, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(number, base, 64)
		if err != nil || store.CheckLimitName(limit) != nil {
			return p, false
		}
		p.Consumed = append(p.Consumed, store.Amount{Limit: limit, Milli: n})
	}
	return p, true
}
