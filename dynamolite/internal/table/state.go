package table

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/streams"
)

// State is a table without its items, as it is on disk. Members may be added; the meaning of
// a member must never change.
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
	LatestStream  *streamState      `json:"latest_stream,omitempty"` // if it is disabled
	Encryption    string            `json:"encryption,omitempty"`

	Settings map[string]throughputSettings `json:"settings,omitempty"` // by index, "" is the table
}

type capacityState struct {
	Read  int64 `json:"read"`
	Write int64 `json:"write"`
}

type indexState struct {
	Name       string               `json:"name"`
	Local      bool                 `json:"local,omitempty"`
	Key        storage.KeyState     `json:"key"`
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

// StateOf returns a table with a schema in its form on disk.
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

// Table returns the table that the state describes, without a schema in force.
func (state *State) Table() *Table {
	return &Table{Name: state.Name, Number: state.Number, Created: state.Created, Key: state.Key.Schema()}
}

// Latest returns the stream that the table's description continues to report.
func (state *State) Latest(t *Table, s *Schema) *streams.Stream {
	if s.Stream != nil || state.LatestStream == nil {
		return s.Stream
	}
	latest := streams.Empty(t.Name, &t.Key, state.LatestStream.View, state.LatestStream.Created, stream.Options{}) // it has no records
	latest.Name(state.LatestStream.Label)
	return latest
}

// Schema is what the state describes, of a table whose schema was another before or none. An index or a
// stream that was there before is the same one. The stream is not set if it is new.
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
