package schema

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// EncodeEntity is an entity's record. It has the parent's index keys if there is a parent,
// and no incarnation attribute if the incarnation is "".
func EncodeEntity(ns string, e *store.Entity) Item {
	item := MetaKey(ns, e.ID).Item()
	item[EntityID], item[Name], item[ParentID] = S(e.ID), S(e.Name), sOrNull(e.Parent)
	item[Cascade], item[PGen] = Bool(e.Cascade), N(e.Generation)
	if e.Incarnation != "" {
		item[PInc] = S(e.Incarnation)
	}
	metadata := make(Item, len(e.Metadata))
	for k, v := range e.Metadata {
		metadata[k] = S(v)
	}
	item[Metadata] = &types.AttributeValueMemberM{Value: metadata}
	item[CreatedAt] = S(Timestamp(e.Created))
	putGSI4(item, ns, EntityPK(ns, e.ID))
	if e.Parent != "" {
		item[GSI1PK], item[GSI1SK] = S(ParentIndexPK(ns, e.Parent)), S(childPrefix+e.ID)
	}
	return item
}

// noIncarnation replaces the incarnation of an entity whose record has none.
const noIncarnation = "-"

// DecodeEntity reads an entity's record. If it has no incarnation, the creation time
// replaces it, or else "-", as in the peer.
func DecodeEntity(item Item) (*store.Entity, error) {
	key := KeyOf(item)
	_, id, ok := ParseEntityPK(key.PK)
	if !ok || key.SK != MetaSK {
		return nil, corrupt(item, PK, "it is not the key of an entity's record")
	}
	e := &store.Entity{
		ID: id, Name: str(item[Name]), Parent: str(item[ParentID]),
		Metadata: map[string]string{}, Incarnation: str(item[PInc]),
	}
	if e.Name == "" {
		e.Name = id
	}
	if e.Parent != "" && store.CheckEntity(e.Parent) != nil {
		return nil, corrupt(item, ParentID, "it does not name an entity")
	}
	if b, isBool := item[Cascade].(*types.AttributeValueMemberBOOL); isBool && b != nil {
		e.Cascade = b.Value
	}
	if v, there := item[PGen]; there {
		if e.Generation, ok = integer(v); !ok {
			return nil, corrupt(item, PGen, badNumber)
		}
	}
	created := str(item[CreatedAt])
	if created != "" {
		var err error
		if e.Created, err = ParseTimestamp(created); err != nil {
			return nil, corrupt(item, CreatedAt, "it is not a time like 2006-01-02T15:04:05Z")
		}
	}
	if e.Incarnation == "" {
		e.Incarnation = created
	}
	if e.Incarnation == "" {
		e.Incarnation = noIncarnation
	}
	if m, isMap := item[Metadata].(*types.AttributeValueMemberM); isMap && m != nil {
		for k, v := range m.Value {
			e.Metadata[k] = text(v)
		}
	}
	return e, nil
}

// text renders a metadata value. The peer declares strings but stores any value.
func text(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberBOOL:
		if v.Value {
			return "true"
		}
		return "false"
	}
	return ""
}
