package schema

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// Names of the attributes of the record of an operation. The peer neither writes nor reads
// the last one, nor the record of a switch, which may have [DisabledUntil].
const (
	OperationKind        = "operation" // S, [OperationReset] and so on
	OperationWriter      = "writer"    // S, of one call
	OperationIncarnation = "ent"       // S, of the entity; [NoIncarnation] if it has no record
	OperationShards      = "shards"    // N
	OperationAmounts     = "amounts"   // M of N: whole tokens that each limit got
	OperationAsked       = "asked"     // M of N: whole tokens that were asked for
	OperationTo          = "to"        // S, of a move or a cascade policy: what it was changed to
)

// Kinds of operations.
const (
	OperationReset      = "reset"
	OperationTopUp      = "top_up"
	OperationDisable    = "disable"
	OperationEnable     = "enable"
	OperationBypass     = "bypass"
	OperationClear      = "clear"
	OperationSetParent  = "set_parent"
	OperationSetCascade = "set_cascade"
	OperationSettle     = "settle"
)

// OperationTTL is how long the record of an operation is kept.
const OperationTTL = 3 * 24 * time.Hour

// NoIncarnation is the incarnation of an entity without a record. It is like any other one.
const NoIncarnation = noIncarnation

// An Operation is what an operator did to the balances of a bucket, to a policy of a level, or to
// the parent of an entity, once for its ID.
type Operation struct {
	ID          string
	Entity      string
	Resource    string
	Kind        string
	Writer      string
	Incarnation string
	Shards      int64
	Amounts     map[string]int64 // by limit
	Asked       map[string]int64 // nil if a peer wrote the record
	Until       int64            // when a switch ends, in ms; 0 is never
	To          string           // what a parent or a cascade policy was changed to
	Expires     time.Time
}

// IsOperationID reports whether an ID may name an operation: 1 to 64 letters, digits, ".", "_",
// ":" and "-".
func IsOperationID(id string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-"
	const most = 64
	return id != "" && len(id) <= most && strings.Trim(id, letters) == ""
}

// OperationKey is the key of the record of an operation on a bucket.
func OperationKey(ns string, b store.Bucket, id string) Key {
	b.Shard = 0
	return Key{BucketKey(ns, b).PK, OperationPrefix + id}
}

// LevelOperationKey is the key of the record of an operation on a level.
func LevelOperationKey(ns string, k store.ConfigKey, id string) Key {
	if k.Entity != "" {
		id = k.Resource + "#" + id
	}
	return Key{ConfigKey(ns, k).PK, OperationPrefix + id}
}

// SettlementKey is the key of the record of a lease that was written down and is settled. The
// deletion of the entity leaves it: the lease could be settled again otherwise, if the entity comes
// back (ADR 058).
func SettlementKey(ns string, b store.Bucket, id string) Key {
	return Key{BucketKey(ns, b).PK, SettlementPrefix + id}
}

// EncodeOperation is the record of an operation, with its key. That of a settlement has no index
// keys, which would cost a unit each time: it expires soon.
func EncodeOperation(ns string, at Key, o *Operation) Item {
	item := at.Item()
	item[EntityID], item[Resource] = S(o.Entity), S(o.Resource)
	item[OperationKind], item[OperationWriter], item[OperationIncarnation] = S(o.Kind), S(o.Writer), S(o.Incarnation)
	item[OperationShards], item[OperationAmounts], item[OperationAsked] = N(o.Shards), Numbers(o.Amounts), Numbers(o.Asked)
	item[TTL] = N(o.Expires.Unix())
	if o.Until != 0 {
		item[DisabledUntil] = N(o.Until)
	}
	if o.To != "" {
		item[OperationTo] = S(o.To)
	}
	if o.Kind != OperationSettle {
		putGSI4(item, ns, "OP#"+o.Entity+"#"+o.Resource+"#"+o.ID)
	}
	return item
}

// DecodeOperation reads the record of an operation.
func DecodeOperation(item Item) (*Operation, error) {
	sk := KeyOf(item).SK
	o := &Operation{
		ID: sk[strings.LastIndexByte(sk, '#')+1:], Entity: str(item[EntityID]), Resource: str(item[Resource]), Kind: str(item[OperationKind]),
		Writer: str(item[OperationWriter]), Incarnation: str(item[OperationIncarnation]), To: str(item[OperationTo]),
	}
	var ok bool
	if o.Shards, ok = integer(item[OperationShards]); !ok {
		return nil, corrupt(item, OperationShards, badNumber)
	}
	if o.Amounts, ok = integers(item[OperationAmounts]); !ok {
		return nil, corrupt(item, OperationAmounts, badNumber)
	}
	if item[OperationAsked] != nil {
		if o.Asked, ok = integers(item[OperationAsked]); !ok {
			return nil, corrupt(item, OperationAsked, badNumber)
		}
	}
	if seconds, isNumber := integer(item[TTL]); isNumber {
		o.Expires = time.Unix(seconds, 0).UTC()
	}
	if item[DisabledUntil] != nil {
		if o.Until, ok = integer(item[DisabledUntil]); !ok {
			return nil, corrupt(item, DisabledUntil, badNumber)
		}
	}
	return o, nil
}

// Numbers is a map of whole numbers.
func Numbers(m map[string]int64) types.AttributeValue {
	item := make(Item, len(m))
	for name, n := range m {
		item[name] = N(n)
	}
	return Map(item)
}

// integers reads a map of whole numbers.
func integers(v types.AttributeValue) (map[string]int64, bool) {
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok || m == nil {
		return nil, false
	}
	numbers := make(map[string]int64, len(m.Value))
	for name, v := range m.Value {
		if numbers[name], ok = integer(v); !ok {
			return nil, false
		}
	}
	return numbers, true
}
