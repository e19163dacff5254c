package manage

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Namespace is a namespace in JSON.
type Namespace struct {
	Name    string    `json:"namespace"`
	ID      string    `json:"namespace_id"`
	Created time.Time `json:"created_at"`
}

// Namespaces are namespaces in JSON.
type Namespaces struct {
	Namespaces []Namespace `json:"namespaces"` // the namespaces by name
}

func namespacesOf(all []admin.Namespace) Namespaces {
	v := Namespaces{Namespaces: make([]Namespace, len(all))}
	for i, n := range all {
		v.Namespaces[i] = Namespace(n)
	}
	return v
}

// ListNamespaces lists the namespaces of a table.
func ListNamespaces(ctx context.Context, of *admin.Namespaces) (Namespaces, error) {
	all, err := of.List(ctx)
	return namespacesOf(all), err
}

// CheckNamespaces checks names of namespaces.
func CheckNamespaces(names []string) error {
	for _, name := range names {
		if err := store.CheckNamespace(name); err != nil {
			return err
		}
	}
	return nil
}

// RegisterNamespaces registers namespaces. Those that exist stay as they are.
func RegisterNamespaces(ctx context.Context, of *admin.Namespaces, names []string) (Namespaces, error) {
	if err := CheckNamespaces(names); err != nil {
		return Namespaces{}, err
	}
	registered := make([]admin.Namespace, len(names))
	for i, name := range names {
		var err error
		if registered[i], err = of.Register(ctx, name); err != nil {
			return Namespaces{}, err
		}
	}
	return namespacesOf(registered), nil
}

// GetNamespace shows a namespace.
func GetNamespace(ctx context.Context, of *admin.Namespaces, name string) (Namespace, error) {
	if err := store.CheckNamespace(name); err != nil {
		return Namespace{}, err
	}
	n, err := of.Get(ctx, name)
	return Namespace(n), err
}

// A DeletedNamespace is a namespace without its name in JSON.
type DeletedNamespace struct {
	Name string `json:"namespace"`
	ID   string `json:"namespace_id"`
}

// DeleteNamespace deletes the name of a namespace. Its items stay.
func DeleteNamespace(ctx context.Context, of *admin.Namespaces, name string) (DeletedNamespace, error) {
	n, err := GetNamespace(ctx, of, name)
	if err == nil {
		err = of.Delete(ctx, name)
	}
	return DeletedNamespace{name, n.ID}, err
}

// RecoverNamespace gives a namespace a name again: as, or its old one if that is "".
func RecoverNamespace(ctx context.Context, of *admin.Namespaces, id, as string) (Namespace, error) {
	if err := CheckRecovery(id, as); err != nil {
		return Namespace{}, err
	}
	n, err := of.Recover(ctx, id, as)
	return Namespace(n), err
}

// CheckRecovery checks the ID of a namespace, and its new name unless that is "".
func CheckRecovery(id, as string) error {
	if err := schema.CheckNamespaceID(id); err != nil || as == "" {
		return err
	}
	return store.CheckNamespace(as)
}

// An Orphan is a namespace without a name in JSON.
type Orphan struct {
	Name    string            `json:"namespace"`
	ID      string            `json:"namespace_id"`
	State   admin.OrphanState `json:"state"`
	Deleted *time.Time        `json:"deleted_at,omitempty"`
}

// orphanOf leaves out an unknown time.
func orphanOf(o *admin.Orphan) Orphan {
	v := Orphan{Name: o.Name, ID: o.ID, State: o.State}
	if !o.Deleted.IsZero() {
		v.Deleted = &o.Deleted
	}
	return v
}

// Orphans are the namespaces without a name in JSON.
type Orphans struct {
	Orphans []Orphan `json:"orphans"`        // the namespaces without a name
	Note    string   `json:"note,omitempty"` // why there are none
}

// ListOrphans lists the namespaces of a table that have no name. With [store.ErrCorrupt], it has those
// that could be read.
func ListOrphans(ctx context.Context, of *admin.Namespaces, table string) (Orphans, error) {
	all, err := of.Orphans(ctx)
	v := Orphans{Orphans: make([]Orphan, len(all))}
	for i := range all {
		v.Orphans[i] = orphanOf(&all[i])
	}
	if len(all) == 0 && err == nil {
		v.Note = "every namespace of table " + table + " has its name"
	}
	return v, err
}

// A PurgedNamespace is what a purge deleted in JSON.
type PurgedNamespace struct {
	Orphan

	Items   int64   `json:"items_deleted"`
	Passes  int     `json:"passes"` // how often the table was read
	Seconds float64 `json:"duration_seconds"`
}

// PurgeNamespace deletes all items of a namespace without a name.
func PurgeNamespace(ctx context.Context, of *admin.Namespaces, id string, o admin.PurgeOptions) (PurgedNamespace, error) {
	if err := schema.CheckNamespaceID(id); err != nil {
		return PurgedNamespace{}, err
	}
	done, err := of.Purge(ctx, id, o)
	return PurgedNamespace{orphanOf(&done.Orphan), done.Items, done.Passes, done.Elapsed.Seconds()}, err
}
