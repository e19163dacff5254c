package table

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/streams"
)

// Update is an UpdateTable in progress. Checking and applying are apart. What the request alone
// decides is checked before the table is looked for, as on AWS. What depends on the schema is
// checked by Apply, on the clone that it changes: an error then leaves the table as it was.
type Update struct {
	*dynamodb.UpdateTableInput

	Table *Table
	// now is the instant of the request: of the switch to on-demand, and of a new stream.
	now     time.Time
	streams stream.Options
	// Set by check from the request: at most one of create and drop.
	//
	// defined are the request's attribute definitions. AWS ignores those that are no key of the
	// index to be created.
	defined *definitions
	// Create and drop are nil if the request has no such action. Apply asks whether the table has
	// the index.
	Create *types.CreateGlobalSecondaryIndexAction
	drop   *types.DeleteGlobalSecondaryIndexAction
	// change has the actions on throughput, each on another index.
	change []*types.UpdateGlobalSecondaryIndexAction
	// Counters belong to the index to be created. They are found before, because finding them needs
	// a lock that comes before the alteration's.
	Counters *Counters
	// Set by Apply.
	Added *Index
	// dropped is the deleted index as it was before. The answer shows it as DELETING, and it is
	// gone from the schema by then.
	dropped *types.GlobalSecondaryIndexDescription
}

// NewUpdate validates a request without the table. "At least one of … is required" comes before a
// missing table, as on AWS. DynamoDB Local looks for the table first.
func NewUpdate(in *dynamodb.UpdateTableInput, now time.Time, streams stream.Options) (*Update, error) {
	u := &Update{UpdateTableInput: in, now: now, streams: streams}
	return u, u.check()
}

// check validates the request without the table.
func (u *Update) check() (err error) {
	if err := u.refuseFeatures(); err != nil {
		return err
	}
	changes := u.ProvisionedThroughput != nil || u.BillingMode != "" || u.StreamSpecification != nil ||
		u.DeletionProtectionEnabled != nil || u.TableClass != "" || u.SSESpecification != nil || u.OnDemandThroughput != nil || u.WarmThroughput != nil
	switch {
	case !changes && len(u.GlobalSecondaryIndexUpdates) == 0:
		return api.Validation("At least one of ProvisionedThroughput, BillingMode, StreamSpecification, GlobalSecondaryIndexUpdates, " +
			"DeletionProtectionEnabled, TableClass, SSESpecification, OnDemandThroughput or WarmThroughput is required")
	case u.GlobalSecondaryIndexUpdates != nil && len(u.GlobalSecondaryIndexUpdates) == 0:
		return api.Invalid("List of GlobalSecondaryIndexUpdates is empty")
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

// refuseFeatures is like refuseTableFeatures: a refusal is better than a setting that does nothing.
func (u *Update) refuseFeatures() error {
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
			return api.Unsupported(f.name, "leave it out")
		}
	}
	return nil
}

// checkIndexUpdates sorts the actions on indexes. Creating and deleting count together: AWS allows
// one of them at a time, in a request and in a table.
func (u *Update) checkIndexUpdates() error {
	seen, online := map[string]bool{}, 0
	for i := range u.GlobalSecondaryIndexUpdates {
		a := &u.GlobalSecondaryIndexUpdates[i]
		var names []*string
		if a.Create != nil {
			u.Create, names = a.Create, append(names, a.Create.IndexName)
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
			return api.Invalid("One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, GlobalSecondaryIndexUpdate.Delete must not be null")
		case len(names) > 1:
			return api.Invalid("Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object")
		case names[0] == nil:
			return api.Missing("IndexName")
		case seen[*names[0]]:
			return api.Invalid("Only one global secondary index update per index is allowed simultaneously. Index: %s", *names[0])
		}
		seen[*names[0]] = true
	}
	if online > 1 {
		return oneOnline()
	}
	return nil
}

// checkTogether returns an error for changes that cannot be combined in one request. The texts name
// "table IOPS" as AWS does. DynamoDB Local makes changes together that AWS refuses.
func (u *Update) checkTogether() error {
	throughput := u.ProvisionedThroughput != nil || u.BillingMode == types.BillingModeProvisioned
	online := u.Create != nil || u.drop != nil
	stream := u.StreamSpecification != nil
	others := throughput || stream || u.BillingMode != "" || u.GlobalSecondaryIndexUpdates != nil
	switch {
	case u.TableClass != "" && (others || u.DeletionProtectionEnabled != nil):
		return api.Invalid("TableClass modification must be the only operation in the request")
	case u.DeletionProtectionEnabled != nil && others:
		return api.Invalid("DeletionProtection modification must be the only operation in the request")
	case throughput && online:
		return api.Invalid("You cannot create or delete index while updating table IOPS")
	case throughput && stream:
		return api.Invalid("You cannot modify stream status while updating table IOPS")
	case online && stream:
		return api.Invalid("You cannot create or delete index while changing stream status")
	case stream && u.StreamSpecification.StreamEnabled == nil:
		return api.Missing("StreamSpecification.StreamEnabled")
	}
	return nil
}

