package storage

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// The lengths of keys.
const (
	MaxHashKey  = 2048 // bytes of a partition key
	MaxRangeKey = 1024 // bytes of a sort key
)

// KeyAttribute is a key attribute of a table or an index.
type KeyAttribute struct {
	Name string // "" if the key has no such part
	Kind types.ScalarAttributeType
	Max  int // bytes
}

// KeySchema is the primary key of a table or the key of an index. It never changes, so it is shared
// without a lock.
type KeySchema struct{ Hash, Rng KeyAttribute }

// Has reports whether an attribute is part of the key.
func (s *KeySchema) Has(name string) bool {
	return name == s.Hash.Name || s.Rng.Name != "" && name == s.Rng.Name
}

// Attributes returns how many attributes the key has.
func (s *KeySchema) Attributes() int {
	if s.Rng.Name == "" {
		return 1
	}
	return 2
}

// ItemKey is the location of an item in a table. Full is the encoded partition key and after it the
// encoded sort key. Equal numbers have equal encodings, so 1 and 1.0 name one item. The order of
// the encodings is the order of a Query.
type ItemKey struct {
	Shard     int
	hashLen   int      // length of the partition key in full
	Full      string   // the key in the shard's tree
	Hash, rng value.AV // as in the request, numbers normalised; rng nil if the table has no sort key
}

// Item returns the key as an item that shares nothing with the request.
func (k *ItemKey) Item(s *KeySchema) (value.Item, error) {
	item := make(value.Item, s.Attributes())
	item[s.Hash.Name] = k.Hash
	if s.Rng.Name != "" {
		item[s.Rng.Name] = k.rng
	}
	return value.NormalizeItem(item)
}

// KeyProblem is the reason that a value cannot be a key.
type KeyProblem int

// The reasons that a value cannot be a key.
const (
	KeyFine KeyProblem = iota
	KeyMistyped
	KeyEmpty
	KeyTooLong
)

// Check validates a key value and normalises a number. It returns strings and bytes unchanged. A
// number has no limit of its length here: DynamoDB's numbers have at most 38 digits.
func (a *KeyAttribute) Check(v value.AV) (value.AV, KeyProblem, error) {
	var size int
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		if v == nil || a.Kind != types.ScalarAttributeTypeS {
			return nil, KeyMistyped, nil
		}
		size = len(v.Value)
	case *types.AttributeValueMemberB:
		if v == nil || a.Kind != types.ScalarAttributeTypeB {
			return nil, KeyMistyped, nil
		}
		size = len(v.Value)
	case *types.AttributeValueMemberN:
		if v == nil || a.Kind != types.ScalarAttributeTypeN {
			return nil, KeyMistyped, nil
		}
		n, err := value.Normalize(v)
		return n, KeyFine, err
	default:
		return nil, KeyMistyped, nil
	}
	switch {
	case size == 0:
		return nil, KeyEmpty, nil
	case size > a.Max:
		return nil, KeyTooLong, nil
	}
	return v, KeyFine, nil
}

// Of reads the key from a request's Key parameter, which must hold exactly the key attributes.
func (s *KeySchema) Of(key value.Item) (ItemKey, error) {
	if len(key) != s.Attributes() {
		return ItemKey{}, ErrKeyMismatch
	}
	return s.Read(key, func(_ *KeyAttribute, _ value.AV, present bool) error {
		if !present {
			return ErrKeyMismatch
		}
		return &api.MisfitError{Err: ErrKeyMismatch}
	})
}

// OfItem reads the key from an item to be put.
func (s *KeySchema) OfItem(item value.Item) (ItemKey, error) {
	return s.Read(item, func(a *KeyAttribute, v value.AV, present bool) error {
		if !present {
			return api.Invalid("Missing the key %s in the item", a.Name)
		}
		return api.Misfit("Type mismatch for key %s expected: %s actual: %s", a.Name, a.Kind, value.TypeName(v))
	})
}

