package dynamolite

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
)

const (
	maxGlobal     = 20  // global secondary indexes of a table
	maxLocal      = 5   // local secondary indexes of a table
	maxIncluded   = 20  // attributes that one index projects by name
	maxProjected  = 100 // attributes that the indexes of a table project by name, together
	maxAttribute  = 255 // bytes of the name of a key attribute or of a projected one
	minNameLength = 3   // of a table or an index
	maxNameLength = 255
)

// schema holds all parts of a table that can be altered while it exists. It is never changed in
// place: an alteration clones it, changes the clone and puts the clone into effect.
type schema struct {
	kinds         []types.AttributeDefinition
	billing       types.BillingMode
	onDemandSince time.Time                   // when it last became on-demand; zero: never
	capacity      types.ProvisionedThroughput // of a provisioned table
	protected     bool                        // against deletion
	class         types.TableClass            // "" and STANDARD mean the same
	tags          map[string]string
	encryption    string                        // the ARN of a key; "": that of the service
	settings      map[string]throughputSettings // by index, "" is the table
	expiries      *expiries                     // nil: items have no time to live
	stream        *tableStream                  // nil: none is enabled
	latest        *tableStream                  // the stream enabled last, which the description continues to report; nil: none ever

	indexes       []*index                               // by name
	indexCapacity map[string]types.ProvisionedThroughput // of a provisioned table, by index
	indexKeys     []indexKey
	keysIndex     map[string]bool // attributes that are a key of some index
	projected     map[string]bool // attributes that some index projects by name
	mirrored      bool            // some index projects everything
}

// clone returns a schema to be changed and put into effect.
func (s *schema) clone() *schema {
	c := *s
	c.kinds = slices.Clone(s.kinds)
	c.tags = maps.Clone(s.tags)
	c.settings = maps.Clone(s.settings)
	c.indexes = slices.Clone(s.indexes)
	c.indexCapacity = maps.Clone(s.indexCapacity)
	return &c
}

// index finds an index by name.
func (s *schema) index(name string) (*index, error) {
	for _, x := range s.indexes {
		if x.name == name {
			return x, nil
		}
	}
	return nil, validationf("The table does not have the specified index: %s", name)
}

// hasLocal reports whether the table has local secondary indexes, and therefore item collections.
func (s *schema) hasLocal() bool {
	return slices.ContainsFunc(s.indexes, func(x *index) bool { return x.local })
}

// global finds the global secondary index that a request wants to act on.
func (s *schema) global(t *table, name, do string) (*index, error) {
	x, err := s.index(name)
	switch {
	case err != nil:
		return nil, &types.ResourceNotFoundException{
			Message: aws.String("Requested resource not found: Index " + name + " for table " + t.name),
		}
	case x.local:
		return nil, validationf("Cannot %s an index that is not a GlobalSecondaryIndex: %s", do, name)
	}
	return x, nil
}

// fillingBeside reports whether an index other than x is still being filled.
func (s *schema) fillingBeside(x *index) bool {
	return slices.ContainsFunc(s.indexes, func(y *index) bool { return y != x && y.filling.Load() })
}

// unindexed reports whether writes of these attributes cannot concern any index.
func (s *schema) unindexed(touched []string) bool {
	if s.mirrored || touched == nil {
		return len(s.indexes) == 0
	}
	for _, name := range touched {
		if s.projected[name] {
			return false
		}
	}
	return true
}

