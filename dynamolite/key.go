package dynamolite

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

const (
	maxHashKey  = 2048 // bytes of a partition key
	maxRangeKey = 1024 // bytes of a sort key
)

// keyAttribute is a key attribute of a table or an index.
type keyAttribute struct {
	name string // "" if the key has no such part
	kind types.ScalarAttributeType
	max  int // bytes
}

// keySchema is the primary key of a table or the key of an index.
type keySchema struct{ hash, rng keyAttribute }

func (s *keySchema) has(name string) bool {
	return name == s.hash.name || s.rng.name != "" && name == s.rng.name
}

func (s *keySchema) attributes() int {
	if s.rng.name == "" {
		return 1
	}
	return 2
}

// itemKey is the location of an item in a table.
type itemKey struct {
	shard     int
	hashLen   int      // length of the partition key in full
	full      string   // the key in the shard's tree
	hash, rng value.AV // as in the request, numbers normalised; rng nil if the table has no sort key
}

// item returns the key as an item that shares nothing with the request.
func (k *itemKey) item(s *keySchema) (value.Item, error) {
	item := make(value.Item, s.attributes())
	item[s.hash.name] = k.hash
	if s.rng.name != "" {
		item[s.rng.name] = k.rng
	}
	return value.NormalizeItem(item)
}

// keyProblem is the reason that a value cannot be a key.
type keyProblem int

const (
	keyFine keyProblem = iota
	keyMistyped
	keyEmpty
	keyTooLong
)

// check validates a key value and normalises a number. It returns strings and bytes unchanged.
func (a *keyAttribute) check(v value.AV) (value.AV, keyProblem, error) {
	var size int
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		if v == nil || a.kind != types.ScalarAttributeTypeS {
			return nil, keyMistyped, nil
		}
		size = len(v.Value)
	case *types.AttributeValueMemberB:
		if v == nil || a.kind != types.ScalarAttributeTypeB {
			return nil, keyMistyped, nil
		}
		size = len(v.Value)
	case *types.AttributeValueMemberN:
		if v == nil || a.kind != types.ScalarAttributeTypeN {
			return nil, keyMistyped, nil
		}
		n, err := value.Normalize(v)
		return n, keyFine, err
	default:
		return nil, keyMistyped, nil
	}
	switch {
	case size == 0:
		return nil, keyEmpty, nil
	case size > a.max:
		return nil, keyTooLong, nil
	}
	return v, keyFine, nil
}

// keyOf reads the key from a request's Key parameter, which must hold exactly the key attributes.
func (t *table) keyOf(key value.Item) (itemKey, error) {
	if len(key) != t.key.attributes() {
		return itemKey{}, errKeyMismatch
	}
	return t.makeKey(key, func(_ *keyAttribute, _ value.AV, present bool) error {
		if !present {
			return errKeyMismatch
		}
		return &misfitError{errKeyMismatch}
	})
}

// keyOfItem reads the key from an item to be put.
func (t *table) keyOfItem(item value.Item) (itemKey, error) {
	return t.makeKey(item, func(a *keyAttribute, v value.AV, present bool) error {
		if !present {
			return invalid("Missing the key %s in the item", a.name)
		}
		return misfit("Type mismatch for key %s expected: %s actual: %s", a.name, a.kind, value.TypeName(v))
	})
}

// errKeyMismatch is the error for a Key that does not match the table's schema.
var errKeyMismatch = validation("The provided key element does not match the schema")

// makeKey reads the key attributes from an item. Mismatch returns the error if one is missing or
// has another type.
func (t *table) makeKey(from value.Item, mismatch func(a *keyAttribute, v value.AV, present bool) error) (k itemKey, err error) {
	part := func(a *keyAttribute) (value.AV, error) {
		v, present := from[a.name]
		checked, problem, err := a.check(v)
		switch {
		case err != nil:
			return nil, err
		case problem == keyMistyped:
			return nil, mismatch(a, v, present)
		case problem == keyEmpty:
			return nil, validationf("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", a.name)
		case problem == keyTooLong:
			return nil, misfit("Size of %s has exceeded the maximum size limit of %d bytes", keyRole(a), a.max)
		}
		return checked, nil
	}
	if k.hash, err = part(&t.key.hash); err != nil {
		return itemKey{}, err
	}
	if t.key.rng.name != "" {
		if k.rng, err = part(&t.key.rng); err != nil {
			return itemKey{}, err
		}
	}
	var buf [256]byte
	enc := value.AppendKey(buf[:0], k.hash)
	k.shard, k.hashLen = shardOf(enc, len(t.shards)), len(enc)
	if k.rng != nil {
		enc = value.AppendKey(enc, k.rng)
	}
	k.full = string(enc)
	return k, nil
}

func keyRole(a *keyAttribute) string {
	if a.max == maxHashKey {
		return "hashkey"
	}
	return "rangekey"
}
