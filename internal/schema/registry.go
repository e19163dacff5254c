package schema

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// DecodeResourceRegistry lists the resources that have configuration, sorted.
func DecodeResourceRegistry(item Item) []string { return resourcesIn(item) }

// resourcesIn is the set of resources that an item has, sorted.
func resourcesIn(item Item) []string {
	set, ok := item[Resources].(*types.AttributeValueMemberSS)
	if !ok || set == nil {
		return nil
	}
	names := slices.Clone(set.Value)
	slices.Sort(names)
	return names
}

// DecodeEntityConfigRegistry lists the resources for which at least one entity has its own
// configuration, sorted; [limiter.DefaultResource] may be one.
func DecodeEntityConfigRegistry(item Item) []string {
	var names []string
	for attr, v := range item {
		n, ok := integer(v)
		if ok && n > 0 && CheckRegistered(attr) == nil {
			names = append(names, attr)
		}
	}
	slices.Sort(names)
	return names
}

// CheckRegistered is [store.CheckConfigResource] for the registry of entity
// configuration. The registry keeps a count in an attribute named after the resource, so it
// cannot count resources with the names of its own keys.
func CheckRegistered(resource string) error {
	switch resource {
	case PK, SK, GSI4PK, GSI4SK:
		return &store.ValidationError{
			Field: "resource", Value: resource,
			Reason: "the table needs the name for itself; give the limits to the resource, or rename it",
		}
	}
	return store.CheckConfigResource(resource)
}
