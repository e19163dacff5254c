package value_test

import (
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// shaped writes a number of up to 39 digits, one for each byte, times a power of ten that may be
// just out of range. Random text hardly ever has this form.
func shaped(digits string, exponent int16, neg, point bool) string {
	if len(digits) > 39 {
		digits = digits[:39]
	}
	var b strings.Builder
	if neg {
		b.WriteByte('-')
	}
	b.WriteByte('0')
	for i := range len(digits) {
		if point && i == len(digits)/2 {
			b.WriteByte('.')
		}
		b.WriteByte('0' + digits[i]%10)
	}
	return b.String() + "e" + strconv.Itoa(int(exponent)%175)
}

// FuzzShapedArithmetic: sums, differences and order of numbers at the limits of 38 digits and of
// the range equal those of math/big. They are errors exactly when the operands or the result
// cannot be stored.
func FuzzShapedArithmetic(f *testing.F) {
	nines := strings.Repeat("9", 38)
	f.Add(nines, int16(0), false, false, "1", int16(0), false, false)
	f.Add(nines, int16(0), false, false, "1", int16(0), true, false)
	f.Add(nines, int16(0), false, false, "5", int16(-1), false, false)
	f.Add(nines, int16(88), false, false, "1", int16(88), false, false)
	f.Add(nines+"9", int16(0), false, false, "1", int16(0), false, false)
	f.Add("1", int16(-130), false, false, "15", int16(-130), true, false)
	f.Add("1", int16(37), false, false, "1", int16(0), false, true)
	f.Add("1", int16(38), false, false, "1", int16(0), true, true)
	f.Add("123456789012345678", int16(0), true, false, "999999999999999999", int16(0), true, false)
	f.Fuzz(func(t *testing.T, d1 string, e1 int16, neg1, point1 bool, d2 string, e2 int16, neg2, point2 bool) {
		a, b := shaped(d1, e1, neg1, point1), shaped(d2, e2, neg2, point2)
		x, y := exact(t, a), exact(t, b)
		fit := storable(x) && storable(y)
		check := func(op, got string, err error, want *big.Rat) {
			if ok := fit && storable(want); (err == nil) != ok {
				t.Errorf("%s %s %s: got %q, %v; storable %v", a, op, b, got, err, ok)
			} else if ok && exact(t, got).Cmp(want) != 0 {
				t.Errorf("%s %s %s: got %s", a, op, b, got)
			}
		}
		sum, err := value.AddNumbers(a, b)
		check("+", sum, err, new(big.Rat).Add(x, y))
		difference, err := value.SubNumbers(a, b)
		check("-", difference, err, new(big.Rat).Sub(x, y))
		if order, ok := value.Compare(num(a), num(b)); ok != fit || ok && order != x.Cmp(y) {
			t.Errorf("compare %s, %s: got %d, %v", a, b, order, ok)
		}
		stored, err := normal(a)
		if (err == nil) != storable(x) || err == nil && exact(t, stored).Cmp(x) != 0 {
			t.Errorf("%s is stored as %q, %v", a, stored, err)
		}
		if err == nil && value.SizeOf(num(stored)) > 22 {
			t.Errorf("%s takes %d bytes", stored, value.SizeOf(num(stored)))
		}
	})
}
