package dynamo

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
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

// Namespaces registers, lists and deletes the namespaces of a table. Unlike a [Store],
// it does not need an existing namespace.
type Namespaces struct {
	conn  *conn.Conn
	audit *audit.Trail
}

// NewNamespaces returns the namespaces of the table that o names. It ignores
// o.Namespace and sends no request.
func NewNamespaces(o Options) (*Namespaces, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c, trail, err := o.connect()
	if err != nil {
		return nil, err
	}
	return &Namespaces{c, trail}, nil
}

// Register creates a namespace, with its audit event, or returns the existing one of
// that name.
func (n *Namespaces) Register(ctx context.Context, name string) (Namespace, error) {
	if err := store.CheckNamespace(name); err != nil {
		return Namespace{}, err
	}
	op := "register namespace " + name
	for range conn.AdminAttempts {
		ns := schema.Namespace{ID: newNamespaceID(), Name: name, Status: schema.StatusActive, Created: n.conn.Clock.Now()}
		forward, reverse := schema.EncodeNamespace(ns)
		event, err := n.auditNamespace(ctx, audit.NamespaceRegistered, name, ns.ID, audit.DefaultRetention)
		if err != nil {
			return Namespace{}, err
		}
		err = n.conn.Transact(ctx, op, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: putNew(n.conn, forward)}, {Put: putNew(n.conn, reverse)}, event,
		}})
		if err == nil {
			return Namespace{ns.Name, ns.ID, ns.Created.UTC().Truncate(time.Second)}, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return Namespace{}, err
		}
		// The name is taken, or, far less likely, the id.
		winner, err := n.Get(ctx, name)
		if err == nil || !errors.Is(err, store.ErrNotFound) {
			return winner, err
		}
	}
	return Namespace{}, fmt.Errorf("%s: %w: try again", op, store.ErrConflict)
}

// auditNamespace returns the event of a change to a namespace. The event belongs to the
// table: it outlives the namespace, and readers find it by the name.
func (n *Namespaces) auditNamespace(ctx context.Context, action, name, id string, days int) (types.TransactWriteItem, error) {
	return n.auditDetails(ctx, action, name, days, item{schema.NamespaceID: schema.S(id)})
}

func (n *Namespaces) auditDetails(ctx context.Context, action, name string, days int, details item) (types.TransactWriteItem, error) {
	return n.audit.Put(ctx, schema.TableNamespace, days, &schema.AuditEvent{Action: action, Entity: schema.AuditNamespace(name), Details: details})
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

func putNew(c *conn.Conn, it item) *types.Put {
	return &types.Put{TableName: c.Table, Item: it, ConditionExpression: aws.String("attribute_not_exists(PK)")}
}

// newNamespaceID returns 64 random bits as a token that can begin a key or a
// command-line argument.
func newNamespaceID() string {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}

// Get finds a namespace by name, with a consistent read. It fails with
// [store.ErrNotFound] if there is none.
func (n *Namespaces) Get(ctx context.Context, name string) (Namespace, error) {
	if err := store.CheckNamespace(name); err != nil {
		return Namespace{}, err
	}
	it, err := n.conn.GetItem(ctx, "read namespace "+name, schema.NamespaceKey(name))
	if err != nil {
		return Namespace{}, err
	}
	return activeNamespace(name, it)
}

// activeNamespace reads a forward record. A namespace that is deleted or being purged
// counts as absent.
func activeNamespace(name string, it item) (Namespace, error) {
	missing := &store.NotFoundError{Kind: "namespace", Name: name, Hint: "register it first, or check its name"}
	if it == nil {
		return Namespace{}, missing
	}
	ns, err := schema.DecodeNamespace(it)
	if err != nil {
		return Namespace{}, err
	}
	if ns.Status == schema.StatusDeleted || ns.Status == schema.StatusPurging {
		return Namespace{}, missing
	}
	return Namespace{name, ns.ID, ns.Created}, nil
}

// List returns every namespace of the table, ordered by name.
func (n *Namespaces) List(ctx context.Context) ([]Namespace, error) {
	var all []Namespace
	err := n.conn.Query(ctx, "list namespaces", &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
		ExpressionAttributeValues: item{
			":pk": schema.S(schema.VersionKey().PK), ":sk": schema.S(schema.NamespacePrefix),
		},
		ConsistentRead: aws.Bool(true),
	}, func(it item) error {
		name := schema.KeyOf(it).SK[len(schema.NamespacePrefix):]
		ns, err := activeNamespace(name, it)
		if err == nil {
			all = append(all, ns)
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
		event, err := n.auditNamespace(ctx, audit.NamespaceDeleted, name, ns.ID, days)
		if err != nil {
			return err
		}
		err = n.conn.Transact(ctx, op, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Delete: &types.Delete{
				TableName: n.conn.Table, Key: schema.NamespaceKey(name).Item(),
				ConditionExpression:       aws.String("namespace_id = :id"),
				ExpressionAttributeValues: item{":id": schema.S(ns.ID)},
			}},
			{Update: &types.Update{
				TableName: n.conn.Table, Key: schema.NamespaceIDKey(ns.ID).Item(),
				// A record made by hand may lack its reverse record. This update writes
				// the reverse record in full, so that the id can be found and purged.
				UpdateExpression: aws.String("SET #status = :deleted, deleted_at = :now, " +
					"namespace_id = :id, namespace_name = :name, GSI4PK = :gpk, GSI4SK = :gsk"),
				ExpressionAttributeNames: map[string]string{"#status": schema.Status},
				ExpressionAttributeValues: item{
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
