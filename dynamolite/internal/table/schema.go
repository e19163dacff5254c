package table

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/streams"
)

// The limits of a table and its indexes ("Quotas in Amazon DynamoDB"). AWS raises some of them on
// request; these are the defaults.
const (
	maxGlobal    = 20  // global secondary indexes of a table
	maxLocal     = 5   // local secondary indexes of a table
	maxIncluded  = 20  // attributes that one index projects by name
	maxProjected = 100 // attributes that the indexes of a table project by name, together
	MaxAttribute = 255 // bytes of the name of a key attribute or of a projected one
)

// Schema holds all parts of a table that can be altered while it exists. It is never changed in
// place: an alteration clones it, changes the clone and puts the clone into effect.
//
// The naive design changes the fields under a lock. A write reads them several times. It could then
// compute its changes for one list of indexes and apply them to another. With an immutable schema
// it has one pointer for the whole write.
//
// Only the maps and slices that an alteration may change are cloned. Indexes and streams are shared
// by the schemas before and after, because they hold data.
type Schema struct {
	// kinds are the attribute definitions, by name. Each belongs to a key of the table or of an
	// index.
	kinds         []types.AttributeDefinition
	Billing       types.BillingMode
	onDemandSince time.Time // when it last became on-demand; zero: never
	// Capacity is that of a provisioned table; otherwise it is zero.
	Capacity types.ProvisionedThroughput
	// Protected tells that the table must not be deleted. Only the deletion asks.
	Protected bool
	class     types.TableClass // "" and STANDARD mean the same
	// Tags are replaced and never changed in place, like all maps here: answers are made from a
	// schema in force.
	Tags map[string]string
	// encryption is the ARN of a key; "": that of the service. It is only described.
	encryption string
	settings   map[string]throughputSettings // by index, "" is the table
	// Expiries are nil if items have no time to live. An alteration of something else keeps them,
	// so the sweep forgets nothing.
	Expiries *expiries
	// Stream is nil if none is enabled. Writes find it under the lock of their shard, so each write
	// is in the stream of its schema.
	Stream *streams.Stream
	// Latest is the stream that was enabled last; nil: none ever. The description continues to
	// report it after it is disabled, as AWS does.
	Latest *streams.Stream

	Indexes []*Index // by name
	// IndexCapacity is that of a provisioned table, by index. It has no entry with units if the
	// table is on demand.
	IndexCapacity map[string]types.ProvisionedThroughput
	// The fields below are computed by settle. They let a write find out whether it concerns an index
	// without asking each: a table may have 25, and most updates concern none.
	indexKeys []indexKey
	keysIndex map[string]bool // attributes that are a key of some index
	projected map[string]bool // attributes that some index projects by name
	mirrored  bool            // some index projects everything
}

// Clone returns a schema to be changed and put into effect. The sets that settle computes are
// shared until settle replaces them.
func (s *Schema) Clone() *Schema {
	c := *s
	c.kinds = slices.Clone(s.kinds)
	c.Tags = maps.Clone(s.Tags)
	c.settings = maps.Clone(s.settings)
	c.Indexes = slices.Clone(s.Indexes)
	c.IndexCapacity = maps.Clone(s.IndexCapacity)
	return &c
}

// Index finds an index by name. A search is enough: a table has at most 25 indexes.
func (s *Schema) Index(name string) (*Index, error) {
	for _, x := range s.Indexes {
		if x.Name == name {
			return x, nil
		}
	}
	return nil, api.Validationf("The table does not have the specified index: %s", name)
}

// HasLocal reports whether the table has local secondary indexes, and therefore item collections.
func (s *Schema) HasLocal() bool {
	return slices.ContainsFunc(s.Indexes, func(x *Index) bool { return x.Local })
}

// global finds the global secondary index that a request wants to act on. A missing index and a
// local one have different errors. AWS was measured for the former by the ACK project
// (deviations_table_test.go of package differential).
func (s *Schema) global(t *Table, name, do string) (*Index, error) {
	x, err := s.Index(name)
	switch {
	case err != nil:
		return nil, &types.ResourceNotFoundException{
			Message: aws.String("Requested resource not found: Index " + name + " for table " + t.Name),
		}
	case x.Local:
		return nil, api.Validationf("Cannot %s an index that is not a GlobalSecondaryIndex: %s", do, name)
	}
	return x, nil
}