// newTable makes a table from a request, or returns what is wrong with the request.
func newTable(in *dynamodb.CreateTableInput, now time.Time, streams stream.Options) (*table, error) {
	if in.TableName == nil {
		return nil, missing("TableName")
	}
	name := plainTableName(*in.TableName)
	if err := checkTableName(name); err != nil {
		return nil, err
	}
	if err := refuseTableFeatures(in); err != nil {
		return nil, err
	}
	d, err := newDefinitions(in.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	t := &table{name: name, created: now}
	s := &schema{
		billing:   in.BillingMode,
		protected: aws.ToBool(in.DeletionProtectionEnabled),
		class:     in.TableClass,
	}
	if s.billing == types.BillingModePayPerRequest {
		s.onDemandSince = now
	}
	if t.key, err = d.keySchema(in.KeySchema); err != nil {
		return nil, err
	}
	if s.capacity, err = s.throughput(in.ProvisionedThroughput, "table "+t.name); err != nil {
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
	if s.tags, err = newTags(in.Tags); err != nil {
		return nil, err
	}
	if s.stream, err = t.newStream(in.StreamSpecification, now, streams); err != nil {
		return nil, err
	}
	s.latest = s.stream
	t.current.Store(s)
	return t, nil
}

// refuseTableFeatures returns an error for the first requested feature that the engine lacks.
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
			return unsupported(f.name, "leave it out")
		}
	}
	return checkTableClass(in.TableClass)
}

func checkTableClass(class types.TableClass) error {
	switch class {
	case "", types.TableClassStandard, types.TableClassStandardInfrequentAccess:
		return nil
	default:
		return badEnum("tableClass", string(class), "STANDARD, STANDARD_INFREQUENT_ACCESS")
	}
}

// throughput checks provisioned capacity against the billing mode.
func (s *schema) throughput(p *types.ProvisionedThroughput, of string) (types.ProvisionedThroughput, error) {
	switch s.billing {
	case types.BillingModePayPerRequest:
		if p != nil {
			return types.ProvisionedThroughput{}, invalid("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for %s when BillingMode is PAY_PER_REQUEST", of)
		}
		return types.ProvisionedThroughput{}, nil
	case "", types.BillingModeProvisioned:
		if p == nil || p.ReadCapacityUnits == nil || p.WriteCapacityUnits == nil {
			return types.ProvisionedThroughput{}, invalid("ReadCapacityUnits and WriteCapacityUnits must both be specified for %s when BillingMode is PROVISIONED", of)
		}
		if *p.ReadCapacityUnits < 1 || *p.WriteCapacityUnits < 1 {
			return types.ProvisionedThroughput{}, invalid("ReadCapacityUnits and WriteCapacityUnits of %s must be at least 1", of)
		}
		return types.ProvisionedThroughput{
			ReadCapacityUnits: aws.Int64(*p.ReadCapacityUnits), WriteCapacityUnits: aws.Int64(*p.WriteCapacityUnits),
		}, nil
	default:
		return types.ProvisionedThroughput{}, badEnum("billingMode", string(s.billing), "PROVISIONED, PAY_PER_REQUEST")
	}
}

