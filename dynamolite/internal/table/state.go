package table

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/streams"
)

// State is a table without its items, as it is on disk. Members may be added; the meaning of a
// member must never change. The naive design writes the schema itself as JSON. Renaming a field
// would then lose it at the next start. This struct is apart from the schema, so that the schema
// can change and the file cannot.
//
// A reader of an older version ignores a new member. A member must therefore not be one that it
// cannot ignore.
type State struct {
	Number        int               `json:"number"`
	Name          string            `json:"name"`
	Created       time.Time         `json:"created"`
	Altered       time.Time         `json:"altered"`
	Key           storage.KeyState  `json:"key"`
	Kinds         []storage.KeyPart `json:"attribute_definitions"`
	Billing       types.BillingMode `json:"billing_mode,omitempty"`
	OnDemandSince time.Time         `json:"on_demand_since,omitzero"`
	Capacity      *capacityState    `json:"capacity,omitempty"`
	Protected     bool              `json:"deletion_protection,omitempty"`
	Class         types.TableClass  `json:"class,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	Expiry        string            `json:"time_to_live,omitempty"`
	Indexes       []indexState      `json:"indexes,omitempty"`
	Stream        *streamState      `json:"stream,omitempty"`
	// LatestStream is set only if it is disabled: an enabled stream is Stream, and the latest one,
	// too.
	LatestStream *streamState `json:"latest_stream,omitempty"`
	Encryption   string       `json:"encryption,omitempty"`

	Settings map[string]throughputSettings `json:"settings,omitempty"` // by index, "" is the table
}

// capacityState is two numbers of units, and nil where none are set. A member that is 0 stands for
// "none" in settings, and does not occur in provisioned units.
type capacityState struct {
	Read  int64 `json:"read"`
	Write int64 `json:"write"`
}

// indexState is an index as it is on disk. It does not have the entries, nor whether the index is
// being filled. Each start fills all indexes from the items.
type indexState struct {
	Name       string               `json:"name"`
	Local      bool                 `json:"local,omitempty"`
	Key        storage.KeyState     `json:"key"`
	Projection types.ProjectionType `json:"projection"`
	Include    []string             `json:"include,omitempty"`
	Capacity   *capacityState       `json:"capacity,omitempty"`
}

// streamState is a stream that is or was enabled.
//
// Its records are in the entries of a checkpoint, and in the writes of the log.
type streamState struct {
	View    types.StreamViewType `json:"view"`
	Created time.Time            `json:"created"`
	Label   string               `json:"label"`
}

// StateOf returns a table with a schema in its form on disk.
//
// The stream's label is part of it. It is the time of creation, made unique by the registry, and
// readers keep it in the ARN.
func StateOf(t *Table, s *Schema, at time.Time) *State {
	state := &State{
		Number: t.Number, Name: t.Name, Created: t.Created, Altered: at,
		Key:     storage.StateOfKey(&t.Key),
		Billing: s.Billing, OnDemandSince: s.onDemandSince, Capacity: stateOfCapacity(s.Capacity),
		Protected: s.Protected, Class: s.class, Tags: s.Tags, Expiry: s.Expiry(), Encryption: s.encryption, Settings: s.settings,
	}
	for _, a := range s.kinds {
		state.Kinds = append(state.Kinds, storage.KeyPart{Name: *a.AttributeName, Kind: a.AttributeType})
	}
	for _, x := range s.Indexes {
		state.Indexes = append(state.Indexes, indexState{
			Name: x.Name, Local: x.Local, Key: storage.StateOfKey(&x.Key), Projection: x.projection, Include: x.Include,
			Capacity: stateOfCapacity(s.IndexCapacity[x.Name]),
		})
	}
	if s.Stream != nil {
		state.Stream = stateOfStream(s.Stream)
	} else if s.Latest != nil {
		state.LatestStream = stateOfStream(s.Latest)
	}
	return state
}

func stateOfStream(s *streams.Stream) *streamState {
	return &streamState{View: s.View, Created: s.Created, Label: s.Label}
}

// Units come in pairs: the read units are nil if and only if there are none.
func stateOfCapacity(p types.ProvisionedThroughput) *capacityState {
	if p.ReadCapacityUnits == nil {
		return nil
	}
	return &capacityState{Read: aws.ToInt64(p.ReadCapacityUnits), Write: aws.ToInt64(p.WriteCapacityUnits)}
}

// A nil state is no capacity, so an old file without the member reads like a table without it.
func (c *capacityState) throughput() types.ProvisionedThroughput {
	if c == nil {
		return types.ProvisionedThroughput{}
	}
	return types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(c.Read), WriteCapacityUnits: aws.Int64(c.Write)}
}

// Table returns the table that the state describes, without a schema in force.
func (state *State) Table() *Table {
	return &Table{Name: state.Name, Number: state.Number, Created: state.Created, Key: state.Key.Schema()}
}

// Latest returns the stream that the table's description continues to report. It is a stand-in for
// the description. If its records are still readable, they are in another object, of the registry.
func (state *State) Latest(t *Table, s *Schema) *streams.Stream {
	if s.Stream != nil || state.LatestStream == nil {
		return s.Stream
	}
	latest := streams.Empty(t.Name, &t.Key, state.LatestStream.View, state.LatestStream.Created, stream.Options{}) // it has no records
	latest.Name(state.LatestStream.Label)
	return latest
}

// Schema returns the schema that the state describes. Before is the table's schema until then, or
// nil. An index or a stream that was there before is the same one. The stream is not set if it is
// new.
//
// Reading the log alters a table as often as it was altered. Its indexes are empty until then: the
// loader fills them at the end.
func (state *State) Schema(t *Table, before *Schema, wake func(at int64)) (*Schema, error) {
	s := &Schema{
		Billing: state.Billing, onDemandSince: state.OnDemandSince, Capacity: state.Capacity.throughput(),
		Protected: state.Protected, class: state.Class, Tags: state.Tags, encryption: state.Encryption, settings: state.Settings,
		IndexCapacity: map[string]types.ProvisionedThroughput{},
	}
	if state.Expiry != "" {
		s.Expiries = &expiries{Attribute: state.Expiry, wake: wake}
	}
	for _, k := range state.Kinds {
		s.kinds = append(s.kinds, types.AttributeDefinition{AttributeName: aws.String(k.Name), AttributeType: k.Kind})
	}
	for i := range state.Indexes {
		x := &state.Indexes[i]
		s.IndexCapacity[x.Name] = x.Capacity.throughput()
		if before != nil {
			if old, err := before.Index(x.Name); err == nil {
				s.Indexes = append(s.Indexes, old)
				continue
			}
		}
		added := &Index{Name: x.Name, tableName: t.Name, Local: x.Local, Key: x.Key.Schema(), table: &t.Key, projection: x.Projection}
		if err := added.project(x.Include); err != nil {
			return nil, err
		}
		s.Indexes = append(s.Indexes, added)
	}
	s.settle()
	return s, nil
}