// Apply changes a clone of the schema in force.
//
// The billing mode comes first: the steps after it ask whether the table is provisioned now.
//
// It runs before the shards are locked. The description of a dropped index counts items, and would
// wait for the locks of its own alteration.
func (u *Update) Apply(s *Schema) error {
	for _, step := range []func(*Schema) error{u.applyBilling, u.applySettings, u.applyIndexThroughput, u.applyDrop, u.applyCreate, u.applyStream} {
		if err := step(s); err != nil {
			return err
		}
	}
	if u.DeletionProtectionEnabled != nil {
		s.Protected = *u.DeletionProtectionEnabled
	}
	if u.TableClass != "" {
		s.class = u.TableClass
	}
	return nil
}

// A switch to on-demand clears all units, those of the indexes too. DynamoDB Local leaves the
// indexes theirs. Setting the mode that the table has is no error; units that are in force are one,
// as on AWS.
func (u *Update) applyBilling(s *Schema) error {
	switch u.BillingMode {
	case "":
	case types.BillingModePayPerRequest:
		if s.Billing != types.BillingModePayPerRequest {
			s.Billing, s.onDemandSince, s.Capacity = types.BillingModePayPerRequest, u.now, types.ProvisionedThroughput{}
			clear(s.IndexCapacity)
		}
	case types.BillingModeProvisioned:
		if s.Billing == types.BillingModePayPerRequest {
			if err := u.checkProvisions(s); err != nil {
				return err
			}
		}
		s.Billing = types.BillingModeProvisioned
	default:
		return api.OneOf("billingMode", u.BillingMode, types.BillingModeProvisioned, types.BillingModePayPerRequest)
	}
	if u.ProvisionedThroughput == nil {
		return nil
	}
	next, err := s.throughput(u.ProvisionedThroughput, "table "+u.Table.Name)
	if err != nil {
		return err
	}
	if sameThroughput(s.Capacity, next) {
		return unchanged("table", next)
	}
	s.Capacity = next
	return nil
}

// checkProvisions checks that an on-demand table gets throughput for itself and all its global
// indexes. DynamoDB Local fails inside if an index has none. The recorded cases have AWS's error.
func (u *Update) checkProvisions(s *Schema) error {
	if u.ProvisionedThroughput == nil {
		return api.Invalid("ProvisionedThroughput must be specified when BillingMode is PROVISIONED")
	}
	var without []string
	for _, x := range s.Indexes {
		if !x.Local && !slices.ContainsFunc(u.change, func(a *types.UpdateGlobalSecondaryIndexAction) bool { return *a.IndexName == x.Name }) {
			without = append(without, x.Name)
		}
	}
	if len(without) > 0 {
		return api.Invalid("ProvisionedThroughput must be specified for index: %s", strings.Join(without, ","))
	}
	return nil
}

// Units of an index of an on-demand table are an error, unless only a maximum or a warm throughput
// is asked for.
func (u *Update) applyIndexThroughput(s *Schema) error {
	for _, a := range u.change {
		x, err := s.global(u.Table, *a.IndexName, "update")
		switch {
		case err != nil:
			return err
		}
		if err := s.setThroughput(x.Name, a.OnDemandThroughput, a.WarmThroughput); err != nil {
			return err
		}
		switch {
		case a.ProvisionedThroughput == nil && (a.OnDemandThroughput != nil || a.WarmThroughput != nil):
			continue
		case s.Billing == types.BillingModePayPerRequest:
			return api.Invalid("The only Updates for index: %s when TableThroughputMode is PAY_PER_REQUEST can be to OnDemandThroughput, WarmThroughput", x.Name)
		}
		next, err := s.throughput(a.ProvisionedThroughput, "index "+x.Name)
		if err != nil {
			return err
		}
		if sameThroughput(s.IndexCapacity[x.Name], next) {
			return unchanged("index "+x.Name, next)
		}
		s.IndexCapacity[x.Name] = next
	}
	return nil
}

// Only the units count: the SDK's struct has pointers.
//
// The request's numbers are at least 1 here, so 0 stands for units that are not set.
func sameThroughput(a, b types.ProvisionedThroughput) bool {
	return aws.ToInt64(a.ReadCapacityUnits) == aws.ToInt64(b.ReadCapacityUnits) &&
		aws.ToInt64(a.WriteCapacityUnits) == aws.ToInt64(b.WriteCapacityUnits)
}

// unchanged returns the error for a throughput that is already in force. Programs that set the
// units that are in force must expect this error, as on AWS.
func unchanged(of string, p types.ProvisionedThroughput) error {
	return api.Validationf("The provisioned throughput for the %s will not change. The requested value equals the current value: %d read and %d write capacity units",
		of, *p.ReadCapacityUnits, *p.WriteCapacityUnits)
}

