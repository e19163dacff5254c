package schema_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// The sizes are those that DynamoDB charged in a measurement at the edge of a KB.
func TestItemSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    types.AttributeValue
		want int
	}{
		{schema.S("héllo"), 6},
		{schema.N(0), 1},
		{schema.N(1), 2},
		{schema.N(12), 2},
		{schema.N(123), 3},
		{schema.N(1234567890), 6},
		{schema.N(-5), 3},
		{schema.N(1000000), 2},
		{schema.N(100000), 2},
		{schema.N(-120), 4},
		{&types.AttributeValueMemberN{Value: "0.001"}, 2},
		{&types.AttributeValueMemberN{Value: "1.5"}, 3},
		{&types.AttributeValueMemberN{Value: "0.15"}, 2},
		{&types.AttributeValueMemberN{Value: "100.5"}, 4},
		{&types.AttributeValueMemberN{Value: "-1.5E-7"}, 3},
		{&types.AttributeValueMemberN{Value: strings.Repeat("9", 38)}, 20},
		{schema.Bool(false), 1},
		{&types.AttributeValueMemberNULL{Value: true}, 1},
		{&types.AttributeValueMemberB{Value: []byte("abc")}, 3},
		{schema.Set("a", "bc"), 3},
		{&types.AttributeValueMemberNS{Value: []string{"1", "123"}}, 5},
		{&types.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}}, 3},
		{&types.AttributeValueMemberL{Value: []types.AttributeValue{schema.S("a"), schema.N(1)}}, 3 + 2 + 1 + 2},
		{&types.AttributeValueMemberM{Value: schema.Item{"k": schema.S("a")}}, 3 + 1 + 1 + 1},
	} {
		if got := schema.ItemSize(schema.Item{"a": c.v}) - 1; got != c.want {
			t.Errorf("%v: got %d, want %d", c.v, got, c.want)
		}
	}
}
