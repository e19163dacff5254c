package dynamolite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
)

// UpdateTable changes a table: its billing and throughput, its protection against deletion, its
// class, its stream, and its global secondary indexes. It can create or delete one index at a
// time. Everything takes effect at once, even if the answer says UPDATING. The exception is a new
// index: it is CREATING, and cannot be read, until it has the items that existed before.
//
// Errors:
//   - *types.LimitExceededException for the creation or deletion of a second index, in the same
//     request or while one is CREATING, and for a 21st index;
//   - *types.ResourceNotFoundException for a table or an index that does not exist;
//   - a ValidationException for a change that has no effect, where AWS refuses it: the same
//     throughput, a stream that is already on or off.
func (db *DB) UpdateTable(ctx context.Context, in *dynamodb.UpdateTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error) {
	return run(ctx, db, opUpdateTable, in, (*DB).updateTable)
}

func (db *DB) updateTable(c *call, in *dynamodb.UpdateTableInput) (*dynamodb.UpdateTableOutput, error) {
	u, err := db.changeTable(c, in)
	if err != nil {
		return nil, err
	}
	if u.added != nil {
		db.goes(func() { db.fill(&backfill{table: u.table, index: u.added}) })
	}
	return &dynamodb.UpdateTableOutput{TableDescription: u.describe()}, nil
}

// changeTable puts an update into effect, except for the filling of a new index.
func (db *DB) changeTable(c *call, in *dynamodb.UpdateTableInput) (*tableUpdate, error) {
	u := &tableUpdate{UpdateTableInput: in, now: db.now(), streams: db.streams.options}
	err := u.check()
	if err != nil {
		return nil, err
	}
	if u.table, err = db.table(c, in.TableName); err != nil {
		return nil, err
	}
	if u.create != nil {
		u.counters = db.indexCounters(u.table, *u.create.IndexName)
	}
	if err := db.alter(c, u.table, u.apply); err != nil {
		return nil, err
	}
	return u, nil
}

// indexCounters returns the counters of an index that a table will have.
func (db *DB) indexCounters(t *table, index string) *counters {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.ledgers[t.name].index(index)
}

// tableUpdate is an UpdateTable in progress.
type tableUpdate struct {
	*dynamodb.UpdateTableInput

	table   *table
	now     time.Time
	streams stream.Options
	// Set by check from the request: at most one of create and drop.
	defined *definitions // ignored, as on AWS, for attributes that are no key of the index to be created
	create  *types.CreateGlobalSecondaryIndexAction
	drop    *types.DeleteGlobalSecondaryIndexAction
	change  []*types.UpdateGlobalSecondaryIndexAction
	// counters belong to the index to be created.
	counters *counters
	// Set by apply.
	added   *index
	dropped *types.GlobalSecondaryIndexDescription // as it was before
}

// check validates the request without the table.
func (u *tableUpdate) check() (err error) {
	if err := u.refuseFeatures(); err != nil {
		return err
	}
	changes := u.ProvisionedThroughput != nil || u.BillingMode != "" || u.StreamSpecification != nil ||
		u.DeletionProtectionEnabled != nil || u.TableClass != "" || u.SSESpecification != nil || u.OnDemandThroughput != nil || u.WarmThroughput != nil
	switch {
	case !changes && len(u.GlobalSecondaryIndexUpdates) == 0:
		return validation("At least one of ProvisionedThroughput, BillingMode, StreamSpecification, GlobalSecondaryIndexUpdates, " +
			"DeletionProtectionEnabled, TableClass, SSESpecification, OnDemandThroughput or WarmThroughput is required")
	case u.GlobalSecondaryIndexUpdates != nil && len(u.GlobalSecondaryIndexUpdates) == 0:
		return invalid("List of GlobalSecondaryIndexUpdates is empty")
	}
	if err := checkTableClass(u.TableClass); err != nil {
		return err
	}
	if u.defined, err = newDefinitions(u.AttributeDefinitions); err != nil {
		return err
	}
	if err := u.checkIndexUpdates(); err != nil {
		return err
	}
	return u.checkTogether()
}

