package schema_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// peerItems are items as the Python peer 0.17.0 wrote them, by key.
func peerItems(tb testing.TB) map[string]schema.Item {
	tb.Helper()
	data, err := os.ReadFile("testdata/peer-items.json")
	if err != nil {
		tb.Fatal(err)
	}
	var raw map[string]map[string]map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		tb.Fatal(err)
	}
	items := map[string]schema.Item{}
	for key, attrs := range raw {
		items[key] = fromWire(tb, attrs)
	}
	return items
}

func peerItem(tb testing.TB, key string) schema.Item {
	tb.Helper()
	it, ok := peerItems(tb)[key]
	if !ok {
		tb.Fatalf("no item %q among the peer's", key)
	}
	return it
}

func fromWire(tb testing.TB, attrs map[string]map[string]any) schema.Item {
	tb.Helper()
	item := schema.Item{}
	for name, tagged := range attrs {
		for tag, v := range tagged {
			switch v := v.(type) {
			case string:
				item[name] = schema.S(v)
				if tag == "N" {
					item[name] = &types.AttributeValueMemberN{Value: v}
				}
			case bool:
				item[name] = schema.Bool(v)
				if tag == "NULL" {
					item[name] = &types.AttributeValueMemberNULL{Value: v}
				}
			case map[string]any:
				if len(v) != 0 {
					tb.Fatalf("%s: a map with members", name)
				}
				item[name] = &types.AttributeValueMemberM{Value: schema.Item{}}
			default:
				tb.Fatalf("%s: unknown attribute %T", name, v)
			}
		}
	}
	return item
}

// wire converts an item to plain values, so that cmp can print it and ignores the hidden
// parts of the SDK's types.
func wire(item schema.Item) map[string]any {
	plain := make(map[string]any, len(item))
	for name, v := range item {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			plain[name] = v.Value
		case *types.AttributeValueMemberN:
			plain[name] = "N " + v.Value
		case *types.AttributeValueMemberBOOL:
			plain[name] = v.Value
		case *types.AttributeValueMemberNULL:
			plain[name] = nil
		case *types.AttributeValueMemberSS:
			plain[name] = v.Value
		case *types.AttributeValueMemberM:
			plain[name] = wire(v.Value)
		default:
			plain[name] = v
		}
	}
	return plain
}
