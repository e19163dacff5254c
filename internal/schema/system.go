package schema

import (
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// States of a namespace.
const (
	StatusActive  = "active"
	StatusDeleted = "deleted"
	StatusPurging = "purging"
)

// A Namespace is a record of a namespace: the one from its name to its id, or the one from
// its id to its name.
type Namespace struct {
	ID, Name, Status string
	Created          time.Time // to the second
	Deleted          time.Time // of the record from id to name; zero if not deleted, or if unreadable
}

// EncodeNamespace is both records of a namespace: name to id, and id to name.
func EncodeNamespace(n Namespace) (forward, reverse Item) {
	record := func(k Key) Item {
		item := k.Item()
		item[NamespaceID], item[NamespaceName] = S(n.ID), S(n.Name)
		item[Status], item[CreatedAt] = S(n.Status), S(Timestamp(n.Created))
		putGSI4(item, TableNamespace, SystemPK(TableNamespace))
		return item
	}
	return record(NamespaceKey(n.Name)), record(NamespaceIDKey(n.ID))
}

// DecodeNamespace reads either record of a namespace.
func DecodeNamespace(item Item) (Namespace, error) {
	n := Namespace{ID: str(item[NamespaceID]), Name: str(item[NamespaceName]), Status: str(item[Status])}
	if !validNamespaceID(n.ID) {
		return Namespace{}, corrupt(item, NamespaceID, "it is not a namespace id")
	}
	if created := str(item[CreatedAt]); created != "" {
		var err error
		if n.Created, err = ParseTimestamp(created); err != nil {
			return Namespace{}, corrupt(item, CreatedAt, "it is not a time like 2006-01-02T15:04:05Z")
		}
	}
	if at, err := ParseTimestamp(str(item[DeletedAt])); err == nil {
		n.Deleted = at
	}
	return n, nil
}

// CheckNamespaceID reports why an id cannot be a namespace's, as a
// [*store.ValidationError].
func CheckNamespaceID(id string) error {
	if validNamespaceID(id) {
		return nil
	}
	return &store.ValidationError{Field: "namespace ID", Value: id, Reason: `use letters, digits, "-" and "_", more than "_" and at most 255 characters`}
}

// validNamespaceID accepts a URL-safe token, so that the first "/" of a key ends the id. It
// requires no fixed length: some tables were filled by hand.
func validNamespaceID(id string) bool {
	const longest = 255 // of many: a key has 2,048 bytes
	if id == "" || id == TableNamespace || len(id) > longest {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// A Version is the version record of a table.
type Version struct {
	Schema    string
	ClientMin string
	Lambda    string // "" if no aggregator is deployed
	Updated   time.Time
	UpdatedBy string // "" if unknown
	Spread    Spread
}

// A Spread says whether the index keys of a table's new buckets are spread over partitions.
type Spread int

// The values of [Spread].
const (
	// SpreadUnknown: nothing is recorded, or somebody has changed the record who does not know of
	// spread keys: the peer, or an older version of this program.
	SpreadUnknown Spread = iota
	// SpreadNever: the table is the peer's, too. The peer finds buckets by its own keys only.
	SpreadNever
	// SpreadAll: new buckets get spread keys.
	SpreadAll
)

// NoClientMin is the oldest client in the record of a new table: any.
const NoClientMin = "0.0.0"

// EncodeVersion is the version record.
func EncodeVersion(v Version) Item {
	item := VersionKey().Item()
	item[SchemaVersion], item[ClientMinVersion] = S(v.Schema), S(v.ClientMin)
	item[LambdaVersion], item[UpdatedBy] = sOrNull(v.Lambda), sOrNull(v.UpdatedBy)
	item[UpdatedAt] = S(Timestamp(v.Updated))
	switch v.Spread {
	case SpreadNever:
		item[IndexSpread] = N(1)
	case SpreadAll:
		item[IndexSpread], item[IndexSpreadAt] = N(IndexPartitions), S(stateOf(item))
	case SpreadUnknown:
	}
	putGSI4(item, TableNamespace, SystemPK(TableNamespace))
	return item
}

// DecodeVersion reads the version record. An unreadable update time becomes zero: nothing
// depends on it.
func DecodeVersion(item Item) Version {
	v := Version{
		Schema: str(item[SchemaVersion]), ClientMin: str(item[ClientMinVersion]),
		Lambda: str(item[LambdaVersion]), UpdatedBy: str(item[UpdatedBy]),
	}
	if t, err := ParseTimestamp(str(item[UpdatedAt])); err == nil {
		v.Updated = t
	}
	v.Spread = spreadOf(item)
	return v
}

// stateOf has what the peer changes in the record: when it deploys, and when one of its clients
// writes what needs a later client.
func stateOf(item Item) string { return str(item[UpdatedAt]) + " " + str(item[ClientMinVersion]) }

// spreadOf reads whether keys are spread. Spread keys are only for tables that the peer does not use. It
// has left no trace if the record is as it was written with the number of partitions.
func spreadOf(item Item) Spread {
	n, _ := scalarOf(item[IndexSpread]).integer()
	switch {
	case n == 1:
		return SpreadNever
	case n == IndexPartitions && str(item[IndexSpreadAt]) == stateOf(item):
		return SpreadAll
	}
	return SpreadUnknown
}
