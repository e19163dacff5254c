package schema

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// Names of the attributes of a usage snapshot, besides those that it shares.
const (
	Window      = "window"       // S: hourly, daily or monthly
	WindowStart = "window_start" // S, see [Timestamp]
	TotalEvents = "total_events" // N
)

// UsagePrefix begins the sort key of every usage snapshot, in the partition of
// the entity. [UsageIndexPrefix] begins its sort key in GSI2.
const (
	UsagePrefix      = "#USAGE#"
	UsageIndexPrefix = "USAGE#"
)

const (
	// escape begins, and restSuffix ends, what no limit is called: names of limits
	// hold no "#".
	escape         = "#"
	restSuffix     = "#milli"
	sequencePrefix = "seq#"
	milli          = 1000
)

// taken are the attributes of a snapshot that a limit could be called after, and
// the keys that a table of the peer may have. All others of ours hold a "#".
var taken = map[string]bool{
	PK: true, SK: true,
	GSI1PK: true, GSI1SK: true, GSI2PK: true, GSI2SK: true, GSI3PK: true, GSI3SK: true, GSI4PK: true, GSI4SK: true,
	"LSI1SK": true, "LSI2SK": true, "LSI3SK": true, "LSI4SK": true, "LSI5SK": true,
	EntityID: true, Resource: true, Window: true, WindowStart: true, TTL: true, TotalEvents: true,
}

// UsageAttr is the attribute of a snapshot that counts a limit's tokens, whole
// ones: the limit's name, as the peer has it, or "#" and the name if another
// attribute is called that.
func UsageAttr(limit string) string {
	if taken[limit] {
		return escape + limit
	}
	return limit
}

// UsageRestAttr is the attribute of a snapshot that counts, in millitokens, what
// [UsageAttr] cannot.
func UsageRestAttr(limit string) string { return UsageAttr(limit) + restSuffix }

// UsageSequenceAttr is the attribute of a snapshot that holds the sequence number
// of the last change of one shard of the bucket that is counted in it, see
// [PadSequence].
func UsageSequenceAttr(shard int) string { return sequencePrefix + strconv.Itoa(shard) }

// zeros are as many as a sequence number of a stream gets digits.
const zeros = "0000000000000000000000000000000000000000"

// PadSequence fills a stream's sequence number up with zeros, so that strings
// compare as the numbers do; ok is false if it is none.
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

// UsageSequence is the last sequence number counted of a shard, padded; "" if
// none is.
func UsageSequence(item Item, shard int) string { return str(item[UsageSequenceAttr(shard)]) }

// UsageKey is the key of the snapshot of an entity's use of a resource in the
// window that starts at an instant.
func UsageKey(ns, entity, resource, window string, start time.Time) Key {
	return Key{EntityPK(ns, entity), UsageSK(resource, window) + Timestamp(start)}
}

// UsageSK begins the sort keys of the snapshots of a resource in the windows of
// one length; with window "", of those that the peer wrote, in windows of any.
// They end with the start of the window.
func UsageSK(resource, window string) string {
	return UsagePrefix + resource + "#" + UsageWindow(window)
}

// UsageIndexSK is the GSI2 sort key of a snapshot.
func UsageIndexSK(window string, start time.Time, entity string) string {
	return UsageIndexPrefix + UsageWindow(window) + Timestamp(start) + "#" + entity
}

// UsageWindow is the part of a snapshot's keys that names the length of its
// window. The peer's, whose window is "", have none: an hour and the day that
// begins with it share an item there.
func UsageWindow(window string) string {
	if window == "" {
		return ""
	}
	return window + "#"
}

// A Usage is a usage snapshot.
type Usage struct {
	Entity, Resource string
	Window           string // as the item has it, of the peer's perhaps no known one
	Start            time.Time
	// Peer says that the key is of the peer's form, without the window.
	Peer   bool
	Events int64
	Tokens []UsageAmount // by limit name
}

// A UsageAmount is what a snapshot counts of one limit.
type UsageAmount struct {
	Limit string
	// Milli is in millitokens, of any size; negative if more was returned than taken.
	Milli *big.Int
}

// ParseUsageKey takes the key of a snapshot apart. The window of one of the
// peer's form is "".
func ParseUsageKey(key Key) (u Usage, ok bool) {
	_, entity, ok := ParseEntityPK(key.PK)
	rest, isUsage := strings.CutPrefix(key.SK, UsagePrefix)
	if !ok || !isUsage {
		return Usage{}, false
	}
	parts := strings.Split(rest, "#")
	if len(parts) < 2 || len(parts) > 3 || store.CheckResource(parts[0]) != nil {
		return Usage{}, false
	}
	start, err := ParseTimestamp(parts[len(parts)-1])
	if err != nil {
		return Usage{}, false
	}
	u = Usage{Entity: entity, Resource: parts[0], Start: start, Peer: len(parts) == 2}
	if !u.Peer {
		u.Window = parts[1]
	}
	return u, true
}

// DecodeUsage reads a snapshot, of ours or of the peer's. Numbers in attributes
// that no limit is called after are left alone.
func DecodeUsage(item Item) (Usage, error) {
	u, ok := ParseUsageKey(KeyOf(item))
	if !ok {
		return Usage{}, corrupt(item, SK, "it is not the key of a usage snapshot")
	}
	if u.Peer {
		u.Window = str(item[Window])
	}
	if v, there := item[TotalEvents]; there {
		if u.Events, ok = integer(v); !ok {
			return Usage{}, corrupt(item, TotalEvents, badNumber)
		}
	}
	for attr, v := range item {
		limit := strings.TrimPrefix(attr, escape)
		_, isNumber := v.(*types.AttributeValueMemberN)
		if !isNumber || UsageAttr(limit) != attr || store.CheckLimitName(limit) != nil {
			continue
		}
		tokens, err := usageTokens(item, limit)
		if err != nil {
			return Usage{}, err
		}
		u.Tokens = append(u.Tokens, UsageAmount{limit, tokens})
	}
	slices.SortFunc(u.Tokens, func(a, b UsageAmount) int { return cmp.Compare(a.Limit, b.Limit) })
	return u, nil
}

// usageTokens is what a snapshot says of a limit, in millitokens.
func usageTokens(item Item, limit string) (*big.Int, error) {
	sum, ok := whole(item[UsageAttr(limit)])
	if !ok {
		return nil, corrupt(item, UsageAttr(limit), badNumber)
	}
	sum.Mul(sum, big.NewInt(milli))
	if v, there := item[UsageRestAttr(limit)]; there {
		rest, ok := whole(v)
		if !ok {
			return nil, corrupt(item, UsageRestAttr(limit), badNumber)
		}
		sum.Add(sum, rest)
	}
	return sum, nil
}

// SplitUsage is an amount of millitokens as whole tokens, cut towards zero, and
// what is left.
func SplitUsage(amount int64) (whole, rest int64) { return amount / milli, amount % milli }
