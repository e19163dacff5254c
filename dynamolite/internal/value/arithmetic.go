package value

import (
	"math/big"
	"strconv"
)

// AddNumbers returns a + b in stored form. It returns an [*Error] for an operand that is
// not a number. It also returns one for a sum that leaves the range of numbers or needs more than
// 38 significant digits.
//
// A sum that needs more than 38 digits is refused and not rounded, as on AWS: 1e38 + 1 is an error.
// So a counter never loses what was added to it.
func AddNumbers(a, b string) (string, error) {
	m, ok1 := smallInt(a)
	n, ok2 := smallInt(b)
	if ok1 && ok2 {
		return strconv.FormatInt(m+n, 10), nil
	}
	return compute((*big.Int).Add, a, b)
}

// SubNumbers returns a - b in stored form, with the errors of [AddNumbers].
func SubNumbers(a, b string) (string, error) {
	m, ok1 := smallInt(a)
	n, ok2 := smallInt(b)
	if ok1 && ok2 {
		return strconv.FormatInt(m-n, 10), nil
	}
	return compute((*big.Int).Sub, a, b)
}

// compute works on integers: both operands are multiples of the smaller of their last digits. The
// range of numbers bounds the integers to 294 digits. normalNumber then reads the result like any
// other number, so a sum has the limits and errors of a number that is put.
func compute(op func(z, x, y *big.Int) *big.Int, a, b string) (string, error) {
	var x, y decimal
	if err := parseDecimal(a, &x); err != nil {
		return "", err
	}
	if err := parseDecimal(b, &y); err != nil {
		return "", err
	}
	unit := min(x.unit(), y.unit())
	result := op(new(big.Int), x.in(unit), y.in(unit))
	text := append(result.Append(nil, 10), 'E')
	return normalNumber(string(strconv.AppendInt(text, int64(unit), 10)))
}

// unit is the exponent of the last digit.
func (d *decimal) unit() int { return d.exp - max(d.n-1, 0) }

// in is d as a multiple of 10^unit. The unit is at most that of d. Nothing is rounded: the scale is
// a power of ten with an exponent of 0 or more.
func (d *decimal) in(unit int) *big.Int {
	const base = 10
	v := new(big.Int)
	if d.n == 0 {
		return v
	}
	v.SetString(string(d.digits[:d.n]), base) // digits
	scale := big.NewInt(int64(d.unit() - unit))
	v.Mul(v, scale.Exp(big.NewInt(base), scale, nil))
	if d.neg {
		v.Neg(v)
	}
	return v
}
