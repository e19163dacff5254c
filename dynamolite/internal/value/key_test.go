package value_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

func str(s string) value.AV { return &types.AttributeValueMemberS{Value: s} }
func bin(s string) value.AV { return &types.AttributeValueMemberB{Value: []byte(s)} }

// TestNumberKeyOrder lists keys in ascending order.
func TestNumberKeyOrder(t *testing.T) {
	t.Parallel()
	up := []string{
		"-9.99e125", "-1e125", "-1000", "-999.5", "-999", "-12", "-11.9", "-11", "-10", "-1.01", "-1", "-0.5", "-0.05", "-1e-130",
		"0", "1e-130", "1.5e-130", "0.05", "0.5", "1", "1.0000000000000000000000000000000000001", "1.01", "1.1", "9", "10", "10.5", "11", "99", "100",
		"99999999999999999999999999999999999999", "1e125", "9.99e125",
	}
	for i := range up[1:] {
		a, b := value.AppendKey(nil, num(up[i])), value.AppendKey(nil, num(up[i+1]))
		if bytes.Compare(a, b) >= 0 {
			t.Errorf("%s (%x) does not sort before %s (%x)", up[i], a, up[i+1], b)
		}
	}
}

// FuzzKeyOrder: the concatenated encodings of two keys sort as the pair does, so no encoding is a
// prefix of another. The encoding of a prefix is a prefix of exactly the encodings of values that
// begin with it.
func FuzzKeyOrder(f *testing.F) {
	f.Add("a", "a\x00", "b", "")
	f.Add("1", "-1", "0.5", "1e3")
	f.Add("", "\x00", "\x00\x01", "\x00\xff")
	f.Add("-12", "-120", "-12.5", "12")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		checkKeys(t, [4]value.AV{str(a), str(b), str(c), str(d)})
		checkKeys(t, [4]value.AV{bin(a), bin(b), bin(c), bin(d)})
		checkKeys(t, [4]value.AV{bin(a), bin(b), str(c), str(d)})
		for _, of := range []func(string) value.AV{str, bin} {
			leads := bytes.HasPrefix(value.AppendKey(nil, of(a)), value.AppendKeyPrefix(nil, of(b)))
			if leads != strings.HasPrefix(a, b) {
				t.Errorf("encoding of %q begins with the prefix of %q: %v", a, b, leads)
			}
		}
		var numbers [4]value.AV
		for i, s := range []string{a, b, c, d} {
			n, err := normal(s)
			if err != nil {
				return
			}
			numbers[i] = num(n)
		}
		checkKeys(t, numbers)
		checkKeys(t, [4]value.AV{numbers[0], numbers[1], str(c), str(d)})
		checkKeys(t, [4]value.AV{str(a), str(b), numbers[2], numbers[3]})
	})
}

// checkKeys compares the pair v[0] v[2] with the pair v[1] v[3].
func checkKeys(t *testing.T, v [4]value.AV) {
	t.Helper()
	x := value.AppendKey(value.AppendKey(nil, v[0]), v[2])
	y := value.AppendKey(value.AppendKey(nil, v[1]), v[3])
	want, ok1 := value.Compare(v[0], v[1])
	second, ok2 := value.Compare(v[2], v[3])
	if !ok1 || !ok2 {
		t.Fatalf("not comparable")
	}
	if want == 0 {
		want = second
	}
	if got := bytes.Compare(x, y); got != want {
		t.Errorf("%x and %x: order %d, want %d", x, y, got, want)
	}
}

func TestKeyPanics(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"a list":        func() { value.AppendKey(nil, &types.AttributeValueMemberL{}) },
		"no number":     func() { value.AppendKey(nil, num("x")) },
		"number prefix": func() { value.AppendKeyPrefix(nil, num("1")) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}()
	}
}
