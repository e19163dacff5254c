package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
)

// definitions are a request's AttributeDefinitions. They note which definitions a key has used. AWS
// wants each definition used by a key of CreateTable, but ignores what UpdateTable does not need.
// The two operations therefore ask different questions about one list.
type definitions struct {
	// list has each name once. Its strings are copies, because a schema keeps them.
	list []types.AttributeDefinition
	// used is filled by keySchema. Only CreateTable asks for it, with allUsed.
	used map[string]bool
}

// Names are checked here, once for all keys that use them.
func newDefinitions(in []types.AttributeDefinition) (*definitions, error) {
	d := &definitions{used: map[string]bool{}}
	for i, a := range in {
		if a.AttributeName == nil {
			return nil, api.Missing("AttributeName")
		}
		name := *a.AttributeName
		if name == "" || len(name) > MaxAttribute {
			return nil, api.Invalid("The name of a key attribute must have 1 to %d bytes", MaxAttribute)
		}
		if err := api.OneOf(fmt.Sprintf("attributeDefinitions.%d.member.attributeType", i+1), a.AttributeType,
			types.ScalarAttributeTypeB, types.ScalarAttributeTypeN, types.ScalarAttributeTypeS); err != nil {
			return nil, err
		}
		if _, ok := d.kind(name); ok {
			return nil, api.Invalid("Duplicate AttributeName in AttributeDefinitions: %s", name)
		}
		d.list = append(d.list, types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: a.AttributeType})
	}
	return d, nil
}

func (d *definitions) kind(name string) (types.ScalarAttributeType, bool) {
	for _, a := range d.list {
		if *a.AttributeName == name {
			return a.AttributeType, true
		}
	}
	return "", false
}

// definitionsOf returns the definitions of a table. The list is a copy, because a schema in force
// must not change.
func definitionsOf(kinds []types.AttributeDefinition) *definitions {
	return &definitions{list: slices.Clone(kinds), used: map[string]bool{}}
}

// join adds other definitions, of attributes that are not defined yet. A definition that a table
// has already stays as it is. Agree reports a request that defines it otherwise.
func (d *definitions) join(others *definitions) {
	for _, a := range others.list {
		if _, ok := d.kind(*a.AttributeName); !ok {
			d.list = append(d.list, a)
		}
	}
}

// agree returns an error if a key attribute has another type than its definition.
//
// DynamoDB Local lets UpdateTable define an attribute a second time, with another type. The
// recorded cases follow AWS.
func (d *definitions) agree(k *storage.KeySchema) error {
	for _, a := range []storage.KeyAttribute{k.Hash, k.Rng} {
		if kind, ok := d.kind(a.Name); ok && kind != a.Kind {
			return api.Invalid("Attribute %s is of type %s and cannot be redefined as %s", a.Name, a.Kind, kind)
		}
	}
	return nil
}

// usedBy returns the definitions of the key attributes of a table and of its indexes. A definition
// goes with the last index that uses it, as on AWS. Otherwise a later index could not give the
// attribute another type.
func (d *definitions) usedBy(t *Table, s *Schema) []types.AttributeDefinition {
	keys := []*storage.KeySchema{&t.Key}
	for _, x := range s.Indexes {
		keys = append(keys, &x.Key)
	}
	d.list = slices.DeleteFunc(d.list, func(a types.AttributeDefinition) bool {
		return !slices.ContainsFunc(keys, func(k *storage.KeySchema) bool { return k.Has(*a.AttributeName) })
	})
	return d.sorted()
}

// sorted returns the definitions in the order in which AWS describes them.
func (d *definitions) sorted() []types.AttributeDefinition {
	slices.SortFunc(d.list, func(a, b types.AttributeDefinition) int { return strings.Compare(*a.AttributeName, *b.AttributeName) })
	return d.list
}

// allUsed returns an error for definitions that belong to no key. Attributes that are no key have
// no type until an item has them.
func (d *definitions) allUsed() error {
	var unused []string
	for _, a := range d.list {
		if !d.used[*a.AttributeName] {
			unused = append(unused, *a.AttributeName)
		}
	}
	if len(unused) == 0 {
		return nil
	}
	return api.Invalid("Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions: "+
		"these are the key of nothing: [%s]", strings.Join(unused, ", "))
}

// keySchema reads a HASH element and an optional RANGE element after it.
//
// The enumerations are checked first, because AWS reports a value outside of them before anything
// else.
func (d *definitions) keySchema(in []types.KeySchemaElement) (storage.KeySchema, error) {
	var s storage.KeySchema
	for i, e := range in {
		if err := api.OneOf(fmt.Sprintf("keySchema.%d.member.keyType", i+1), e.KeyType, types.KeyTypeHash, types.KeyTypeRange); err != nil {
			return s, err
		}
	}
	switch {
	case len(in) == 0:
		return s, api.Missing("KeySchema")
	case len(in) > 2:
		elements := make([]string, len(in))
		for i, e := range in {
			elements[i] = fmt.Sprintf("KeySchemaElement(attributeName=%s, keyType=%s)", aws.ToString(e.AttributeName), e.KeyType)
		}
		return s, api.Unfit("'["+strings.Join(elements, ", ")+"]'", "keySchema", "Member must have length less than or equal to 2")
	case in[0].KeyType != types.KeyTypeHash:
		return s, api.Invalid("The first KeySchemaElement is not a HASH key type")
	case len(in) == 2 && in[1].KeyType != types.KeyTypeRange:
		return s, api.Invalid("The second KeySchemaElement is not a RANGE key type")
	}
	for i, part := range []*storage.KeyAttribute{&s.Hash, &s.Rng}[:len(in)] {
		if in[i].AttributeName == nil {
			return s, api.Missing("AttributeName")
		}
		name := *in[i].AttributeName
		kind, ok := d.kind(name)
		if !ok {
			return s, api.Invalid("Some index key attributes are not defined in AttributeDefinitions. Keys: [%s]", name)
		}
		d.used[name] = true
		*part = storage.KeyAttribute{Name: name, Kind: kind, Max: []int{storage.MaxHashKey, storage.MaxRangeKey}[i]}
	}
	if s.Hash.Name == s.Rng.Name {
		return s, api.Validation("Invalid KeySchema: Some index key attribute have no definition")
	}
	return s, nil
}