func (u *tableUpdate) refuseFeatures() error {
	for _, f := range []struct {
		asked bool
		name  string
	}{
		{len(u.ReplicaUpdates) > 0, "ReplicaUpdates"},
		{len(u.GlobalTableWitnessUpdates) > 0, "GlobalTableWitnessUpdates"},
		{u.GlobalTableSettingsReplicationMode != "", "GlobalTableSettingsReplicationMode"},
		{u.MultiRegionConsistency != "", "MultiRegionConsistency"},
		{u.DisassociationProtectionEnabled != nil, "DisassociationProtectionEnabled"},
		{len(u.VectorIndexUpdates) > 0, "VectorIndexUpdates"},
	} {
		if f.asked {
			return unsupported(f.name, "leave it out")
		}
	}
	return nil
}

// checkIndexUpdates sorts the actions on indexes.
func (u *tableUpdate) checkIndexUpdates() error {
	seen, online := map[string]bool{}, 0
	for i := range u.GlobalSecondaryIndexUpdates {
		a := &u.GlobalSecondaryIndexUpdates[i]
		var names []*string
		if a.Create != nil {
			u.create, names = a.Create, append(names, a.Create.IndexName)
			online++
		}
		if a.Delete != nil {
			u.drop, names = a.Delete, append(names, a.Delete.IndexName)
			online++
		}
		if a.Update != nil {
			u.change, names = append(u.change, a.Update), append(names, a.Update.IndexName)
		}
		switch {
		case len(names) == 0:
			return invalid("One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, GlobalSecondaryIndexUpdate.Delete must not be null")
		case len(names) > 1:
			return invalid("Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object")
		case names[0] == nil:
			return missing("IndexName")
		case seen[*names[0]]:
			return invalid("Only one global secondary index update per index is allowed simultaneously. Index: %s", *names[0])
		}
		seen[*names[0]] = true
	}
	if online > 1 {
		return oneOnline()
	}
	return nil
}

// checkTogether returns an error for changes that cannot be combined in one request.
func (u *tableUpdate) checkTogether() error {
	throughput := u.ProvisionedThroughput != nil || u.BillingMode == types.BillingModeProvisioned
	online := u.create != nil || u.drop != nil
	stream := u.StreamSpecification != nil
	others := throughput || stream || u.BillingMode != "" || u.GlobalSecondaryIndexUpdates != nil
	switch {
	case u.TableClass != "" && (others || u.DeletionProtectionEnabled != nil):
		return invalid("TableClass modification must be the only operation in the request")
	case u.DeletionProtectionEnabled != nil && others:
		return invalid("DeletionProtection modification must be the only operation in the request")
	case throughput && online:
		return invalid("You cannot create or delete index while updating table IOPS")
	case throughput && stream:
		return invalid("You cannot modify stream status while updating table IOPS")
	case online && stream:
		return invalid("You cannot create or delete index while changing stream status")
	case stream && u.StreamSpecification.StreamEnabled == nil:
		return missing("StreamSpecification.StreamEnabled")
	}
	return nil
}

// apply changes a clone of the schema in force.
func (u *tableUpdate) apply(s *schema) error {
	for _, step := range []func(*schema) error{u.applyBilling, u.applySettings, u.applyIndexThroughput, u.applyDrop, u.applyCreate, u.applyStream} {
		if err := step(s); err != nil {
			return err
		}
	}
	if u.DeletionProtectionEnabled != nil {
		s.protected = *u.DeletionProtectionEnabled
	}
	if u.TableClass != "" {
		s.class = u.TableClass
	}
	return nil
}

