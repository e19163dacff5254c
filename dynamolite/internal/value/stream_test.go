package value_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// streamed returns a value in the types of the streams API.
func streamed(v value.AV) streamtypes.AttributeValue {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return &streamtypes.AttributeValueMemberS{Value: v.Value}
	case *types.AttributeValueMemberN:
		return &streamtypes.AttributeValueMemberN{Value: v.Value}
	case *types.AttributeValueMemberB:
		return &streamtypes.AttributeValueMemberB{Value: v.Value}
	case *types.AttributeValueMemberBOOL:
		return &streamtypes.AttributeValueMemberBOOL{Value: v.Value}
	case *types.AttributeValueMemberNULL:
		return &streamtypes.AttributeValueMemberNULL{Value: v.Value}
	case *types.AttributeValueMemberSS:
		return &streamtypes.AttributeValueMemberSS{Value: v.Value}
	case *types.AttributeValueMemberNS:
		return &streamtypes.AttributeValueMemberNS{Value: v.Value}
	case *types.AttributeValueMemberBS:
		return &streamtypes.AttributeValueMemberBS{Value: v.Value}
	case *types.AttributeValueMemberL:
		list := make([]streamtypes.AttributeValue, 0, len(v.Value))
		for _, e := range v.Value {
			list = append(list, streamed(e))
		}
		return &streamtypes.AttributeValueMemberL{Value: list}
	case *types.AttributeValueMemberM:
		return &streamtypes.AttributeValueMemberM{Value: streamedItem(v.Value)}
	}
	return nil
}

func streamedItem(item value.Item) value.StreamItem {
	out := value.StreamItem{}
	for name, v := range item {
		out[name] = streamed(v)
	}
	return out
}

// Decoding for streams gives the same item as for the data plane, as a whole and by attribute.
func TestDecodeStream(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // not for secrets
	for range 2000 {
		item := anyItem(rng, 0)
		data := value.Encode(item)
		if got := value.DecodeStream(data); !reflect.DeepEqual(got, streamedItem(item)) {
			t.Fatalf("%x was decoded as %v", data, got)
		}
		for i := range 12 {
			name := fmt.Sprint("a", i)
			if got := value.LookupStream(data, name); !reflect.DeepEqual(got, streamed(item[name])) {
				t.Fatalf("%s of %x is %v", name, data, got)
			}
		}
	}
}

func TestDecodeStreamOfDamagedData(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "01", "01 0173", "01 0173 01 05 61", "01 0173 63", "02 0173 06 0173 06", "00 00"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was decoded", in)
				}
			}()
			value.DecodeStream(unhex(t, in))
		}()
		if v := value.LookupStream(unhex(t, in), "x"); v != nil {
			t.Errorf("%s has %v", in, v)
		}
	}
}

// A decoded stream item is a map and one block each of strings and of numbers.
func TestDecodeStreamAllocations(t *testing.T) {
	data := value.Encode(tenAttributes())
	if n := testing.AllocsPerRun(100, func() { value.DecodeStream(data) }); n > 6 {
		t.Errorf("%v allocations", n)
	}
}
