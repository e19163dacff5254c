// Package namespace reads and writes the records of a table's namespaces that lead from a
// name to an id. Stores and the administration of a table share it.
package namespace

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Register creates a namespace, with its audit event, or returns the existing one of
// that name.
func Register(ctx context.Context, c *conn.Conn, trail *audit.Trail, name string) (schema.Namespace, error) {
	if err := store.CheckNamespace(name); err != nil {
		return schema.Namespace{}, err
	}
	op := "register namespace " + name
	for range conn.AdminAttempts {
		ns := schema.Namespace{ID: NewID(), Name: name, Status: schema.StatusActive, Created: c.Clock.Now()}
		forward, reverse := schema.EncodeNamespace(ns)
		event, err := Event(ctx, trail, audit.NamespaceRegistered, &ns, schema.DefaultAuditRetention, nil)
		if err != nil {
			return schema.Namespace{}, err
		}
		err = c.Transact(ctx, op, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: c.PutNew(forward)}, {Put: c.PutNew(reverse)}, event,
		}})
		if err == nil || !errors.Is(err, store.ErrConflict) {
			return ns, err
		}
		// The name is taken, or, far less likely, the id.
		winner, err := Get(ctx, c, name)
		if err == nil || !errors.Is(err, store.ErrNotFound) {
			return winner, err
		}
	}
	return schema.Namespace{}, fmt.Errorf("%s: %w: try again", op, store.ErrConflict)
}

// Event returns the event of a change to a namespace, with more details than its id. The
// event belongs to the table: it outlives the namespace, and readers find it by the name.
func Event(ctx context.Context, trail *audit.Trail, action string, ns *schema.Namespace, days int, more schema.Item) (types.TransactWriteItem, error) {
	details := schema.Item{schema.NamespaceID: schema.S(ns.ID)}
	maps.Copy(details, more)
	return trail.Put(ctx, schema.TableNamespace, days, &schema.AuditEvent{Action: action, Entity: schema.AuditNamespace(ns.Name), Details: details})
}

// NewID returns 64 random bits as a token that can begin a key or a command-line argument.
func NewID() string {
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
func Get(ctx context.Context, c *conn.Conn, name string) (schema.Namespace, error) {
	if err := store.CheckNamespace(name); err != nil {
		return schema.Namespace{}, err
	}
	it, err := c.GetItem(ctx, "read namespace "+name, schema.NamespaceKey(name))
	if err != nil {
		return schema.Namespace{}, err
	}
	return Active(name, it)
}

// Active reads the record of a name. A namespace that is deleted or being purged counts as
// absent.
func Active(name string, it schema.Item) (schema.Namespace, error) {
	missing := &store.NotFoundError{Kind: "namespace", Name: name, Hint: "register it first, or check its name"}
	if it == nil {
		return schema.Namespace{}, missing
	}
	ns, err := schema.DecodeNamespace(it)
	if err != nil {
		return schema.Namespace{}, err
	}
	if ns.Status == schema.StatusDeleted || ns.Status == schema.StatusPurging {
		return schema.Namespace{}, missing
	}
	ns.Name = name
	return ns, nil
}

// LeadsTo reports whether a record of a name leads to an id.
func LeadsTo(forward schema.Item, id string) bool {
	ns, err := Active("", forward)
	return err == nil && ns.ID == id
}
