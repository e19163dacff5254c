package dynamolite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// definitions are a request's AttributeDefinitions. They note which definitions a key has used.
type definitions struct {
	list []types.AttributeDefinition
	used map[string]bool
}

func newDefinitions(in []types.AttributeDefinition) (*definitions, error) {
	d := &definitions{used: map[string]bool{}}
	for i, a := range in {
		if a.AttributeName == nil {
			return nil, missing("AttributeName")
		}
		name := *a.AttributeName
		if name == "" || len(name) > maxAttribute {
			return nil, invalid("The name of a key attribute must have 1 to %d bytes", maxAttribute)
		}
		switch a.AttributeType {
		case types.ScalarAttributeTypeS, types.ScalarAttributeTypeN, types.ScalarAttributeTypeB:
		default:
			return nil, badEnum(fmt.Sprintf("attributeDefinitions.%d.member.attributeType", i+1), string(a.AttributeType), "B, N, S")
		}
		if _, ok := d.kind(name); ok {
			return nil, invalid("Duplicate AttributeName in AttributeDefinitions: %s", name)
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

// definitionsOf returns the definitions of a table.
func definitionsOf(kinds []types.AttributeDefinition) *definitions {
	return &definitions{list: slices.Clone(kinds), used: map[string]bool{}}
}

// join adds other definitions, of attributes that are not defined yet.
func (d *definitions) join(others *definitions) {
	for _, a := range others.list {
		if _, ok := d.kind(*a.AttributeName); !ok {
			d.list = append(d.list, a)
		}
	}
}

// agree returns an error if a key attribute has another type than its definition.
func (d *definitions) agree(k *keySchema) error {
	for _, a := range []keyAttribute{k.hash, k.rng} {
		if kind, ok := d.kind(a.name); ok && kind != a.kind {
			return invalid("Attribute %s is of type %s and cannot be redefined as %s", a.name, a.kind, kind)
		}
	}
	return nil
}

// usedBy returns the definitions of the key attributes of a table and of its indexes.
func (d *definitions) usedBy(t *table, s *schema) []types.AttributeDefinition {
	keys := []*keySchema{&t.key}
	for _, x := range s.indexes {
		keys = append(keys, &x.key)
	}
	d.list = slices.DeleteFunc(d.list, func(a types.AttributeDefinition) bool {
		return !slices.ContainsFunc(keys, func(k *keySchema) bool { return k.has(*a.AttributeName) })
	})
	return d.sorted()
}

// sorted returns the definitions in the order in which AWS describes them.
func (d *definitions) sorted() []types.AttributeDefinition {
	slices.SortFunc(d.list, func(a, b types.AttributeDefinition) int { return strings.Compare(*a.AttributeName, *b.AttributeName) })
	return d.list
}

// allUsed returns an error for definitions that belong to no key.
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
	return invalid("Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions: "+
		"these are the key of nothing: [%s]", strings.Join(unused, ", "))
}

// keySchema reads a HASH element and an optional RANGE element after it.
func (d *definitions) keySchema(in []types.KeySchemaElement) (keySchema, error) {
	var s keySchema
	for i, e := range in {
		if e.KeyType != types.KeyTypeHash && e.KeyType != types.KeyTypeRange {
			return s, badEnum(fmt.Sprintf("keySchema.%d.member.keyType", i+1), string(e.KeyType), "HASH, RANGE")
		}
	}
	switch {
	case len(in) == 0:
		return s, missing("KeySchema")
	case len(in) > 2:
		elements := make([]string, len(in))
		for i, e := range in {
			elements[i] = fmt.Sprintf("KeySchemaElement(attributeName=%s, keyType=%s)", aws.ToString(e.AttributeName), e.KeyType)
		}
		return s, unfit("'["+strings.Join(elements, ", ")+"]'", "keySchema", "Member must have length less than or equal to 2")
	case in[0].KeyType != types.KeyTypeHash:
		return s, invalid("The first KeySchemaElement is not a HASH key type")
	case len(in) == 2 && in[1].KeyType != types.KeyTypeRange:
		return s, invalid("The second KeySchemaElement is not a RANGE key type")
	}
	for i, part := range []*keyAttribute{&s.hash, &s.rng}[:len(in)] {
		if in[i].AttributeName == nil {
			return s, missing("AttributeName")
		}
		name := *in[i].AttributeName
		kind, ok := d.kind(name)
		if !ok {
			return s, invalid("Some index key attributes are not defined in AttributeDefinitions. Keys: [%s]", name)
		}
		d.used[name] = true
		*part = keyAttribute{name: name, kind: kind, max: []int{maxHashKey, maxRangeKey}[i]}
	}
	if s.hash.name == s.rng.name {
		return s, validation("Invalid KeySchema: Some index key attribute have no definition")
	}
	return s, nil
}
