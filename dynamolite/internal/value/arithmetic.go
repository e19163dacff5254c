package value

import (
	"strconv"

	"github.com/cockroachdb/apd/v3"
)

// exact computes to 38 digits and reports when they are not enough.
var exact = apd.BaseContext.WithPrecision(maxDigits)

// AddNumbers returns a + b in stored form. It returns an [*Error] for a sum that needs more than
// 38 significant digits or leaves the range of numbers, and for an operand that is not a number.
func AddNumbers(a, b string) (string, error) {
	m, ok1 := smallInt(a)
	n, ok2 := smallInt(b)
	if ok1 && ok2 {
		return strconv.FormatInt(m+n, 10), nil
	}
	return compute(exact.Add, a, b)
}

// SubNumbers returns a - b in stored form, with the errors of [AddNumbers].
func SubNumbers(a, b string) (string, error) {
	m, ok1 := smallInt(a)
	n, ok2 := smallInt(b)
	if ok1 && ok2 {
		return strconv.FormatInt(m-n, 10), nil
	}
	return compute(exact.Sub, a, b)
}

func compute(op func(d, x, y *apd.Decimal) (apd.Condition, error), a, b string) (string, error) {
	var x, y, sum apd.Decimal
	if err := toDecimal(a, &x); err != nil {
		return "", err
	}
	if err := toDecimal(b, &y); err != nil {
		return "", err
	}
	cond, err := op(&sum, &x, &y)
	if err != nil {
		return "", &Error{msgOverflow}
	}
	if cond.Inexact() {
		return "", &Error{msgDigits}
	}
	return normalNumber(sum.Text('E'))
}

// toDecimal goes through stored form. It therefore rejects the same input as a write does, and
// does not accept syntax that only apd knows ("NaN").
func toDecimal(s string, d *apd.Decimal) error {
	s, err := normalNumber(s)
	if err != nil {
		return err
	}
	if _, _, err := d.SetString(s); err != nil {
		return numberSyntax(s)
	}
	return nil
}