func (u *tableUpdate) applyBilling(s *schema) error {
	switch u.BillingMode {
	case "":
	case types.BillingModePayPerRequest:
		if s.billing != types.BillingModePayPerRequest {
			s.billing, s.onDemandSince, s.capacity = types.BillingModePayPerRequest, u.now, types.ProvisionedThroughput{}
			clear(s.indexCapacity)
		}
	case types.BillingModeProvisioned:
		if s.billing == types.BillingModePayPerRequest {
			if err := u.checkProvisions(s); err != nil {
				return err
			}
		}
		s.billing = types.BillingModeProvisioned
	default:
		return badEnum("billingMode", string(u.BillingMode), "PROVISIONED, PAY_PER_REQUEST")
	}
	if u.ProvisionedThroughput == nil {
		return nil
	}
	next, err := s.throughput(u.ProvisionedThroughput, "table "+u.table.name)
	if err != nil {
		return err
	}
	if sameThroughput(s.capacity, next) {
		return unchanged("table", next)
	}
	s.capacity = next
	return nil
}

// checkProvisions checks that an on-demand table gets throughput for itself and all its global
// indexes.
func (u *tableUpdate) checkProvisions(s *schema) error {
	if u.ProvisionedThroughput == nil {
		return invalid("ProvisionedThroughput must be specified when BillingMode is PROVISIONED")
	}
	var without []string
	for _, x := range s.indexes {
		if !x.local && !slices.ContainsFunc(u.change, func(a *types.UpdateGlobalSecondaryIndexAction) bool { return *a.IndexName == x.name }) {
			without = append(without, x.name)
		}
	}
	if len(without) > 0 {
		return invalid("ProvisionedThroughput must be specified for index: %s", strings.Join(without, ","))
	}
	return nil
}

func (u *tableUpdate) applyIndexThroughput(s *schema) error {
	for _, a := range u.change {
		x, err := s.global(u.table, *a.IndexName, "update")
		switch {
		case err != nil:
			return err
		}
		if err := s.setThroughput(x.name, a.OnDemandThroughput, a.WarmThroughput); err != nil {
			return err
		}
		switch {
		case a.ProvisionedThroughput == nil && (a.OnDemandThroughput != nil || a.WarmThroughput != nil):
			continue
		case s.billing == types.BillingModePayPerRequest:
			return invalid("The only Updates for index: %s when TableThroughputMode is PAY_PER_REQUEST can be to OnDemandThroughput, WarmThroughput", x.name)
		}
		next, err := s.throughput(a.ProvisionedThroughput, "index "+x.name)
		if err != nil {
			return err
		}
		if sameThroughput(s.indexCapacity[x.name], next) {
			return unchanged("index "+x.name, next)
		}
		s.indexCapacity[x.name] = next
	}
	return nil
}

func sameThroughput(a, b types.ProvisionedThroughput) bool {
	return aws.ToInt64(a.ReadCapacityUnits) == aws.ToInt64(b.ReadCapacityUnits) &&
		aws.ToInt64(a.WriteCapacityUnits) == aws.ToInt64(b.WriteCapacityUnits)
}

// unchanged returns the error for a throughput that is already in force.
func unchanged(of string, p types.ProvisionedThroughput) error {
	return validationf("The provisioned throughput for the %s will not change. The requested value equals the current value: %d read and %d write capacity units",
		of, *p.ReadCapacityUnits, *p.WriteCapacityUnits)
}

func (u *tableUpdate) applyDrop(s *schema) error {
	if u.drop == nil {
		return nil
	}
	x, err := s.global(u.table, *u.drop.IndexName, "delete")
	if err != nil {
		return err
	}
	if s.fillingBeside(x) {
		return oneOnline()
	}
	for _, d := range u.table.describe("").GlobalSecondaryIndexes {
		if *d.IndexName == x.name {
			u.dropped = &d
		}
	}
	s.indexes = slices.DeleteFunc(s.indexes, func(y *index) bool { return y == x })
	delete(s.indexCapacity, x.name)
	delete(s.settings, x.name)
	s.kinds = definitionsOf(s.kinds).usedBy(u.table, s)
	s.settle()
	return nil
}

