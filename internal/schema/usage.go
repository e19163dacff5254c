package schema

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// Names of the attributes of a usage snapshot, besides the shared ones.
const (
	Window      = "window"       // S: hourly, daily or monthly
	WindowStart = "window_start" // S, see [Timestamp]
	TotalEvents = "total_events" // N
	// DayRead, S, is in the snapshots that [EncodeDay] makes of diaries: when the diaries were
	// read, in milliseconds, as text of one length. The peer takes no text for a count.
	DayRead = "#day"
)

// UsagePrefix begins the sort key of every usage snapshot, in the partition of
// the entity. [UsageIndexPrefix] begins its sort key in GSI2.
const (
	UsagePrefix      = "#USAGE#"
	UsageIndexPrefix = "USAGE#"
)

const (
	// escape and restSuffix keep attributes apart from limit names, which contain no "#".
	// escape begins and restSuffix ends an attribute.
	escape     = "#"
	restSuffix = "#milli"
	milli      = 1000
)

// taken are the attributes of a snapshot that could equal a limit's name, and the keys that
// a peer's table may have. All our other attributes contain a "#".
var taken = map[string]bool{
	PK: true, SK: true,
	GSI1PK: true, GSI1SK: true, GSI2PK: true, GSI2SK: true, GSI3PK: true, GSI3SK: true, GSI4PK: true, GSI4SK: true,
	"LSI1SK": true, "LSI2SK": true, "LSI3SK": true, "LSI4SK": true, "LSI5SK": true,
	EntityID: true, Resource: true, Window: true, WindowStart: true, TTL: true, TotalEvents: true,
}

// UsageAttr is the attribute of a snapshot that counts a limit's whole tokens. It is the
// limit's name, as in the peer, or "#" and the name if another attribute has that name.
func UsageAttr(limit string) string {
	if taken[limit] {
		return escape + limit
	}
	return limit
}

// UsageRestAttr is the attribute of a snapshot that counts the millitokens that [UsageAttr]
// cannot hold.
func UsageRestAttr(limit string) string { return UsageAttr(limit) + restSuffix }

// UsageKey is the key of the snapshot of an entity's use of a resource in the
// window that starts at an instant.
func UsageKey(ns, entity, resource, window string, start time.Time) Key {
	return Key{EntityPK(ns, entity), UsageSK(resource, window) + Timestamp(start)}
}

// UsageSK begins the sort keys of the snapshots of a resource in windows of one length.
// With window "", it begins those that the peer wrote, for windows of any length. The keys
// end with the start of the window.
func UsageSK(resource, window string) string {
	return UsagePrefix + resource + "#" + UsageWindow(window)
}

// UsageWindow is the part of a snapshot's keys that names the length of its window. The
// peer's keys, with window "", have no such part: there an hour and the day that begins
// with it share an item.
func UsageWindow(window string) string {
	if window == "" {
		return ""
	}
	return window + "#"
}

// A Usage is a usage snapshot.
type Usage struct {
	Entity, Resource string
	Window           string // as in the item; a peer's may be unknown
	Start            time.Time
	// Peer means that the key has the peer's form, without the window.
	Peer   bool
	Events int64
	Tokens []UsageAmount // sorted by limit name
}

// A UsageAmount is the usage of one limit in a snapshot.
type UsageAmount struct {
	Limit string
	// Milli is in millitokens, of any size; negative if more was returned than taken.
	Milli *big.Int
}

// ParseUsageKey splits the key of a snapshot. For the peer's form, the window is "".
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

// DecodeUsage reads a snapshot, of ours or of the peer's. It ignores numbers in attributes
// that cannot be a limit's name.
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

// EncodeDay is the snapshot of a day in the peer's form, for the peer to read: whole tokens,
// rounded down, and no window in the key. read is the instant at which the diaries were read,
// in milliseconds.
func EncodeDay(ns string, u *Usage, read int64, expires time.Time) Item {
	at := Timestamp(u.Start)
	item := UsageKey(ns, u.Entity, u.Resource, "", u.Start).Item()
	item[EntityID], item[Resource], item[Window], item[WindowStart] = S(u.Entity), S(u.Resource), S(u.Window), S(at)
	item[GSI2PK], item[GSI2SK] = S(ResourcePK(ns, u.Resource)), S(UsageIndexPrefix+at+"#"+u.Entity)
	putGSI4(item, ns, EntityPK(ns, u.Entity))
	item[TotalEvents], item[DayRead] = N(u.Events), S(fmt.Sprintf("%016d", read))
	for _, a := range u.Tokens {
		item[UsageAttr(a.Limit)] = &types.AttributeValueMemberN{Value: new(big.Int).Div(a.Milli, big.NewInt(milli)).String()}
	}
	if !expires.IsZero() {
		item[TTL] = N(expires.Unix())
	}
	return item
}

// usageTokens is the usage of a limit in a snapshot, in millitokens.
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
