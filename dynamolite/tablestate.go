package dynamolite

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
)

// tableState is a table without its items, as it is on disk. Members may be added; the meaning of
// a member must never change.
type tableState struct {
	Number        int               `json:"number"`
	Name          string            `json:"name"`
	Created       time.Time         `json:"created"`
	Altered       time.Time         `json:"altered"`
	Key           keyState          `json:"key"`
	Kinds         []keyPart         `json:"attribute_definitions"`
	Billing       types.BillingMode `json:"billing_mode,omitempty"`
	OnDemandSince time.Time         `json:"on_demand_since,omitzero"`
	Capacity      *capacityState    `json:"capacity,omitempty"`
	Protected     bool              `json:"deletion_protection,omitempty"`
	Class         types.TableClass  `json:"class,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	Expiry        string            `json:"time_to_live,omitempty"`
	Indexes       []indexState      `json:"indexes,omitempty"`
	Stream        *streamState      `json:"stream,omitempty"`
	LatestStream  *streamState      `json:"latest_stream,omitempty"` // if it is disabled
	Encryption    string            `json:"encryption,omitempty"`

	Settings map[string]throughputSettings `json:"settings,omitempty"` // by index, "" is the table
}

type keyState struct {
	Hash  keyPart `json:"hash"`
	Range keyPart `json:"range,omitzero"`
}

type keyPart struct {
	Name string                    `json:"name"`
	Kind types.ScalarAttributeType `json:"type"`
}

type capacityState struct {
	Read  int64 `json:"read"`
	Write int64 `json:"write"`
}

type indexState struct {
	Name       string               `json:"name"`
	Local      bool                 `json:"local,omitempty"`
	Key        keyState             `json:"key"`
	Projection types.ProjectionType `json:"projection"`
	Include    []string             `json:"include,omitempty"`
	Capacity   *capacityState       `json:"capacity,omitempty"`
}

// streamState is a stream that is or was enabled.
type streamState struct {
	View    types.StreamViewType `json:"view"`
	Created time.Time            `json:"created"`
	Label   string               `json:"label"`
}

func stateOf(t *table, s *schema, at time.Time) *tableState {
	state := &tableState{
		Number: t.number, Name: t.name, Created: t.created, Altered: at,
		Key:     stateOfKey(&t.key),
		Billing: s.billing, OnDemandSince: s.onDemandSince, Capacity: stateOfCapacity(s.capacity),
		Protected: s.protected, Class: s.class, Tags: s.tags, Expiry: s.expiry(), Encryption: s.encryption, Settings: s.settings,
	}
	for _, a := range s.kinds {
		state.Kinds = append(state.Kinds, keyPart{*a.AttributeName, a.AttributeType})
	}
	for _, x := range s.indexes {
		state.Indexes = append(state.Indexes, indexState{
			Name: x.name, Local: x.local, Key: stateOfKey(&x.key), Projection: x.projection, Include: x.include,
			Capacity: stateOfCapacity(s.indexCapacity[x.name]),
		})
	}
	if s.stream != nil {
		state.Stream = stateOfStream(s.stream)
	} else if s.latest != nil {
		state.LatestStream = stateOfStream(s.latest)
	}
	return state
}

func stateOfStream(s *tableStream) *streamState {
	return &streamState{View: s.view, Created: s.created, Label: s.label}
}

func stateOfKey(k *keySchema) keyState {
	return keyState{Hash: keyPart{k.hash.name, k.hash.kind}, Range: keyPart{k.rng.name, k.rng.kind}}
}

func stateOfCapacity(p types.ProvisionedThroughput) *capacityState {
	if p.ReadCapacityUnits == nil {
		return nil
	}
	return &capacityState{Read: aws.ToInt64(p.ReadCapacityUnits), Write: aws.ToInt64(p.WriteCapacityUnits)}
}

func (c *capacityState) throughput() types.ProvisionedThroughput {
	if c == nil {
		return types.ProvisionedThroughput{}
	}
	return types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(c.Read), WriteCapacityUnits: aws.Int64(c.Write)}
}

func (k *keyState) schema() keySchema {
	s := keySchema{hash: keyAttribute{name: k.Hash.Name, kind: k.Hash.Kind, max: maxHashKey}}
	if k.Range.Name != "" {
		s.rng = keyAttribute{name: k.Range.Name, kind: k.Range.Kind, max: maxRangeKey}
	}
	return s
}

// table returns the table that the state describes, without a schema in force.
func (state *tableState) table() *table {
	return &table{name: state.Name, number: state.Number, created: state.Created, key: state.Key.schema()}
}

// latest returns the stream that the table's description continues to report.
func (state *tableState) latest(t *table, s *schema) *tableStream {
	if s.stream != nil || state.LatestStream == nil {
		return s.stream
	}
	latest := newTableStream(t, state.LatestStream.View, state.LatestStream.Created, stream.Options{}) // it has no records
	latest.name(state.LatestStream.Label)
	return latest
}

// schema is what the state describes, of a table whose schema was another before or none. An index or a
// stream that was there before is the same one. The stream is not set if it is new.
func (state *tableState) schema(t *table, before *schema, sweeper *sweeper) (*schema, error) {
	s := &schema{
		billing: state.Billing, onDemandSince: state.OnDemandSince, capacity: state.Capacity.throughput(),
		protected: state.Protected, class: state.Class, tags: state.Tags, encryption: state.Encryption, settings: state.Settings,
		indexCapacity: map[string]types.ProvisionedThroughput{},
	}
	if state.Expiry != "" {
		s.expiries = &expiries{attribute: state.Expiry, sweeper: sweeper}
	}
	for _, k := range state.Kinds {
		s.kinds = append(s.kinds, types.AttributeDefinition{AttributeName: aws.String(k.Name), AttributeType: k.Kind})
	}
	for i := range state.Indexes {
		x := &state.Indexes[i]
		s.indexCapacity[x.Name] = x.Capacity.throughput()
		if before != nil {
			if old, err := before.index(x.Name); err == nil {
				s.indexes = append(s.indexes, old)
				continue
			}
		}
		added := &index{name: x.Name, tableName: t.name, local: x.Local, key: x.Key.schema(), table: &t.key, projection: x.Projection}
		if err := added.project(x.Include); err != nil {
			return nil, err
		}
		s.indexes = append(s.indexes, added)
	}
	s.settle()
	return s, nil
}