// addIndexes adds the indexes of a new table.
func (s *schema) addIndexes(t *table, in *dynamodb.CreateTableInput, d *definitions) error {
	switch {
	case in.GlobalSecondaryIndexes != nil && len(in.GlobalSecondaryIndexes) == 0:
		return invalid("List of GlobalSecondaryIndexes is empty")
	case in.LocalSecondaryIndexes != nil && len(in.LocalSecondaryIndexes) == 0:
		return invalid("List of LocalSecondaryIndexes is empty")
	}
	s.indexCapacity = map[string]types.ProvisionedThroughput{}
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
func (s *schema) addGlobal(t *table, in *types.GlobalSecondaryIndex, d *definitions) (*index, error) {
	x, err := newIndex(t, in.IndexName, in.KeySchema, in.Projection, d)
	if err != nil {
		return nil, err
	}
	capacity, err := s.throughput(in.ProvisionedThroughput, "index "+x.name)
	if err != nil {
		return nil, err
	}
	s.indexCapacity[x.name] = capacity
	if err := s.setThroughput(x.name, in.OnDemandThroughput, in.WarmThroughput); err != nil {
		return nil, err
	}
	return x, s.add(x)
}

// addLocal adds a local secondary index: the table's partition key with another sort key.
func (s *schema) addLocal(t *table, in *types.LocalSecondaryIndex, d *definitions) error {
	x, err := newIndex(t, in.IndexName, in.KeySchema, in.Projection, d)
	switch {
	case err != nil:
		return err
	case t.key.rng.name == "":
		return invalid("Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex")
	case x.key.rng.name == "":
		return invalid("Index KeySchema does not have a range key for index: %s", x.name)
	case x.key.hash.name != t.key.hash.name:
		return invalid("Index KeySchema does not have the same leading hash key as table KeySchema for index: %s. index hash key: %s, table hash key: %s",
			x.name, x.key.hash.name, t.key.hash.name)
	}
	x.local = true
	return s.add(x)
}

// add adds an index, within the limits of a table.
func (s *schema) add(x *index) error {
	if _, err := s.index(x.name); err == nil {
		return invalid("Duplicate index name: %s", x.name)
	}
	s.indexes = append(s.indexes, x)
	local, named := 0, 0
	for _, x := range s.indexes {
		named += len(x.include)
		if x.local {
			local++
		}
	}
	switch {
	case local > maxLocal:
		return invalid("Number of LocalSecondaryIndexes exceeds per-table limit of %d", maxLocal)
	case len(s.indexes)-local > maxGlobal:
		return invalid("GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobal)
	case named > maxProjected:
		return invalid("The indexes project more than %d attributes by name", maxProjected)
	}
	return nil
}

// settle sorts the indexes. It also computes the sets that let a write find out quickly whether
// it concerns an index.
func (s *schema) settle() {
	slices.SortFunc(s.indexes, func(a, b *index) int { return strings.Compare(a.name, b.name) })
	s.indexKeys, s.mirrored = nil, false
	s.keysIndex, s.projected = map[string]bool{}, map[string]bool{}
	for _, x := range s.indexes {
		for _, a := range []keyAttribute{x.key.hash, x.key.rng} {
			if a.name != "" && !x.table.has(a.name) {
				s.indexKeys = append(s.indexKeys, indexKey{keyAttribute: a, index: x.name})
				s.keysIndex[a.name] = true
			}
		}
		if x.projected == nil {
			s.mirrored = true
		}
		for name := range x.projected {
			s.projected[name] = true
		}
	}
}

func newIndex(t *table, name *string, key []types.KeySchemaElement, projection *types.Projection, d *definitions) (*index, error) {
	if name == nil {
		return nil, missing("IndexName")
	}
	if err := checkName("indexName", *name, minNameLength); err != nil {
		return nil, err
	}
	if projection == nil || projection.ProjectionType == "" {
		return nil, invalid("Unknown ProjectionType: null. Index: %s", *name)
	}
	k, err := d.keySchema(key)
	if err != nil {
		return nil, err
	}
	x := &index{name: *name, tableName: t.name, key: k, table: &t.key, projection: projection.ProjectionType}
	return x, x.project(projection.NonKeyAttributes)
}

// project sets the attributes that an index projects, given those to include beside the keys.
func (x *index) project(include []string) error {
	switch x.projection {
	case types.ProjectionTypeAll, types.ProjectionTypeKeysOnly:
		if len(include) > 0 {
			return invalid("ProjectionType is %s, but NonKeyAttributes is specified", x.projection)
		}
		if x.projection == types.ProjectionTypeAll {
			return nil
		}
	case types.ProjectionTypeInclude:
		if len(include) == 0 {
			return invalid("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
		}
		if len(include) > maxIncluded {
			return invalid("An index can include %d attributes by name at most, not %d", maxIncluded, len(include))
		}
	default:
		return badEnum("projectionType", string(x.projection), "ALL, KEYS_ONLY, INCLUDE")
	}
	x.projected = map[string]struct{}{}
	for _, name := range include {
		if name == "" || len(name) > maxAttribute {
			return invalid("The name of a projected attribute must have 1 to %d bytes", maxAttribute)
		}
		if _, twice := x.projected[name]; twice {
			return invalid("Duplicate projected attribute: %s. Index: %s", name, x.name)
		}
		x.projected[name] = struct{}{}
	}
	x.include = slices.Clone(include)
	for _, a := range []keyAttribute{x.key.hash, x.key.rng, x.table.hash, x.table.rng} {
		if a.name != "" {
			x.projected[a.name] = struct{}{}
		}
	}
	return nil
}