func (u *tableUpdate) applyCreate(s *schema) error {
	if u.create == nil {
		return nil
	}
	globals := 0
	for _, x := range s.indexes {
		if !x.local {
			globals++
		}
	}
	switch {
	case s.fillingBeside(nil):
		return oneOnline()
	case globals == maxGlobal:
		return limitExceeded("Number of global secondary indexes exceeds per-table limit of %d", maxGlobal)
	case len(u.defined.list) == 0:
		return invalid("AttributeDefinitions is not specified for index: %s", *u.create.IndexName)
	}
	d := definitionsOf(s.kinds)
	d.join(u.defined)
	x, err := s.addGlobal(u.table, &types.GlobalSecondaryIndex{
		IndexName: u.create.IndexName, KeySchema: u.create.KeySchema, Projection: u.create.Projection,
		ProvisionedThroughput: u.create.ProvisionedThroughput, OnDemandThroughput: u.create.OnDemandThroughput, WarmThroughput: u.create.WarmThroughput,
	}, d)
	if err != nil {
		return err
	}
	if err := u.defined.agree(&x.key); err != nil {
		return err
	}
	s.kinds = d.usedBy(u.table, s)
	x.counters = u.counters
	x.filling.Store(true)
	s.settle()
	u.added = x
	return nil
}

func (u *tableUpdate) applyStream(s *schema) (err error) {
	spec := u.StreamSpecification
	switch {
	case spec == nil:
		return nil
	case !*spec.StreamEnabled && spec.StreamViewType != "":
		return invalid("If stream is being disabled, then StreamViewType must not be specified")
	case !*spec.StreamEnabled && s.stream == nil:
		return validationf("Table has no stream to disable: TableName: %s", u.table.name)
	case !*spec.StreamEnabled:
		s.stream = nil
		return nil
	case s.stream != nil:
		return validationf("Table already has an enabled stream: TableName: %s", u.table.name)
	}
	if s.stream, err = u.table.newStream(spec, u.now, u.streams); err != nil {
		return err
	}
	s.latest = s.stream
	return nil
}

// describe returns the table as the answer shows it: already changed, and marked as in progress.
func (u *tableUpdate) describe() *types.TableDescription {
	status := types.TableStatusUpdating
	if u.ProvisionedThroughput == nil && u.BillingMode == "" && u.StreamSpecification == nil && u.TableClass == "" && u.create == nil && u.drop == nil {
		status = types.TableStatusActive
	}
	d := u.table.describe(status)
	if u.dropped != nil {
		u.dropped.IndexStatus, u.dropped.Backfilling = types.IndexStatusDeleting, nil
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, *u.dropped)
		slices.SortFunc(d.GlobalSecondaryIndexes, func(a, b types.GlobalSecondaryIndexDescription) int {
			return strings.Compare(*a.IndexName, *b.IndexName)
		})
	}
	for i := range d.GlobalSecondaryIndexes {
		g := &d.GlobalSecondaryIndexes[i]
		switch {
		case u.added != nil && *g.IndexName == u.added.name:
			g.IndexStatus, g.Backfilling = types.IndexStatusCreating, aws.Bool(false)
		case slices.ContainsFunc(u.change, func(a *types.UpdateGlobalSecondaryIndexAction) bool { return *a.IndexName == *g.IndexName }):
			g.IndexStatus = types.IndexStatusUpdating
		}
	}
	return d
}

// oneOnline returns the error for the creation or deletion of a second index at the same time.
func oneOnline() error {
	return limitExceeded("Only 1 online index can be created or deleted simultaneously per table")
}

func limitExceeded(format string, args ...any) error {
	return &types.LimitExceededException{Message: aws.String("Subscriber limit exceeded: " + fmt.Sprintf(format, args...))}
}
