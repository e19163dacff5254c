package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Namespace is a part of a table that is isolated from the rest. Its name leads to an
// id, and every key begins with the id. A name that is deleted and registered again
// leads to a new, empty namespace.
type Namespace struct {
	Name, ID string
	Created  time.Time // to the second
}

// Namespaces registers, lists and deletes the namespaces of a table. Unlike a [dynamo.Store],
// it does not need an existing namespace.
type Namespaces struct {
	conn  *conn.Conn
	audit *audit.Trail
}

// NewNamespaces returns the namespaces of the table that o names. It ignores
// o.Namespace and sends no request.
func NewNamespaces(o dynamo.Options) (*Namespaces, error) {
	if err := audit.CheckPrincipal(o.Principal); err != nil {
		return nil, err
	}
	c, err := conn.New(conn.Options{API: o.API, Table: o.Table, Now: o.Now, Logger: o.Logger, Timeout: o.Timeout})
	if err != nil {
		return nil, err
	}
	return &Namespaces{c, audit.New(c, o.Principal)}, nil
}

// namespaceOf drops what callers need not know of an active namespace's record.
func namespaceOf(ns schema.Namespace) Namespace {
	return Namespace{ns.Name, ns.ID, ns.Created.UTC().Truncate(time.Second)}
}

// Register creates a namespace, with its audit event, or returns the existing one of
// that name.
func (n *Namespaces) Register(ctx context.Context, name string) (Namespace, error) {
	ns, err := namespace.Register(ctx, n.conn, n.audit, name)
	if err != nil {
		return Namespace{}, err
	}
	return namespaceOf(ns), nil
}

func (n *Namespaces) event(ctx context.Context, action string, ns Namespace, days int, more schema.Item) (types.TransactWriteItem, error) {
	return namespace.Event(ctx, n.audit, action, &schema.Namespace{Name: ns.Name, ID: ns.ID}, days, more)
}

// retentionOf is the number of days for which a namespace keeps events, the default if
// its record cannot be read.
func (n *Namespaces) retentionOf(ctx context.Context, op, id string) (int, error) {
	system, err := n.conn.GetItem(ctx, op, schema.ConfigKey(id, store.ConfigKey{}))
	if err != nil {
		return 0, err
	}
	days, _ := schema.AuditRetention(system)
	return days, nil
}

// Get finds a namespace by name, with a consistent read. It fails with
// [store.ErrNotFound] if there is none.
func (n *Namespaces) Get(ctx context.Context, name string) (Namespace, error) {
	ns, err := namespace.Get(ctx, n.conn, name)
	if err != nil {
		return Namespace{}, err
	}
	return namespaceOf(ns), nil
}

// List returns every namespace of the table, ordered by name.
func (n *Namespaces) List(ctx context.Context) ([]Namespace, error) {
	var all []Namespace
	err := n.conn.Query(ctx, "list namespaces", &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
		ExpressionAttributeValues: schema.Item{
			":pk": schema.S(schema.VersionKey().PK), ":sk": schema.S(schema.NamespacePrefix),
		},
		ConsistentRead: aws.Bool(true),
	}, func(it schema.Item) error {
		name := schema.KeyOf(it).SK[len(schema.NamespacePrefix):]
		ns, err := namespace.Active(name, it)
		if err == nil {
			all = append(all, namespaceOf(ns))
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return nil
	})
	return all, err
}

// Delete removes a namespace's name. The same transaction marks its id deleted and
// writes the audit event, which is kept for as long as the namespace keeps events. The
// namespace's items stay until [Namespaces.Purge], and open stores continue to write
// them. Until then [Namespaces.Recover] brings back everything but the items that have
// expired. Delete fails with [store.ErrNotFound] if there is no such namespace.
func (n *Namespaces) Delete(ctx context.Context, name string) error {
	op := "delete namespace " + name
	for range conn.AdminAttempts {
		ns, err := n.Get(ctx, name)
		if err != nil {
			return err
		}
		days, err := n.retentionOf(ctx, op, ns.ID)
		if err != nil {
			return err
		}
		event, err := n.event(ctx, audit.NamespaceDeleted, ns, days, nil)
		if err != nil {
			return err
		}
		err = n.conn.Transact(ctx, op, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Delete: &types.Delete{
				TableName: n.conn.Table, Key: schema.NamespaceKey(name).Item(),
				ConditionExpression:       aws.String("namespace_id = :id"),
				ExpressionAttributeValues: schema.Item{":id": schema.S(ns.ID)},
			}},
			{Update: &types.Update{
				TableName: n.conn.Table, Key: schema.NamespaceIDKey(ns.ID).Item(),
				// A record made by hand may lack its reverse record. This update writes
				// the reverse record in full, so that the id can be found and purged.
				UpdateExpression: aws.String("SET #status = :deleted, deleted_at = :now, " +
					"namespace_id = :id, namespace_name = :name, GSI4PK = :gpk, GSI4SK = :gsk"),
				ExpressionAttributeNames: map[string]string{"#status": schema.Status},
				ExpressionAttributeValues: schema.Item{
					":deleted": schema.S(schema.StatusDeleted), ":now": schema.S(schema.Timestamp(n.conn.Clock.Now())),
					":id": schema.S(ns.ID), ":name": schema.S(name),
					":gpk": schema.S(schema.TableNamespace), ":gsk": schema.S(schema.NamespaceIDKey(ns.ID).PK),
				},
			}},
			event,
		}})
		if err == nil || !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%s: %w: try again", op, store.ErrConflict)
}

// NameOf finds the name that leads to a namespace's id, or led to it until the
// namespace was deleted. It fails with [store.ErrNotFound] if the id was never
// registered, or was purged.
func (n *Namespaces) NameOf(ctx context.Context, id string) (string, error) {
	it, err := n.conn.GetItem(ctx, "find the namespace with the id "+id, schema.NamespaceIDKey(id))
	if err != nil {
		return "", err
	}
	if it == nil {
		return "", &store.NotFoundError{Kind: "namespace", Name: id, Hint: "it was purged, or never registered"}
	}
	ns, err := schema.DecodeNamespace(it)
	return ns.Name, err
}

// AuditEvents reads events about the namespace of a name, for all ids that the name led
// to: its registrations and deletions. It reads as [dynamo.Store.AuditEvents] does and ignores
// q.Entity.
func (n *Namespaces) AuditEvents(ctx context.Context, name string, q audit.Query) (audit.Page, error) {
	if err := store.CheckNamespace(name); err != nil {
		return audit.Page{}, err
	}
	q.Entity = schema.AuditNamespace(name)
	return n.audit.Read(ctx, schema.TableNamespace, q)
}
