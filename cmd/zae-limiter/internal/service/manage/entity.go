package manage

import (
	"context"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// An Entity is an entity in JSON.
type Entity struct {
	ID       string            `json:"entity_id"`
	Name     string            `json:"name"` // name for people
	Parent   *string           `json:"parent_id"`
	Cascade  bool              `json:"cascade"`  // an acquire takes from the parent, too
	Metadata map[string]string `json:"metadata"` // what was given with the entity
	Created  time.Time         `json:"created_at"`
}

// EntityOf is an entity as a document.
func EntityOf(e *store.Entity) Entity {
	return Entity{ID: e.ID, Name: e.Name, Parent: orNull(e.Parent), Cascade: e.Cascade, Metadata: e.Metadata, Created: e.Created}
}

// Tag is the entity tag of an entity: another one if its record says anything else.
func (e *Entity) Tag() string { return tagOf(e) }

func entitiesOf(all []*store.Entity) []Entity {
	views := make([]Entity, len(all))
	for i, e := range all {
		views[i] = EntityOf(e)
	}
	return views
}

// GetEntity reads an entity.
func GetEntity(ctx context.Context, s *dynamo.Store, id string) (Entity, error) {
	e, err := s.Entity(ctx, id)
	if err != nil {
		return Entity{}, err
	}
	return EntityOf(e), nil
}

// CreateEntity creates an entity.
func CreateEntity(ctx context.Context, s *dynamo.Store, e store.Entity) (Entity, error) {
	created, err := s.CreateEntity(ctx, e)
	if err != nil {
		return Entity{}, err
	}
	return EntityOf(created), nil
}

// A DeletedEntity is the result of the deletion of an entity in JSON.
type DeletedEntity struct {
	ID    string `json:"entity_id"`
	Items int    `json:"items_deleted"`
}

// DeleteEntity deletes an entity with its limits, buckets and usage.
func DeleteEntity(ctx context.Context, s *dynamo.Store, id string) (DeletedEntity, error) {
	items, err := s.DeleteEntity(ctx, id)
	return DeletedEntity{id, items}, err
}

// Entities is a page of entities in JSON.
type Entities struct {
	Entities []Entity `json:"entities"` // the entities by ID
	Cursor   *string  `json:"cursor"`
	Note     string   `json:"note,omitempty"` // why there are none
}

// ListEntities lists the entities that were created.
func ListEntities(ctx context.Context, s *dynamo.Store, q dynamo.EntityQuery) (Entities, error) {
	page, err := s.Entities(ctx, q)
	if err != nil {
		return Entities{}, err
	}
	v := Entities{Entities: entitiesOf(page.Entities), Cursor: orNull(page.Next)}
	if len(v.Entities) == 0 {
		v.Note = fmt.Sprintf("no entity%s was created in namespace %s; entities need not be created to have limits or to acquire: see zae-limiter top RESOURCE", which(q), namespaceOf(s))
	}
	return v, nil
}

// which says of which entities a list is.
func which(q dynamo.EntityQuery) string {
	switch {
	case q.Cursor != "":
		return " after the cursor"
	case q.Prefix != "":
		return " whose ID begins with " + q.Prefix
	}
	return ""
}

func namespaceOf(s *dynamo.Store) string {
	name, _ := s.Namespace()
	return name
}

// Children are those of an entity in JSON.
type Children struct {
	Children []Entity `json:"children"`       // the entities whose parent it is
	Note     string   `json:"note,omitempty"` // why there are none
}

// ListChildren lists the children of an entity.
func ListChildren(ctx context.Context, s *dynamo.Store, id string) (Children, error) {
	all, err := s.Children(ctx, id)
	if err != nil {
		return Children{}, err
	}
	v := Children{Children: entitiesOf(all)}
	if len(all) == 0 {
		v.Note = fmt.Sprintf("no entity of namespace %s has the parent %s", namespaceOf(s), id)
	}
	return v, nil
}

// An EntityResource is a resource of an entity in JSON.
type EntityResource struct {
	Resource string `json:"resource"`
	Limits   bool   `json:"own_limits"` // the entity has limits of its own
	Shards   int    `json:"shards"`
}

// EntityResources are the resources of an entity in JSON.
type EntityResources struct {
	Entity    string           `json:"entity_id"`
	Resources []EntityResource `json:"resources"`      // the resources by name
	Note      string           `json:"note,omitempty"` // why there are none
}

// ListEntityResources lists the resources that an entity uses or has its own limits for.
func ListEntityResources(ctx context.Context, s *dynamo.Store, id string) (EntityResources, error) {
	all, err := s.EntityResources(ctx, id)
	if err != nil {
		return EntityResources{}, err
	}
	v := EntityResources{Entity: id, Resources: make([]EntityResource, len(all))}
	for i, r := range all {
		v.Resources[i] = EntityResource(r)
	}
	if len(all) == 0 {
		v.Note = fmt.Sprintf("entity %s of namespace %s has no bucket and no limits of its own: it is spelled otherwise, or it has acquired nothing lately", id, namespaceOf(s))
	}
	return v, nil
}

// Resources are names of resources in JSON.
type Resources struct {
	Resources []string `json:"resources"`      // names of the resources
	Note      string   `json:"note,omitempty"` // why there are none
}

// ListResources lists the resources that have default limits.
func ListResources(ctx context.Context, s *dynamo.Store) (Resources, error) {
	names, err := s.ResourcesWithDefaults(ctx)
	if err != nil {
		return Resources{}, err
	}
	v := Resources{Resources: append([]string{}, names...)}
	if len(names) == 0 {
		v.Note = fmt.Sprintf("no resource of namespace %s has default limits: set some with zae-limiter resource set-defaults", namespaceOf(s))
	}
	return v, nil
}
