package dynamo_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A peerWrite is a write as the Python peer 0.17.0 sent it.
type peerWrite struct {
	Op      string
	Request peerRequest
}

type peerRequest struct {
	Item, Key                 map[string]peerValue
	UpdateExpression          *string
	ConditionExpression       *string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]peerValue
	TransactItems             []struct{ Put, Update, Delete *peerRequest }
}

// A peerValue is an attribute in the notation of the wire.
type peerValue struct {
	S, N *string
	BOOL *bool
	NULL *bool
	SS   []string
	M    map[string]peerValue
	L    []peerValue
}

func (v peerValue) attribute() types.AttributeValue {
	switch {
	case v.S != nil:
		return schema.S(*v.S)
	case v.N != nil:
		return &types.AttributeValueMemberN{Value: *v.N}
	case v.BOOL != nil:
		return schema.Bool(*v.BOOL)
	case v.NULL != nil:
		return &types.AttributeValueMemberNULL{Value: true}
	case v.SS != nil:
		return schema.Set(v.SS...)
	case v.L != nil:
		list := &types.AttributeValueMemberL{}
		for _, e := range v.L {
			list.Value = append(list.Value, e.attribute())
		}
		return list
	}
	return &types.AttributeValueMemberM{Value: attributes(v.M)}
}

func attributes(m map[string]peerValue) schema.Item {
	if m == nil {
		return nil
	}
	it := schema.Item{}
	for name, v := range m {
		it[name] = v.attribute()
	}
	return it
}

// replay sends the peer's write.
func replay(t *testing.T, api *dynamolite.DB, w peerWrite) {
	t.Helper()
	name, r := aws.String(table), w.Request
	var err error
	switch w.Op {
	case "PutItem":
		_, err = api.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: name, Item: attributes(r.Item), ConditionExpression: r.ConditionExpression,
		})
	case "UpdateItem":
		_, err = api.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: name, Key: attributes(r.Key), UpdateExpression: r.UpdateExpression, ConditionExpression: r.ConditionExpression,
			ExpressionAttributeNames: r.ExpressionAttributeNames, ExpressionAttributeValues: attributes(r.ExpressionAttributeValues),
		})
	case "DeleteItem":
		_, err = api.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: name, Key: attributes(r.Key)})
	case "TransactWriteItems":
		in := &dynamodb.TransactWriteItemsInput{}
		for _, a := range r.TransactItems {
			var action types.TransactWriteItem
			switch {
			case a.Put != nil:
				action.Put = &types.Put{TableName: name, Item: attributes(a.Put.Item), ConditionExpression: a.Put.ConditionExpression}
			case a.Update != nil:
				action.Update = &types.Update{
					TableName: name, Key: attributes(a.Update.Key), UpdateExpression: a.Update.UpdateExpression,
					ExpressionAttributeNames:  a.Update.ExpressionAttributeNames,
					ExpressionAttributeValues: attributes(a.Update.ExpressionAttributeValues),
				}
			default:
				action.Delete = &types.Delete{TableName: name, Key: attributes(a.Delete.Key), ConditionExpression: a.Delete.ConditionExpression}
			}
			in.TransactItems = append(in.TransactItems, action)
		}
		_, err = api.TransactWriteItems(t.Context(), in)
	default:
		t.Fatalf("unknown operation %s", w.Op)
	}
	if err != nil {
		t.Fatalf("%s: %v", w.Op, err)
	}
}

