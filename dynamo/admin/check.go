package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Report says whether this client works with a table.
type Report struct {
	*Description

	// Problems keep limiters of this client from working. The client and the table are
	// compatible if there are none.
	Problems []Finding
	// Warnings are what works worse than it could, or costs more.
	Warnings []Finding
	// Permissions are the results of all trials.
	Permissions []Permission
}

// A Finding is what was found, and what to do about it.
type Finding struct{ What, Do string }

// Check finds out whether this client works with the table, in a namespace. It writes
// nothing: see [Permission] for what it tries. It fails if the table does not exist or
// cannot be described. A namespace that does not exist is a problem in the report. The
// permissions are then tried with the keys of a namespace that does not exist.
func (t *Table) Check(ctx context.Context, namespace string) (*Report, error) {
	d, err := t.Describe(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{Description: d}
	r.checkTable()
	r.checkUpkeep()
	id, err := t.checkNamespace(ctx, r, namespace)
	if err != nil {
		return nil, err
	}
	t.checkPeer(ctx, r, id)
	r.Permissions = t.try(ctx, id)
	if d.StreamARN != "" && t.o.Streams != nil {
		r.Permissions = append(r.Permissions, t.tryStream(ctx, d.StreamARN)...)
	}
	for _, operation := range slices.Sorted(maps.Keys(d.Unknown)) {
		if err := d.Unknown[operation]; !errors.Is(err, ErrNoBackups) {
			r.Permissions = append(r.Permissions, Permission{"dynamodb:" + operation, ofTable, UseAdministration, err})
		}
	}
	r.judge()
	return r, nil
}

func (r *Report) problem(do, format string, args ...any) {
	r.Problems = append(r.Problems, Finding{fmt.Sprintf(format, args...), do})
}

func (r *Report) warn(do, format string, args ...any) {
	r.Warnings = append(r.Warnings, Finding{fmt.Sprintf(format, args...), do})
}

// checkTable checks what a limiter needs.
func (r *Report) checkTable() {
	if r.Status != string(types.TableStatusActive) && r.Status != string(types.TableStatusUpdating) {
		r.problem("wait until it is ACTIVE", "the table is %s", r.Status)
	}
	if r.Misfit != "" {
		r.problem("create a new table with zae-limiter table create", "the table does not fit: %s", r.Misfit)
	}
	for _, ix := range r.Indexes {
		if ix.Status != string(types.IndexStatusActive) {
			r.problem("wait until it is ACTIVE", "the index %s is %s", ix.Name, ix.Status)
		}
	}
	if r.Version == nil {
		r.warn("zae-limiter table create adds one", "the table has no version record, so no client can tell whether it is too old")
		return
	}
	if err := r.Version.Check(); err != nil {
		r.problem("", "%v", err)
	}
	if r.Version.LambdaIsOlder() {
		r.warn("deploy the aggregator again", "the aggregator has version %s, and this client is %s", r.Version.Lambda, dynamo.ClientVersion)
	}
}

// checkUpkeep checks what a table needs in the long run.
func (r *Report) checkUpkeep() {
	switch {
	case r.Expiry == Unknown:
	case r.Expiry != string(types.TimeToLiveStatusEnabled) && r.Expiry != string(types.TimeToLiveStatusEnabling):
		r.warn("zae-limiter table create enables it", "expired items stay: time to live is %s", r.Expiry)
	case r.ExpiryBy != schema.TTL:
		r.problem("disable time to live, and enable it for "+schema.TTL, "items expire by the attribute %s instead of %s", r.ExpiryBy, schema.TTL)
	}
	switch {
	case r.StreamView == "":
		r.warn("zae-limiter table enable-stream", "the table has no stream: no aggregator can work, and usage lacks the last hours of buckets that expire")
	case r.StreamView != string(streamView):
		r.warn("disable the stream, then zae-limiter table enable-stream", "the stream shows %s, and an aggregator needs %s", r.StreamView, streamView)
	}
	if r.Recovery.Status == string(types.PointInTimeRecoveryStatusDisabled) {
		r.warn("enable point-in-time recovery", "the table cannot be restored to an earlier time")
	}
	for _, ix := range r.Indexes {
		if ix.Name == schema.GSI2 && ix.Projection == string(types.ProjectionTypeAll) {
			r.warn("", "the index %s projects %s: each acquire costs a second write unit", ix.Name, ix.Projection)
		}
	}
}

// checkNamespace finds the ID of the namespace. A namespace that cannot be read has none.
func (t *Table) checkNamespace(ctx context.Context, r *Report, name string) (id string, err error) {
	namespaces, err := NewNamespaces(dynamo.Options{API: t.api, Table: t.o.Table, Now: t.o.Now})
	if err != nil {
		return "", err
	}
	n, err := namespaces.Get(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		r.problem("zae-limiter namespace register "+name, "the namespace %q does not exist", name)
	case err != nil:
		return "", err
	default:
		return n.ID, nil
	}
	return "none", nil
}

// checkPeer looks for the aggregator of the Python package. Without permission to read usage, it
// finds nothing.
func (t *Table) checkPeer(ctx context.Context, r *Report, namespace string) {
	resources, err := usage.New(t.conn, namespace, -1).PeerCounts(ctx)
	if err != nil && !errors.Is(err, store.ErrAccessDenied) {
		r.warn("", "the search for a second aggregator failed: %v", err)
	}
	for _, resource := range resources {
		r.warn("switch that aggregator off", "usage of %s counts twice: the aggregator of the Python package counts what buckets keep, too", resource)
	}
}

// judge turns refused permissions into findings.
func (r *Report) judge() {
	for i := range r.Permissions {
		p := &r.Permissions[i]
		switch {
		case p.Err == nil:
		case p.Denied() && p.Use == UseApplication:
			r.problem("allow it in the policy of these credentials", "%s on the %s is refused", p.Action, p.Resource)
		case errors.Is(p.Err, errNotTried):
		case p.Denied() && p.Use == UseAggregation:
			r.warn("allow it for aggregate and redrive", "%s on the %s is refused", p.Action, p.Resource)
		case p.Denied():
			r.warn("allow it for administrators", "%s on the %s is refused", p.Action, p.Resource)
		case p.Use == UseAggregation:
			r.warn("", "the trial of %s on the %s failed: %v", p.Action, p.Resource, p.Err)
		case r.Misfit == "":
			r.problem("", "the trial of %s on the %s failed: %v", p.Action, p.Resource, p.Err)
		}
	}
}