// FillingBeside reports whether an index other than x is still being filled. AWS makes or deletes
// one index of a table at a time.
func (s *Schema) FillingBeside(x *Index) bool {
	return slices.ContainsFunc(s.Indexes, func(y *Index) bool { return y != x && y.Filling.Load() })
}

// Unindexed reports whether writes of these attributes cannot concern any index. Nil stands for any
// attribute. An index that projects everything has a copy of each, so every write concerns it.
func (s *Schema) Unindexed(touched []string) bool {
	if s.mirrored || touched == nil {
		return len(s.Indexes) == 0
	}
	for _, name := range touched {
		if s.projected[name] {
			return false
		}
	}
	return true
}

// New makes a table from a request, or returns what is wrong with the request.
//
// It decides alone and touches nothing: the catalog makes the table known, under its own lock. The
// order of the checks decides which of several faults is reported.
func New(in *dynamodb.CreateTableInput, now time.Time, o stream.Options) (*Table, error) {
	if in.TableName == nil {
		return nil, api.Missing("TableName")
	}
	name := api.PlainTableName(*in.TableName)
	if err := api.CheckTableName(name); err != nil {
		return nil, err
	}
	if err := refuseTableFeatures(in); err != nil {
		return nil, err
	}
	d, err := newDefinitions(in.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	t := &Table{Name: name, Created: now}
	s := &Schema{
		Billing:   in.BillingMode,
		Protected: aws.ToBool(in.DeletionProtectionEnabled),
		class:     in.TableClass,
	}
	if s.Billing == types.BillingModePayPerRequest {
		s.onDemandSince = now
	}
	if t.Key, err = d.keySchema(in.KeySchema); err != nil {
		return nil, err
	}
	if s.Capacity, err = s.throughput(in.ProvisionedThroughput, "table "+t.Name); err != nil {
		return nil, err
	}
	if err := s.encrypt(in.SSESpecification); err != nil {
		return nil, err
	}
	if err := s.setThroughput("", in.OnDemandThroughput, in.WarmThroughput); err != nil {
		return nil, err
	}
	if err := s.addIndexes(t, in, d); err != nil {
		return nil, err
	}
	if err := d.allUsed(); err != nil {
		return nil, err
	}
	s.kinds = d.sorted()
	if s.Tags, err = NewTags(in.Tags); err != nil {
		return nil, err
	}
	if s.Stream, err = streams.New(t.Name, &t.Key, in.StreamSpecification, now, o); err != nil {
		return nil, err
	}
	s.Latest = s.Stream
	t.Current.Store(s)
	return t, nil
}

// refuseTableFeatures returns an error for the first requested feature that the engine lacks.
//
// An ignored feature would be worse than a refused one: a program would believe that it has a
// policy, or a replica.
func refuseTableFeatures(in *dynamodb.CreateTableInput) error {
	for _, f := range []struct {
		asked bool
		name  string
	}{
		{in.ResourcePolicy != nil, "ResourcePolicy"},
		{in.GlobalTableSourceArn != nil, "GlobalTableSourceArn"},
		{in.GlobalTableSettingsReplicationMode != "", "GlobalTableSettingsReplicationMode"},
		{len(in.VectorIndexes) > 0, "VectorIndexes"},
	} {
		if f.asked {
			return api.Unsupported(f.name, "leave it out")
		}
	}
	return checkTableClass(in.TableClass)
}

func checkTableClass(class types.TableClass) error {
	return api.OneOfOrNone("tableClass", class, types.TableClassStandard, types.TableClassStandardInfrequentAccess)
}

// throughput checks provisioned capacity against the billing mode. Without a billing mode a table
// is provisioned, as on AWS. DynamoDB Local ignores units of an on-demand table, and the recorded
// cases follow AWS.
func (s *Schema) throughput(p *types.ProvisionedThroughput, of string) (types.ProvisionedThroughput, error) {
	switch s.Billing {
	case types.BillingModePayPerRequest:
		if p != nil {
			return types.ProvisionedThroughput{}, api.Invalid("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for %s when BillingMode is PAY_PER_REQUEST", of)
		}
		return types.ProvisionedThroughput{}, nil
	case "", types.BillingModeProvisioned:
		if p == nil || p.ReadCapacityUnits == nil || p.WriteCapacityUnits == nil {
			return types.ProvisionedThroughput{}, api.Invalid("ReadCapacityUnits and WriteCapacityUnits must both be specified for %s when BillingMode is PROVISIONED", of)
		}
		if *p.ReadCapacityUnits < 1 || *p.WriteCapacityUnits < 1 {
			return types.ProvisionedThroughput{}, api.Invalid("ReadCapacityUnits and WriteCapacityUnits of %s must be at least 1", of)
		}
		return types.ProvisionedThroughput{
			ReadCapacityUnits: aws.Int64(*p.ReadCapacityUnits), WriteCapacityUnits: aws.Int64(*p.WriteCapacityUnits),
		}, nil
	default:
		return types.ProvisionedThroughput{}, api.OneOf("billingMode", s.Billing, types.BillingModeProvisioned, types.BillingModePayPerRequest)
	}
}

// addIndexes adds the indexes of a new table. An empty list is an error and a missing one is none,
// as on AWS. DynamoDB Local takes an empty list of local indexes for none.
func (s *Schema) addIndexes(t *Table, in *dynamodb.CreateTableInput, d *definitions) error {
	switch {
	case in.GlobalSecondaryIndexes != nil && len(in.GlobalSecondaryIndexes) == 0:
		return api.Invalid("List of GlobalSecondaryIndexes is empty")
	case in.LocalSecondaryIndexes != nil && len(in.LocalSecondaryIndexes) == 0:
		return api.Invalid("List of LocalSecondaryIndexes is empty")
	}
	s.IndexCapacity = map[string]types.ProvisionedThroughput{}
	for i := range in.LocalSecondaryIndexes {
		if err := s.addLocal(t, &in.LocalSecondaryIndexes[i], d); err != nil {
			return err
		}
	}
	for i := range in.GlobalSecondaryIndexes {
		if _, err := s.addGlobal(t, &in.GlobalSecondaryIndexes[i], d); err != nil {
			return err
		}
	}
	s.settle()
	return nil
}

// addGlobal adds a global secondary index. The caller calls settle afterwards.
func (s *Schema) addGlobal(t *Table, in *types.GlobalSecondaryIndex, d *definitions) (*Index, error) {
	x, err := newIndex(t, in.IndexName, in.KeySchema, in.Projection, d)
	if err != nil {
		return nil, err
	}
	capacity, err := s.throughput(in.ProvisionedThroughput, "index "+x.Name)
	if err != nil {
		return nil, err
	}
	s.IndexCapacity[x.Name] = capacity
	if err := s.setThroughput(x.Name, in.OnDemandThroughput, in.WarmThroughput); err != nil {
		return nil, err
	}
	return x, s.add(x)
}

// addLocal adds a local secondary index: the table's partition key with another sort key. Only
// CreateTable makes one, as on AWS: an item collection exists from the beginning or never.
func (s *Schema) addLocal(t *Table, in *types.LocalSecondaryIndex, d *definitions) error {
	x, err := newIndex(t, in.IndexName, in.KeySchema, in.Projection, d)
	switch {
	case err != nil:
		return err
	case t.Key.Rng.Name == "":
		return api.Invalid("Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex")
	case x.Key.Rng.Name == "":
		return api.Invalid("Index KeySchema does not have a range key for index: %s", x.Name)
	case x.Key.Hash.Name != t.Key.Hash.Name:
		return api.Invalid("Index KeySchema does not have the same leading hash key as table KeySchema for index: %s. index hash key: %s, table hash key: %s",
			x.Name, x.Key.Hash.Name, t.Key.Hash.Name)
	}
	x.Local = true
	return s.add(x)
}

// add adds an index, within the limits of a table. The index is appended before the limits are
// checked. That is harmless: after an error the schema is thrown away.
func (s *Schema) add(x *Index) error {
	if _, err := s.Index(x.Name); err == nil {
		return api.Invalid("Duplicate index name: %s", x.Name)
	}
	s.Indexes = append(s.Indexes, x)
	local, named := 0, 0
	for _, x := range s.Indexes {
		named += len(x.Include)
		if x.Local {
			local++
		}
	}
	switch {
	case local > maxLocal:
		return api.Invalid("Number of LocalSecondaryIndexes exceeds per-table limit of %d", maxLocal)
	case len(s.Indexes)-local > maxGlobal:
		return api.Invalid("GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobal)
	case named > maxProjected:
		return api.Invalid("The indexes project more than %d attributes by name", maxProjected)
	}
	return nil
}

// settle sorts the indexes. It also computes the sets that let a write find out quickly whether it
// concerns an index. Whoever changes the indexes calls it before the schema comes into force. The
// table's own key attributes are no keys of an index in these sets: an item always has them, with
// the right type.
func (s *Schema) settle() {
	slices.SortFunc(s.Indexes, func(a, b *Index) int { return strings.Compare(a.Name, b.Name) })
	s.indexKeys, s.mirrored = nil, false
	s.keysIndex, s.projected = map[string]bool{}, map[string]bool{}
	for _, x := range s.Indexes {
		for _, a := range []storage.KeyAttribute{x.Key.Hash, x.Key.Rng} {
			if a.Name != "" && !x.table.Has(a.Name) {
				s.indexKeys = append(s.indexKeys, indexKey{KeyAttribute: a, index: x.Name})
				s.keysIndex[a.Name] = true
			}
		}
		if x.Projected == nil {
			s.mirrored = true
		}
		for name := range x.Projected {
			s.projected[name] = true
		}
	}
}

func newIndex(t *Table, name *string, key []types.KeySchemaElement, projection *types.Projection, d *definitions) (*Index, error) {
	if name == nil {
		return nil, api.Missing("IndexName")
	}
	if err := api.CheckName("indexName", *name, api.MinNameLength); err != nil {
		return nil, err
	}
	if projection == nil || projection.ProjectionType == "" {
		return nil, api.Invalid("Unknown ProjectionType: null. Index: %s", *name)
	}
	k, err := d.keySchema(key)
	if err != nil {
		return nil, err
	}
	x := &Index{Name: *name, tableName: t.Name, Key: k, table: &t.Key, projection: projection.ProjectionType}
	return x, x.project(projection.NonKeyAttributes)
}

// project sets the attributes that an index projects, given those to include beside the keys. A
// list of attributes that is not used is an error, as on AWS. The keys of index and table are
// always projected, so that an entry leads to its item.
func (x *Index) project(include []string) error {
	switch x.projection {
	case types.ProjectionTypeAll, types.ProjectionTypeKeysOnly:
		if len(include) > 0 {
			return api.Invalid("ProjectionType is %s, but NonKeyAttributes is specified", x.projection)
		}
		if x.projection == types.ProjectionTypeAll {
			return nil
		}
	case types.ProjectionTypeInclude:
		if len(include) == 0 {
			return api.Invalid("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
		}
		if len(include) > maxIncluded {
			return api.Invalid("An index can include %d attributes by name at most, not %d", maxIncluded, len(include))
		}
	default:
		return api.OneOf("projectionType", x.projection, types.ProjectionTypeAll, types.ProjectionTypeKeysOnly, types.ProjectionTypeInclude)
	}
	x.Projected = map[string]struct{}{}
	for _, name := range include {
		if name == "" || len(name) > MaxAttribute {
			return api.Invalid("The name of a projected attribute must have 1 to %d bytes", MaxAttribute)
		}
		if _, twice := x.Projected[name]; twice {
			return api.Invalid("Duplicate projected attribute: %s. Index: %s", name, x.Name)
		}
		x.Projected[name] = struct{}{}
	}
	x.Include = slices.Clone(include)
	for _, a := range []storage.KeyAttribute{x.Key.Hash, x.Key.Rng, x.table.Hash, x.table.Rng} {
		if a.Name != "" {
			x.Projected[a.Name] = struct{}{}
		}
	}
	return nil
}