// content returns everything in a table. Random values and clock readings are replaced
// by a mark that they exist. It omits events of namespaces, which the peer does not
// write. It also omits the names of deleted limits, which the peer does not record.
func content(t *testing.T, api dynamo.API) map[string]map[string]string {
	t.Helper()
	volatile := []string{schema.PInc, schema.CreatedAt, schema.DeletedAt, schema.UpdatedAt, schema.NamespaceID}
	all := map[string]map[string]string{}
	for _, ns := range []string{"ns1", schema.TableNamespace} {
		out, err := api.Query(t.Context(), &dynamodb.QueryInput{
			TableName: aws.String(table), IndexName: aws.String("GSI4"), KeyConditionExpression: aws.String("GSI4PK = :ns"),
			ExpressionAttributeValues: schema.Item{":ns": schema.S(ns)},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range out.Items {
			k := schema.KeyOf(entry)
			if _, e, ok := schema.DecodeAuditEvent(entry); ok && strings.HasPrefix(e.Entity, "$NAMESPACE:") {
				continue
			}
			plain := map[string]string{}
			for name, v := range fixture.Get(t, api, k) {
				plain[name] = fixture.Notation(v)
				if slices.Contains(volatile, name) {
					plain[name] = "…"
				}
			}
			if id, ok := strings.CutPrefix(k.SK, schema.NamespaceIDPrefix); ok && id != "ns1" {
				k.SK, plain[schema.SK] = schema.NamespaceIDPrefix, ""
			}
			if id, ok := strings.CutPrefix(k.SK, schema.AuditPrefix); ok {
				if len(id) != 26 || plain[schema.EventID] != "S "+id {
					t.Errorf("event %s is called %s", id, plain[schema.EventID])
				}
				k.SK = schema.AuditPrefix + plain[schema.Action] + plain[schema.Details]
				for _, name := range []string{schema.SK, schema.EventID, schema.EventTime, schema.TTL} {
					plain[name] = "…"
				}
				if plain[schema.Action] == "S "+audit.LimitsDeleted {
					plain[schema.Details], k.SK = "", schema.AuditPrefix
				}
			}
			all[k.String()] = plain
		}
	}
	return all
}

// After each administrative act, the table holds the same content as after the peer's
// act.
func TestAdministrationLeavesWhatThePeersLeaves(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/peer-admin-writes.json")
	if err != nil {
		t.Fatal(err)
	}
	var flows []struct {
		Flow   string
		Writes []peerWrite
	}
	if err := json.Unmarshal(data, &flows); err != nil {
		t.Fatal(err)
	}
	peers, ours := fixture.NewNS1(t), fixture.NewNS1(t)
	o := dynamo.Following(dynamo.Options{
		API: ours, Table: table, Now: func() time.Time { return time.UnixMilli(1700000020000) }, Principal: "arn:aws:iam::1:user/x",
	})
	s, err := dynamo.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := admin.NewNamespaces(o)
	if err != nil {
		t.Fatal(err)
	}
	entity := store.ConfigKey{Entity: "user-1", Resource: "gpt-4"}
	acts := map[string]func() error{
		"set_system_defaults": func() error { return s.SetSystem(t.Context(), rpm10, store.Block) },
		"set_resource_defaults": func() error {
			return s.SetLimits(t.Context(), store.ConfigKey{Resource: "gpt-4"}, append(rpm10, limiter.PerMinute("tpm", 1000)))
		},
		"create_entity x2": func() error {
			fixture.CreateEntity(t, s, store.Entity{ID: "proj-1"})
			fixture.CreateEntity(t, s, store.Entity{ID: "key-1", Parent: "proj-1", Cascade: true})
			return nil
		},
		"set_limits entity": func() error { return s.SetLimits(t.Context(), entity, []store.Limit{limiter.PerMinute("rpm", 20)}) },
		"delete_limits":     func() error { return s.DeleteLimits(t.Context(), entity) },
		"register ns": func() error {
			_, err := namespaces.Register(t.Context(), "tenant-a")
			return err
		},
		"delete ns": func() error { return namespaces.Delete(t.Context(), "tenant-a") },
	}
	for _, f := range flows {
		for _, w := range f.Writes {
			replay(t, peers, w)
		}
		if err := acts[f.Flow](); err != nil {
			t.Fatalf("%s: %v", f.Flow, err)
		}
		if diff := cmp.Diff(content(t, peers), content(t, ours)); diff != "" {
			t.Errorf("after %s (-peer +ours):\n%s", f.Flow, diff)
		}
	}
}
