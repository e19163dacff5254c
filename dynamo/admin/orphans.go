package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// An OrphanState is the reason why no name leads to a namespace.
type OrphanState string

// The values of [OrphanState].
const (
	// OrphanDeleted: the namespace was deleted. It can be recovered or purged.
	OrphanDeleted OrphanState = schema.StatusDeleted
	// OrphanPurging: a purge has begun. It can only be completed.
	OrphanPurging OrphanState = schema.StatusPurging
	// OrphanStranded: a deletion by the peer ended half way. The name is gone, but the ID
	// is not marked deleted. The namespace can be recovered or purged.
	OrphanStranded OrphanState = "stranded"
	// OrphanPurged: a client that held the ID wrote items after the purge. Neither a name
	// nor a record has the ID. These items can be purged. [Namespaces.Orphans] does not
	// list it, because only the items tell.
	OrphanPurged OrphanState = "purged"
)

// An Orphan is a namespace without a name: its items are in the table, and Name no longer
// leads to them.
type Orphan struct {
	Namespace

	State   OrphanState
	Deleted time.Time // zero if not known, as for a stranded namespace
}

// Orphans returns the namespaces that lost their names and were not purged, by ID. It
// reads consistently. A namespace that is deleted meanwhile may be missing, but a
// namespace in use is never included. If a record is damaged, it returns the other orphans
// and an error that names the record ([store.ErrCorrupt]).
func (n *Namespaces) Orphans(ctx context.Context) ([]Orphan, error) {
	const op = "list orphaned namespaces"
	var all []Orphan
	var damaged []error
	err := n.conn.Query(ctx, op, &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
		ExpressionAttributeValues: schema.Item{
			":pk": schema.S(schema.VersionKey().PK), ":sk": schema.S(schema.NamespaceIDPrefix),
		},
		ConsistentRead: aws.Bool(true),
	}, func(it schema.Item) error {
		ns, err := schema.DecodeNamespace(it)
		if err != nil {
			damaged = append(damaged, err)
			return nil
		}
		all = append(all, orphanOf(ns))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if all, err = n.withoutNames(ctx, op, all); err != nil {
		return nil, err
	}
	return all, errors.Join(damaged...)
}

// orphanOf takes an active record for that of a stranded namespace.
func orphanOf(reverse schema.Namespace) Orphan {
	o := Orphan{Namespace{reverse.Name, reverse.ID, reverse.Created}, OrphanState(reverse.Status), reverse.Deleted}
	if o.State != OrphanDeleted && o.State != OrphanPurging {
		o.State = OrphanStranded
	}
	return o
}

// withoutNames removes the namespaces to which their names lead.
//
// A deletion changes both records in one transaction. So a namespace without a name is
// stranded only if its other record is still active afterwards.
func (n *Namespaces) withoutNames(ctx context.Context, op string, all []Orphan) ([]Orphan, error) {
	var names []schema.Key
	for i := range all {
		if all[i].State == OrphanStranded {
			names = append(names, schema.NamespaceKey(all[i].Name))
		}
	}
	forward, err := n.conn.BatchGet(ctx, op, names, true)
	if err != nil {
		return nil, err
	}
	kept := all[:0]
	for _, o := range all {
		if o.State == OrphanStranded {
			if namespace.LeadsTo(forward[schema.NamespaceKey(o.Name)], o.ID) {
				continue
			}
			it, err := n.conn.GetItem(ctx, op, schema.NamespaceIDKey(o.ID))
			if err != nil {
				return nil, err
			}
			if it == nil {
				continue
			}
			now, err := schema.DecodeNamespace(it)
			if err != nil {
				return nil, err
			}
			o = orphanOf(now)
		}
		kept = append(kept, o)
	}
	return kept, nil
}

// Orphan finds an orphaned namespace by ID. It fails with [store.ErrNotFound] if the ID
// was purged or never registered and has no items, and with [ErrNamespaceInUse] if a name
// leads to it.
func (n *Namespaces) Orphan(ctx context.Context, id string) (Orphan, error) {
	o, err := n.recorded(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return n.purged(ctx, "find the namespace with the id "+id, id, err)
	}
	return o, err
}

// recorded finds an orphaned namespace by the record of its ID.
func (n *Namespaces) recorded(ctx context.Context, id string) (Orphan, error) {
	if err := schema.CheckNamespaceID(id); err != nil {
		return Orphan{}, err
	}
	op := "find the namespace with the id " + id
	it, err := n.conn.GetItem(ctx, op, schema.NamespaceIDKey(id))
	if err != nil {
		return Orphan{}, err
	}
	if it == nil {
		return Orphan{}, &store.NotFoundError{Kind: "namespace ID", Name: id, Hint: "it was purged, or never registered; zae-limiter namespace orphans lists the IDs"}
	}
	ns, err := schema.DecodeNamespace(it)
	if err != nil {
		return Orphan{}, err
	}
	found, err := n.withoutNames(ctx, op, []Orphan{orphanOf(ns)})
	switch {
	case err != nil:
		return Orphan{}, err
	case len(found) == 0:
		of := Namespace{ns.Name, ns.ID, ns.Created}
		return Orphan{Namespace: of}, inUse(of)
	}
	return found[0], nil
}

// purged finds what clients wrote after the purge of a namespace. It fails with unknown if
// there is nothing.
func (n *Namespaces) purged(ctx context.Context, op, id string, unknown error) (Orphan, error) {
	found := false
	err := n.conn.QueryMerged(ctx, op, schema.GSI4, schema.NamespaceIndexPKs(id), "", func(schema.Item) error { found = true; return conn.ErrStop })
	switch {
	case err != nil:
		return Orphan{}, err
	case !found:
		return Orphan{}, unknown
	}
	// A record of a name that was made by hand may have no record of its ID.
	named, err := n.List(ctx)
	if err != nil {
		return Orphan{}, err
	}
	for _, ns := range named {
		if ns.ID == id {
			return Orphan{Namespace: ns}, inUse(ns)
		}
	}
	return Orphan{Namespace: Namespace{ID: id}, State: OrphanPurged}, nil
}

func inUse(ns Namespace) error {
	return fmt.Errorf("namespace %q with the ID %s: %w: its name leads to it; delete it first", ns.Name, ns.ID, ErrNamespaceInUse)
}

// Recover gives an orphaned namespace a name again, with its audit event, in one
// transaction. The name is its old one if name is "". Recovering a namespace that the
// name already leads to changes nothing.
//
// It fails with [store.ErrExists] if the name belongs to another namespace, and with
// [ErrNamespaceInUse] if a purge has begun. Recover and Purge race for the record of the
// ID. Each writes it under the condition that it is as it was read, so one of them fails.
func (n *Namespaces) Recover(ctx context.Context, id, name string) (Namespace, error) {
	if name != "" {
		if err := store.CheckNamespace(name); err != nil {
			return Namespace{}, err
		}
	}
	op := "recover the namespace with the id " + id
	for range conn.AdminAttempts {
		o, err := n.recorded(ctx, id)
		switch {
		case errors.Is(err, ErrNamespaceInUse) && (name == "" || name == o.Name):
			return o.Namespace, nil
		case err != nil:
			return Namespace{}, err
		case o.State == OrphanPurging:
			return Namespace{}, fmt.Errorf("%s: %w: a purge of it has begun and deleted items; complete it with zae-limiter namespace purge", op, ErrNamespaceInUse)
		}
		if name != "" {
			o.Name = name
		}
		err = n.recover(ctx, op, &o)
		switch {
		case err == nil:
			return o.Namespace, nil
		case conn.FailedAt(err, 0):
			return Namespace{}, fmt.Errorf("%s: %w: give the recovered one another name with --as",
				op, &store.ExistsError{Kind: "namespace", Name: o.Name})
		case !errors.Is(err, store.ErrConflict):
			return Namespace{}, err
		}
	}
	return Namespace{}, fmt.Errorf("%s: %w: try again", op, store.ErrConflict)
}

// recover writes both records of a namespace, and its event.
func (n *Namespaces) recover(ctx context.Context, op string, o *Orphan) error {
	days, err := n.retentionOf(ctx, op, o.ID)
	if err != nil {
		return err
	}
	event, err := n.event(ctx, audit.NamespaceRecovered, o.Namespace, days, nil)
	if err != nil {
		return err
	}
	forward, _ := schema.EncodeNamespace(schema.Namespace{ID: o.ID, Name: o.Name, Status: schema.StatusActive, Created: o.Created})
	reverse := n.reverseUpdate(o, "SET #status = :next, namespace_name = :name REMOVE deleted_at", schema.StatusActive)
	reverse.ExpressionAttributeValues[":name"] = schema.S(o.Name)
	return n.conn.Transact(ctx, op, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: n.conn.PutNew(forward)}, {Update: reverse}, event,
	}})
}

// reverseUpdate is an update of the record of an orphan's ID to the status :next, if it
// still has the status that was read.
func (n *Namespaces) reverseUpdate(o *Orphan, expression, next string) *types.Update {
	was := string(o.State)
	if o.State == OrphanStranded {
		was = schema.StatusActive
	}
	return &types.Update{
		TableName: n.conn.Table, Key: schema.NamespaceIDKey(o.ID).Item(),
		UpdateExpression:         &expression,
		ConditionExpression:      aws.String("#status = :was"),
		ExpressionAttributeNames: map[string]string{"#status": schema.Status},
		ExpressionAttributeValues: schema.Item{
			":was": schema.S(was), ":next": schema.S(next),
		},
	}
}