// ErrKeyMismatch is the error for a Key that does not match the table's schema.
var ErrKeyMismatch = api.Validation("The provided key element does not match the schema")

// Read reads the key attributes from an item. Mismatch returns the error if one is missing or
// has another type.
func (s *KeySchema) Read(from value.Item, mismatch func(a *KeyAttribute, v value.AV, present bool) error) (k ItemKey, err error) {
	part := func(a *KeyAttribute) (value.AV, error) {
		v, present := from[a.Name]
		checked, problem, err := a.Check(v)
		switch {
		case err != nil:
			return nil, err
		case problem == KeyMistyped:
			return nil, mismatch(a, v, present)
		case problem == KeyEmpty:
			return nil, api.Validationf("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", a.Name)
		case problem == KeyTooLong:
			return nil, api.Misfit("Size of %s has exceeded the maximum size limit of %d bytes", KeyRole(a), a.Max)
		}
		return checked, nil
	}
	if k.Hash, err = part(&s.Hash); err != nil {
		return ItemKey{}, err
	}
	if s.Rng.Name != "" {
		if k.rng, err = part(&s.Rng); err != nil {
			return ItemKey{}, err
		}
	}
	var buf [256]byte
	enc := value.AppendKey(buf[:0], k.Hash)
	k.Shard, k.hashLen = ShardOf(enc), len(enc)
	if k.rng != nil {
		enc = value.AppendKey(enc, k.rng)
	}
	k.Full = string(enc)
	return k, nil
}

// KeyRole returns what AWS calls a key attribute.
func KeyRole(a *KeyAttribute) string {
	if a.Max == MaxHashKey {
		return "hashkey"
	}
	return "rangekey"
}

// Fits reports whether the value of a stored attribute, nil if there is none, can be a key.
func (a *KeyAttribute) Fits(v value.AV) bool {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return a.Kind == types.ScalarAttributeTypeS && v.Value != "" && len(v.Value) <= a.Max
	case *types.AttributeValueMemberN:
		return a.Kind == types.ScalarAttributeTypeN
	case *types.AttributeValueMemberB:
		return a.Kind == types.ScalarAttributeTypeB && len(v.Value) > 0 && len(v.Value) <= a.Max
	default:
		return false
	}
}

// Partition returns the place of the item's partition key among the partitions of the table.
func (k *ItemKey) Partition() wall.Partition { return wall.PartitionOf(k.Full[:k.hashLen]) }

// Describe returns the key in the API's form.
func (s *KeySchema) Describe() []types.KeySchemaElement {
	out := []types.KeySchemaElement{{AttributeName: aws.String(s.Hash.Name), KeyType: types.KeyTypeHash}}
	if s.Rng.Name != "" {
		out = append(out, types.KeySchemaElement{AttributeName: aws.String(s.Rng.Name), KeyType: types.KeyTypeRange})
	}
	return out
}

// KeyState is a key as it is on disk.
type KeyState struct {
	Hash  KeyPart `json:"hash"`
	Range KeyPart `json:"range,omitzero"`
}

// KeyPart is a key attribute as it is on disk.
type KeyPart struct {
	Name string                    `json:"name"`
	Kind types.ScalarAttributeType `json:"type"`
}

// StateOfKey returns a key in its form on disk.
func StateOfKey(k *KeySchema) KeyState {
	return KeyState{Hash: KeyPart{k.Hash.Name, k.Hash.Kind}, Range: KeyPart{k.Rng.Name, k.Rng.Kind}}
}

// Schema returns the key that a state describes.
func (k *KeyState) Schema() KeySchema {
	s := KeySchema{Hash: KeyAttribute{Name: k.Hash.Name, Kind: k.Hash.Kind, Max: MaxHashKey}}
	if k.Range.Name != "" {
		s.Rng = KeyAttribute{Name: k.Range.Name, Kind: k.Range.Kind, Max: MaxRangeKey}
	}
	return s
}
