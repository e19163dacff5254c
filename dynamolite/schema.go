package dynamolite

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	maxIndexes    = 20  // global secondary indexes of a table
	maxProjected  = 100 // attributes that the indexes of a table project by name, together
	maxAttribute  = 255 // bytes of the name of a key attribute or of a projected one
	minNameLength = 3   // of a table or an index
	maxNameLength = 255
)

// newTable makes a table from a request, or says what is wrong with it.
func newTable(in *dynamodb.CreateTableInput) (*table, error) {
	if in.TableName == nil {
		return nil, missing("TableName")
	}
	if err := checkTableName(*in.TableName); err != nil {
		return nil, err
	}
	if err := refuseTableFeatures(in); err != nil {
		return nil, err
	}
	d, err := newDefinitions(in.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	t := &table{
		name:      *in.TableName,
		billing:   in.BillingMode,
		protected: aws.ToBool(in.DeletionProtectionEnabled),
		keysIndex: map[string]bool{},
		projected: map[string]bool{},
	}
	if t.key, err = d.keySchema(in.KeySchema); err != nil {
		return nil, err
	}
	if t.capacity, err = t.throughput(in.ProvisionedThroughput, "table "+t.name); err != nil {
		return nil, err
	}
	if err := t.addIndexes(in.GlobalSecondaryIndexes, d); err != nil {
		return nil, err
	}
	if unused := d.unused(); len(unused) > 0 {
		return nil, invalid("Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions: "+
			"these are the key of nothing: [%s]", strings.Join(unused, ", "))
	}
	t.kinds = d.list
	return t, nil
}

// refuseTableFeatures names the first feature asked for that the engine lacks.
func refuseTableFeatures(in *dynamodb.CreateTableInput) error {
	for _, f := range []struct {
		asked         bool
		name, instead string
	}{
		{len(in.LocalSecondaryIndexes) > 0, "LocalSecondaryIndexes", "use a global secondary index"},
		{in.StreamSpecification != nil && aws.ToBool(in.StreamSpecification.StreamEnabled), "StreamSpecification", "leave it out"},
		{in.SSESpecification != nil && aws.ToBool(in.SSESpecification.Enabled), "SSESpecification", "leave it out"},
		{in.TableClass != "" && in.TableClass != types.TableClassStandard, "TableClass", "leave it out or use STANDARD"},
		{len(in.Tags) > 0, "Tags", "leave it out"},
		{in.OnDemandThroughput != nil, "OnDemandThroughput", "leave it out"},
		{in.WarmThroughput != nil, "WarmThroughput", "leave it out"},
		{in.ResourcePolicy != nil, "ResourcePolicy", "leave it out"},
		{in.GlobalTableSourceArn != nil, "GlobalTableSourceArn", "leave it out"},
		{in.GlobalTableSettingsReplicationMode != "", "GlobalTableSettingsReplicationMode", "leave it out"},
		{len(in.VectorIndexes) > 0, "VectorIndexes", "leave it out"},
	} {
		if f.asked {
			return unsupported(f.name, f.instead)
		}
	}
	return nil
}

// throughput checks provisioned capacity against the billing mode.
func (t *table) throughput(p *types.ProvisionedThroughput, of string) (types.ProvisionedThroughput, error) {
	switch t.billing {
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
		return types.ProvisionedThroughput{}, badEnum("billingMode", string(t.billing), "PROVISIONED, PAY_PER_REQUEST")
	}
}

func (t *table) addIndexes(in []types.GlobalSecondaryIndex, d *definitions) error {
	if in != nil && len(in) == 0 {
		return invalid("List of GlobalSecondaryIndexes is empty")
	}
	if len(in) > maxIndexes {
		return invalid("GlobalSecondaryIndex count exceeds the per-table limit of %d", maxIndexes)
	}
	capacities := map[*index]types.ProvisionedThroughput{}
	named := 0
	for i := range in {
		x, err := t.newIndex(&in[i], d)
		if err != nil {
			return err
		}
		if _, err := t.index(x.name); err == nil {
			return invalid("Duplicate index name: %s", x.name)
		}
		if capacities[x], err = t.throughput(in[i].ProvisionedThroughput, "index "+x.name); err != nil {
			return err
		}
		if named += len(x.include); named > maxProjected {
			return invalid("The indexes project more than %d attributes by name", maxProjected)
		}
		t.indexes = append(t.indexes, x)
	}
	slices.SortFunc(t.indexes, func(a, b *index) int { return strings.Compare(a.name, b.name) })
	for i, x := range t.indexes {
		x.position = i
		t.indexCapacity = append(t.indexCapacity, capacities[x])
		t.note(x)
	}
	return nil
}

// note enters an index into what lets writes find out quickly whether it concerns them.
func (t *table) note(x *index) {
	for _, a := range []keyAttribute{x.key.hash, x.key.rng} {
		if a.name != "" {
			t.indexKeys = append(t.indexKeys, indexKey{keyAttribute: a, index: x.name})
			t.keysIndex[a.name] = true
		}
	}
	if x.projected == nil {
		t.mirrored = true
	}
	for name := range x.projected {
		t.projected[name] = true
	}
}

func (t *table) newIndex(in *types.GlobalSecondaryIndex, d *definitions) (*index, error) {
	if in.IndexName == nil {
		return nil, missing("IndexName")
	}
	if err := checkName("indexName", *in.IndexName); err != nil {
		return nil, err
	}
	switch {
	case in.OnDemandThroughput != nil:
		return nil, unsupported("OnDemandThroughput", "leave it out")
	case in.WarmThroughput != nil:
		return nil, unsupported("WarmThroughput", "leave it out")
	case in.Projection == nil || in.Projection.ProjectionType == "":
		return nil, invalid("Unknown ProjectionType: null. Index: %s", *in.IndexName)
	}
	key, err := d.keySchema(in.KeySchema)
	if err != nil {
		return nil, err
	}
	x := &index{name: *in.IndexName, key: key, table: &t.key, projection: in.Projection.ProjectionType}
	return x, x.project(in.Projection.NonKeyAttributes)
}

// project sets what an index projects, given the attributes to include beside the keys.
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

// definitions are a request's AttributeDefinitions, and which of them some key has used.
type definitions struct {
	list []types.AttributeDefinition
	used map[string]bool
}

func newDefinitions(in []types.AttributeDefinition) (*definitions, error) {
	d := &definitions{used: map[string]bool{}}
	for _, a := range in {
		if a.AttributeName == nil {
			return nil, missing("AttributeName")
		}
		name := *a.AttributeName
		if name == "" || len(name) > maxAttribute {
			return nil, invalid("The name of a key attribute must have 1 to %d bytes", maxAttribute)
		}
		switch a.AttributeType {
		case types.ScalarAttributeTypeS, types.ScalarAttributeTypeN, types.ScalarAttributeTypeB:
		default:
			return nil, badEnum("attributeDefinitions.attributeType", string(a.AttributeType), "S, N, B")
		}
		if _, ok := d.kind(name); ok {
			return nil, invalid("Duplicate AttributeName in AttributeDefinitions: %s", name)
		}
		d.list = append(d.list, types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: a.AttributeType})
	}
	return d, nil
}

