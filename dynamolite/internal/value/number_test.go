package value_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

func num(s string) value.AV { return &types.AttributeValueMemberN{Value: s} }

// normal returns a number in stored form, or "" and the error.
func normal(s string) (string, error) {
	v, err := value.Normalize(num(s))
	if err != nil {
		return "", err
	}
	return v.(*types.AttributeValueMemberN).Value, nil
}

// TestNumbers: "" stands for an invalid number. The accepted forms were compared with DynamoDB
// Local 2.6.1.
func TestNumbers(t *testing.T) {
	t.Parallel()
	ones := strings.Repeat("1", 38)
	for _, tc := range []struct{ in, want string }{
		{"0", "0"},
		{"-0", "0"},
		{"+0", "0"},
		{"0.000", "0"},
		{"-0.0e5", "0"},
		{"0e99999999", "0"},
		{"5", "5"},
		{"+5", "5"},
		{"-5", "-5"},
		{".5", "0.5"},
		{"-.5", "-0.5"},
		{"5.", "5"},
		{"007.500", "7.5"},
		{"1e3", "1000"},
		{"1E+3", "1000"},
		{"1E-7", "0.0000001"},
		{"1200e-2", "12"},
		{"1234e-2", "12.34"},
		{"1000000000000000000", "1000000000000000000"},
		{"-999999999999999999", "-999999999999999999"},
		{"010", "10"},
		{"12345678901234567890.123", "12345678901234567890.123"},
		{ones, ones},
		{ones + "0", ones + "0"},
		{ones + ".0", ones},
		{ones + "1", ""},
		{ones + ".1", ""},
		{"1" + strings.Repeat("0", 50), "1" + strings.Repeat("0", 50)},
		{"0." + strings.Repeat("0", 50) + "1", "0." + strings.Repeat("0", 50) + "1"},
		{"1" + strings.Repeat("0", 37) + "1", ""},
		{"1" + strings.Repeat("0", 36) + "1", "1" + strings.Repeat("0", 36) + "1"},
		{"9.99e125", "999" + strings.Repeat("0", 123)},
		{"1e126", ""},
		{"-1e126", ""},
		{"1e-130", "0." + strings.Repeat("0", 129) + "1"},
		{"-1.5e-130", "-0." + strings.Repeat("0", 129) + "15"},
		{"1e-131", ""},
		{"1e99999999999999999999", ""},
		{"1e-99999999999999999999", ""},
		{"0." + strings.Repeat("0", 2000) + "1e2001", "1"},
		{"1" + strings.Repeat("0", 2000) + "e-2000", "1"},
		{"", ""},
		{" 5", ""},
		{"5 ", ""},
		{"abc", ""},
		{"1e", ""},
		{"1e+", ""},
		{"e5", ""},
		{".", ""},
		{"-", ""},
		{"--5", ""},
		{"1.2.3", ""},
		{"NaN", ""},
		{"Infinity", ""},
		{"0x10", ""},
		{"1_000", ""},
		{"1e5.5", ""},
		{"٣", ""},
	} {
		got, err := normal(tc.in)
		if got != tc.want {
			t.Errorf("normal form of %q: got %q, %v; want %q", tc.in, got, err, tc.want)
		}
		var e *value.Error
		if tc.want == "" && !errors.As(err, &e) {
			t.Errorf("%q: got %T, want a *value.Error", tc.in, err)
		}
	}
}

func TestArithmetic(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 38)
	e38 := "1" + strings.Repeat("0", 38)
	for _, tc := range []struct{ a, b, sum, difference string }{
		{"1", "2", "3", "-1"},
		{"999999999999999999", "999999999999999999", "1999999999999999998", "0"},
		{"-999999999999999999", "999999999999999999", "0", "-1999999999999999998"},
		{"9223372036854775807", "1", "9223372036854775808", "9223372036854775806"},
		{"0.1", "0.2", "0.3", "-0.1"},
		{"1.5", "0.5", "2", "1"},
		{"1e3", "007", "1007", "993"},
		{nines, "1", e38, strings.Repeat("9", 37) + "8"},
		{e38, "1", "", nines},
		{nines, "0.1", "", ""},
		{"9e125", "9e125", "", "0"},
		{"1e125", "1e-130", "", ""},
		{"1.5e-130", "1e-130", "0." + strings.Repeat("0", 129) + "25", ""},
		{"x", "1", "", ""},
		{"1", "NaN", "", ""},
	} {
		if got, err := value.AddNumbers(tc.a, tc.b); got != tc.sum || (err != nil) != (tc.sum == "") {
			t.Errorf("%s + %s: got %q, %v; want %q", tc.a, tc.b, got, err, tc.sum)
		}
		if got, err := value.SubNumbers(tc.a, tc.b); got != tc.difference || (err != nil) != (tc.difference == "") {
			t.Errorf("%s - %s: got %q, %v; want %q", tc.a, tc.b, got, err, tc.difference)
		}
	}
}