// The index leaves the schema at once, so writes stop maintaining it. Readings that have found it
// finish on its entries. AWS deletes in the background; a caller that waits for the end finds it at
// once.
func (u *Update) applyDrop(s *Schema) error {
	if u.drop == nil {
		return nil
	}
	x, err := s.global(u.Table, *u.drop.IndexName, "delete")
	if err != nil {
		return err
	}
	if s.FillingBeside(x) {
		return oneOnline()
	}
	// The schema in force still has the index, so this is its last description.
	for _, d := range u.Table.Describe("").GlobalSecondaryIndexes {
		if *d.IndexName == x.Name {
			u.dropped = &d
		}
	}
	s.Indexes = slices.DeleteFunc(s.Indexes, func(y *Index) bool { return y == x })
	delete(s.IndexCapacity, x.Name)
	delete(s.settings, x.Name)
	s.kinds = definitionsOf(s.kinds).usedBy(u.Table, s)
	s.settle()
	return nil
}

// The index is in the schema before any item is in the index. From then on each write maintains it,
// and the backfill enters the older items (catalog.Backfill). The naive order, filling first, would
// miss the writes made meanwhile.
//
// Its limit of 20 has another error than in CreateTable, a LimitExceededException.
func (u *Update) applyCreate(s *Schema) error {
	if u.Create == nil {
		return nil
	}
	globals := 0
	for _, x := range s.Indexes {
		if !x.Local {
			globals++
		}
	}
	switch {
	case s.FillingBeside(nil):
		return oneOnline()
	case globals == maxGlobal:
		return limitExceeded("Number of global secondary indexes exceeds per-table limit of %d", maxGlobal)
	case len(u.defined.list) == 0:
		return api.Invalid("AttributeDefinitions is not specified for index: %s", *u.Create.IndexName)
	}
	// Joined first: the key of the new index may use a definition that the table has.
	d := definitionsOf(s.kinds)
	d.join(u.defined)
	x, err := s.addGlobal(u.Table, &types.GlobalSecondaryIndex{
		IndexName: u.Create.IndexName, KeySchema: u.Create.KeySchema, Projection: u.Create.Projection,
		ProvisionedThroughput: u.Create.ProvisionedThroughput, OnDemandThroughput: u.Create.OnDemandThroughput, WarmThroughput: u.Create.WarmThroughput,
	}, d)
	if err != nil {
		return err
	}
	if err := u.defined.agree(&x.Key); err != nil {
		return err
	}
	s.kinds = d.usedBy(u.Table, s)
	x.Counters = u.Counters
	x.Filling.Store(true)
	s.settle()
	u.Added = x
	return nil
}

// A disabled stream stays in the registry for a day, so readers can finish. A new one has another
// label, and readers must find it anew.
func (u *Update) applyStream(s *Schema) (err error) {
	spec := u.StreamSpecification
	switch {
	case spec == nil:
		return nil
	case !*spec.StreamEnabled && spec.StreamViewType != "":
		return api.Invalid("If stream is being disabled, then StreamViewType must not be specified")
	case !*spec.StreamEnabled && s.Stream == nil:
		return api.Validationf("Table has no stream to disable: TableName: %s", u.Table.Name)
	case !*spec.StreamEnabled:
		s.Stream = nil
		return nil
	case s.Stream != nil:
		return api.Validationf("Table already has an enabled stream: TableName: %s", u.Table.Name)
	}
	if s.Stream, err = streams.New(u.Table.Name, &u.Table.Key, spec, u.now, u.streams); err != nil {
		return err
	}
	s.Latest = s.Stream
	return nil
}

// Describe returns the table as the answer shows it: already changed, and marked as in progress. A
// program that waits for ACTIVE thus takes its waiting path here, too.
func (u *Update) Describe() *types.TableDescription {
	status := types.TableStatusUpdating
	if u.ProvisionedThroughput == nil && u.BillingMode == "" && u.StreamSpecification == nil && u.TableClass == "" && u.Create == nil && u.drop == nil {
		status = types.TableStatusActive
	}
	d := u.Table.Describe(status)
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
		case u.Added != nil && *g.IndexName == u.Added.Name:
			g.IndexStatus, g.Backfilling = types.IndexStatusCreating, aws.Bool(false)
		case slices.ContainsFunc(u.change, func(a *types.UpdateGlobalSecondaryIndexAction) bool { return *a.IndexName == *g.IndexName }):
			g.IndexStatus = types.IndexStatusUpdating
		}
	}
	return d
}

// oneOnline returns the error for the creation or deletion of a second index at the same time. AWS
// calls an index "online" that is created or deleted while the table is in use.
func oneOnline() error {
	return limitExceeded("Only 1 online index can be created or deleted simultaneously per table")
}

// The limits of what a table may have in progress are a LimitExceededException. The limits of one
// request are a ValidationException.
func limitExceeded(format string, args ...any) error {
	return &types.LimitExceededException{Message: aws.String("Subscriber limit exceeded: " + fmt.Sprintf(format, args...))}
}