func (d *definitions) kind(name string) (types.ScalarAttributeType, bool) {
	for _, a := range d.list {
		if *a.AttributeName == name {
			return a.AttributeType, true
		}
	}
	return "", false
}

func (d *definitions) unused() []string {
	var names []string
	for _, a := range d.list {
		if !d.used[*a.AttributeName] {
			names = append(names, *a.AttributeName)
		}
	}
	return names
}

// keySchema reads a HASH element and, after it, perhaps a RANGE element.
func (d *definitions) keySchema(in []types.KeySchemaElement) (keySchema, error) {
	var s keySchema
	switch {
	case len(in) == 0:
		return s, missing("KeySchema")
	case len(in) > 2:
		return s, unsupported("A KeySchema of more than two attributes", "use one HASH and at most one RANGE")
	case in[0].KeyType != types.KeyTypeHash:
		return s, invalid("The first KeySchemaElement is not a HASH key type")
	case len(in) == 2 && in[1].KeyType != types.KeyTypeRange:
		return s, invalid("The second KeySchemaElement is not a RANGE key type")
	}
	for i, part := range []*keyAttribute{&s.hash, &s.rng}[:len(in)] {
		if in[i].AttributeName == nil {
			return s, missing("AttributeName")
		}
		name := *in[i].AttributeName
		kind, ok := d.kind(name)
		if !ok {
			return s, invalid("Some index key attributes are not defined in AttributeDefinitions. Keys: [%s]", name)
		}
		d.used[name] = true
		*part = keyAttribute{name: name, kind: kind, max: []int{maxHashKey, maxRangeKey}[i]}
	}
	if s.hash.name == s.rng.name {
		return s, invalid("Both the Hash Key and the Range Key element in the KeySchema have the same name")
	}
	return s, nil
}