// exact returns the value of a number in decimal notation.
func exact(t *testing.T, s string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("math/big cannot read %q", s)
	}
	return r
}

// storable computes from r alone whether DynamoDB can hold it: an integer of at most 38 digits
// times a power of ten, in range.
func storable(r *big.Rat) bool {
	if r.Sign() == 0 {
		return true
	}
	ten := big.NewRat(10, 1)
	m := new(big.Rat).Abs(r)
	one, top := big.NewRat(1, 1), new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(38), nil))
	exp := 0
	for m.Cmp(one) < 0 {
		m.Mul(m, ten)
		exp--
	}
	for m.Cmp(ten) >= 0 {
		m.Quo(m, ten)
		exp++
	}
	if exp > 125 || exp < -130 {
		return false
	}
	for !m.IsInt() && m.Cmp(top) < 0 {
		m.Mul(m, ten)
	}
	return m.IsInt() && m.Cmp(top) < 0
}

// plausible accepts only fuzzed text that math/big and DynamoDB read in the same way and in
// bounded time.
func plausible(s string) bool {
	if len(s) > 60 || strings.Trim(s, "0123456789.eE+-") != "" || strings.HasPrefix(s, ".") && strings.Trim(s, ".") == "" {
		return false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 && len(s)-i > 5 {
		return false
	}
	_, ok := new(big.Rat).SetString(s)
	return ok
}

// FuzzNormalNumber: the stored form has the value of the input, is its own stored form, and
// exists exactly for numbers within 38 digits and the range.
func FuzzNormalNumber(f *testing.F) {
	for _, s := range []string{"0", "-0", "007.500", "1e3", "-1.50E-3", "9.99e125", "1e-130", "123456789012345678901234567890", ".5", "1000000000000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := normal(s)
		if !plausible(s) {
			return
		}
		want := exact(t, s)
		if (err == nil) != storable(want) {
			t.Fatalf("%q: got %v, storable %v", s, err, storable(want))
		}
		if err != nil {
			return
		}
		if exact(t, got).Cmp(want) != 0 {
			t.Errorf("%q is stored as %q", s, got)
		}
		if again, err := normal(got); again != got || err != nil {
			t.Errorf("%q is stored as %q, that as %q, %v", s, got, again, err)
		}
	})
}

// FuzzArithmetic: sums and differences are exact if they can be stored, and errors otherwise.
// Compare and Equal agree with the sign of the difference.
func FuzzArithmetic(f *testing.F) {
	for _, p := range [][2]string{{"1", "2"}, {"-0.1", "0.2"}, {"99999999999999999999999999999999999999", "1"}, {"1e125", "-1e125"}, {"1.5e-130", "1e-130"}, {"123456789012345678", "1e17"}} {
		f.Add(p[0], p[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !plausible(a) || !plausible(b) {
			return
		}
		x, y := exact(t, a), exact(t, b)
		if !storable(x) || !storable(y) {
			return
		}
		check := func(op, got string, err error, want *big.Rat) {
			if (err == nil) != storable(want) {
				t.Errorf("%s %s %s: got %q, %v; storable %v", a, op, b, got, err, storable(want))
			} else if err == nil && exact(t, got).Cmp(want) != 0 {
				t.Errorf("%s %s %s: got %s", a, op, b, got)
			}
			if err == nil {
				if again, _ := normal(got); again != got {
					t.Errorf("%s %s %s: %s is not in stored form", a, op, b, got)
				}
			}
		}
		sum, err := value.AddNumbers(a, b)
		check("+", sum, err, new(big.Rat).Add(x, y))
		difference, err := value.SubNumbers(a, b)
		check("-", difference, err, new(big.Rat).Sub(x, y))
		if order, ok := value.Compare(num(a), num(b)); !ok || order != x.Cmp(y) {
			t.Errorf("compare %s, %s: got %d, %v", a, b, order, ok)
		}
		if value.Equal(num(a), num(b)) != (x.Cmp(y) == 0) {
			t.Errorf("equal %s, %s: got %v", a, b, x.Cmp(y) != 0)
		}
	})
}

func FuzzCompareInt(f *testing.F) {
	f.Add(int64(5), "5.0")
	f.Add(int64(-1<<63), "9223372036854775807")
	f.Fuzz(func(t *testing.T, n int64, s string) {
		if !plausible(s) || !storable(exact(t, s)) {
			return
		}
		want := new(big.Rat).SetInt64(n).Cmp(exact(t, s))
		if order, ok := value.CompareInt(n, num(s)); !ok || order != want {
			t.Errorf("compare %d, %s: got %d, %v; want %d", n, s, order, ok, want)
		}
	})
}
