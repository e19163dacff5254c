package value_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// anyValue returns a value of any type, in normal form.
func anyValue(rng *rand.Rand, depth int) value.AV {
	text := func() string { return fmt.Sprint("t", rng.IntN(1000)) }
	digits := func() string { return strconv.Itoa(1 + rng.IntN(100_000)) }
	kinds := 10
	if depth == 3 {
		kinds = 8
	}
	switch rng.IntN(kinds) {
	case 0:
		return &types.AttributeValueMemberS{Value: text()}
	case 1:
		return &types.AttributeValueMemberN{Value: digits()}
	case 2:
		return &types.AttributeValueMemberB{Value: []byte(text())}
	case 3:
		return &types.AttributeValueMemberBOOL{Value: rng.IntN(2) == 0}
	case 4:
		return &types.AttributeValueMemberNULL{Value: true}
	case 5:
		return &types.AttributeValueMemberSS{Value: []string{text(), "s"}}
	case 6:
		return &types.AttributeValueMemberNS{Value: []string{"0", digits()}}
	case 7:
		return &types.AttributeValueMemberBS{Value: [][]byte{[]byte(text()), []byte("b")}}
	case 8:
		list := make([]value.AV, rng.IntN(4))
		for i := range list {
			list[i] = anyValue(rng, depth+1)
		}
		return &types.AttributeValueMemberL{Value: list}
	default:
		return &types.AttributeValueMemberM{Value: anyItem(rng, depth+1)}
	}
}

func anyItem(rng *rand.Rand, depth int) value.Item {
	item := value.Item{}
	for range rng.IntN(8) {
		item[fmt.Sprint("a", rng.IntN(12))] = anyValue(rng, depth)
	}
	return item
}

// A lookup finds the same as decoding the whole item.
func TestLookupNumber(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not for secrets
	found := 0
	for range 5000 {
		item := anyItem(rng, 0)
		data := value.Encode(item)
		for i := range 12 {
			name := fmt.Sprint("a", i)
			want, isNumber := item[name].(*types.AttributeValueMemberN)
			got, ok := value.LookupNumber(data, name)
			if ok != isNumber || ok && got != want.Value {
				t.Fatalf("%s of %v is %q, %t", name, item, got, ok)
			}
			if ok {
				found++
			}
		}
	}
	if found < 500 {
		t.Errorf("only %d numbers were looked up", found)
	}
}

// A lookup in damaged data may return anything, but does not panic.
func TestLookupNumberOfDamagedData(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // not for secrets
	for range 300 {
		data := []byte(value.Encode(anyItem(rng, 0)))
		for i := range data {
			value.LookupNumber(string(data[:i]), "a1")
			was := data[i]
			data[i] = byte(rng.IntN(256))
			value.LookupNumber(string(data), "a1")
			data[i] = was
		}
	}
}

func TestLookupNumberAllocatesNothing(t *testing.T) {
	item := value.Item{"expires": &types.AttributeValueMemberN{Value: "1700000000"}}
	for i := range 10 {
		item[fmt.Sprint("a", i)] = &types.AttributeValueMemberS{Value: "something"}
	}
	data := value.Encode(item)
	if n := testing.AllocsPerRun(100, func() {
		if digits, ok := value.LookupNumber(data, "expires"); !ok || digits != "1700000000" {
			t.Error(digits, ok)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLookupNumber(b *testing.B) {
	item := value.Item{"expires": &types.AttributeValueMemberN{Value: "1700000000"}}
	for i := range 10 {
		item[fmt.Sprint("a", i)] = &types.AttributeValueMemberS{Value: "something"}
	}
	data := value.Encode(item)
	b.ReportAllocs()
	for b.Loop() {
		value.LookupNumber(data, "none")
	}
}
