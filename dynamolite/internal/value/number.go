package value

import (
	"cmp"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Limits of a DynamoDB number: 38 significant digits, magnitude from 1e-130 to
// below 1e126 ("Supported data types and naming rules in Amazon DynamoDB"). The exponents are those
// of the first digit.
const (
	maxDigits   = 38
	maxExponent = 125
	minExponent = -130
)

// smallDigits is a number of decimal digits: the sum of two operands of that many digits does not
// overflow an int64. So [AddNumbers] of two such operands needs no check. They are also what
// counters, times and balances in thousandths have.
const smallDigits = 18

// Messages as AWS words them.
const (
	msgOverflow  = "Number overflow. Attempting to store a number with magnitude larger than supported range"
	msgUnderflow = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
	msgDigits    = "Attempting to store more than 38 significant digits in a Number"
	msgSyntax    = "The parameter cannot be converted to a numeric value"
)

// A decimal is 0 if it has no digits, else ±d.ddd × 10^exp. The first and the last digit are not
// '0'. So a number has one form only, and comparing two needs no alignment of their digits.
//
// The naive design is a float64, which keeps about 16 of the 38 digits. Two keys that differ in the
// last one would then be one item. A big.Rat is exact, but allocates for each number and forgets
// how many digits it was written with, which is what the limit is about. A decimal lies on the
// stack.
//
// -0.0120 has the digits 12, the exponent -2 and neg. Zero has no digits, and its exponent means
// nothing.
type decimal struct {
	neg    bool
	n      int // digits in use
	exp    int // of the first digit
	digits [maxDigits]byte
}

// parseDecimal reads the syntax of numbers: an optional sign, digits with an optional point, an
// optional exponent. Of several mistakes the error has the first in this order: syntax, range,
// digits. A number is thus measured only once its exponent is known. Zero is in range whatever its
// exponent says, so it returns before that.
func parseDecimal(s string, d *decimal) error {
	d.neg, d.n, d.exp = false, 0, 0
	mantissa := 0
	if s != "" && (s[0] == '+' || s[0] == '-') {
		d.neg = s[0] == '-'
		mantissa = 1
	}
	end, digits, fits := d.parseMantissa(s, mantissa)
	if digits == 0 {
		return numberSyntax(s)
	}
	exponent, err := parseExponent(s, end, mantissa)
	if err != nil {
		return err
	}
	if d.n == 0 {
		d.neg = false
		return nil
	}
	d.exp += exponent
	switch {
	case d.exp > maxExponent:
		return &Error{msgOverflow}
	case d.exp < minExponent:
		return &Error{msgUnderflow}
	case !fits:
		return &Error{msgDigits}
	}
	return nil
}

// parseMantissa reads digits and a point from s[i:]. It returns where they end, how many digits
// there were, and whether the significant digits fit in d.
//
// Zeros count only if a significant digit follows: "1.500" has two digits. The reader cannot know
// this when it sees them, so it holds them back in trailing. It goes on after a digit too many: the
// place of the point still decides the exponent, and an error of range comes first.
func (d *decimal) parseMantissa(s string, i int) (end, digits int, fits bool) {
	fits = true
	point := -1   // digits before the point
	leading := 0  // zeros before the first significant digit
	trailing := 0 // zeros since the last digit kept: significant if one follows
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '.' && point < 0:
			point = digits
			continue
		case c < '0' || c > '9':
			d.place(digits, point, leading)
			return i, digits, fits
		case c != '0':
			fits = d.keep(c, trailing) && fits
			trailing = 0
		case d.n == 0:
			leading++
		default:
			trailing++
		}
		digits++
	}
	d.place(digits, point, leading)
	return i, digits, fits
}

// keep appends zeros and a digit, if there is room for them. The caller remembers a digit that did
// not fit; the number is then refused.
func (d *decimal) keep(c byte, zeros int) bool {
	if d.n+zeros+1 > maxDigits {
		return false
	}
	for range zeros {
		d.digits[d.n] = '0'
		d.n++
	}
	d.digits[d.n] = c
	d.n++
	return true
}

// place computes the exponent of the first significant digit. digits counts all of the mantissa.
// point counts those before the point, and is -1 if there is none.
func (d *decimal) place(digits, point, leading int) {
	if point < 0 {
		point = digits
	}
	d.exp = point - leading - 1
}

// parseExponent reads the exponent of s that starts at i, if there is one. It clamps an exponent
// of any length to ±limit. Beyond that, no number with a mantissa of this length is in range.
//
// The limit depends on the length, because the mantissa can balance an exponent. "0.000…1E1000" is
// in range if it has enough zeros. Without a limit, the sum of two exponents could overflow an int.
func parseExponent(s string, i, mantissa int) (int, error) {
	if i == len(s) {
		return 0, nil
	}
	if s[i] != 'e' && s[i] != 'E' {
		return 0, numberSyntax(s)
	}
	limit := len(s) - mantissa + 1000
	i++
	neg := false
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		neg = s[i] == '-'
		i++
	}
	if i == len(s) {
		return 0, numberSyntax(s)
	}
	exponent := 0
	for ; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, numberSyntax(s)
		}
		exponent = min(exponent*10+int(s[i]-'0'), limit)
	}
	if neg {
		exponent = -exponent
	}
	return exponent, nil
}

// numberSyntax quotes the text as AWS does. An empty text has no colon behind the message.
func numberSyntax(s string) error {
	if s == "" {
		return &Error{msgSyntax}
	}
	return &Error{msgSyntax + ": " + s}
}

// append writes d in plain notation, the stored form of numbers. AWS trims leading and trailing
// zeros and returns no exponents. DynamoDB Local keeps them in nested numbers and in updates; the
// recorded cases correct that. In one form, numbers in sets can be compared as strings.
func (d *decimal) append(dst []byte) []byte {
	if d.n == 0 {
		return append(dst, '0')
	}
	if d.neg {
		dst = append(dst, '-')
	}
	if d.exp < 0 {
		dst = append(dst, '0', '.')
		for range -d.exp - 1 {
			dst = append(dst, '0')
		}
		return append(dst, d.digits[:d.n]...)
	}
	whole := d.exp + 1 // digits before the point
	if whole >= d.n {
		dst = append(dst, d.digits[:d.n]...)
		for range whole - d.n {
			dst = append(dst, '0')
		}
		return dst
	}
	dst = append(dst, d.digits[:whole]...)
	dst = append(dst, '.')
	return append(dst, d.digits[whole:d.n]...)
}

// compare orders by value. Of two negative numbers, the one of the larger magnitude is less.
func (d *decimal) compare(e *decimal) int {
	switch {
	case d.n == 0 || e.n == 0 || d.neg != e.neg:
		return cmp.Compare(d.sign(), e.sign())
	case d.neg:
		return e.compareMagnitude(d)
	}
	return d.compareMagnitude(e)
}

// sign is for numbers that differ in sign, or of which one is 0: their digits need not be compared.
func (d *decimal) sign() int {
	switch {
	case d.n == 0:
		return 0
	case d.neg:
		return -1
	}
	return 1
}

// compareMagnitude compares the exponents first: the first digit is not zero, so a larger exponent
// is a larger number. If one list of digits begins with the other, the longer one is larger,
// because its last digit is not zero.
func (d *decimal) compareMagnitude(e *decimal) int {
	if d.exp != e.exp {
		return cmp.Compare(d.exp, e.exp)
	}
	for i := range min(d.n, e.n) {
		if d.digits[i] != e.digits[i] {
			return cmp.Compare(d.digits[i], e.digits[i])
		}
	}
	return cmp.Compare(d.n, e.n)
}

// smallInt reads s if it is an integer in stored form of at most smallDigits digits, as nearly all
// numbers in practice are. It accepts stored form only, so what it accepts needs no normalising:
// "007", "+7" and "-0" are left to parseDecimal.
func smallInt(s string) (int64, bool) {
	digits := s
	neg := len(s) > 0 && s[0] == '-'
	if neg {
		digits = s[1:]
	}
	if len(digits) == 0 || len(digits) > smallDigits || digits[0] == '0' && len(s) > 1 {
		return 0, false
	}
	var n int64
	for i := range len(digits) {
		c := digits[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	if neg {
		n = -n
	}
	return n, true
}

// normalNumber returns s in stored form; s itself if it already is. Returning s saves an allocation
// in nearly every case. The buffer holds the longest number in stored form.
func normalNumber(s string) (string, error) {
	if _, ok := smallInt(s); ok {
		return s, nil
	}
	var d decimal
	if err := parseDecimal(s, &d); err != nil {
		return "", err
	}
	var buf [maxExponent - minExponent + maxDigits]byte
	if out := d.append(buf[:0]); string(out) != s {
		return string(out), nil
	}
	return s, nil
}

// compareNumbers orders two numbers by value; a string that is not a number is not comparable.
//
// Two small integers need no decimal, so most keys and balances are compared as machine words.
func compareNumbers(a, b string) (order int, ok bool) {
	m, ok1 := smallInt(a)
	n, ok2 := smallInt(b)
	if ok1 && ok2 {
		return cmp.Compare(m, n), true
	}
	var d, e decimal
	if parseDecimal(a, &d) != nil || parseDecimal(b, &e) != nil {
		return 0, false
	}
	return d.compare(&e), true
}

// equalNumbers reports whether two numbers are equal by value. Two numbers in stored form are equal
// only if their texts are.
func equalNumbers(a, b string) bool {
	if a == b {
		return true
	}
	order, ok := compareNumbers(a, b)
	return ok && order == 0
}

// CompareInt orders an integer against v, which is comparable only if it is a number. It saves
// the caller the allocation of a value for the result of size().
func CompareInt(n int64, v AV) (order int, ok bool) {
	w, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	if m, ok := smallInt(w.Value); ok {
		return cmp.Compare(n, m), true
	}
	var d, e decimal
	var buf [20]byte
	if parseDecimal(string(strconv.AppendInt(buf[:0], n, 10)), &d) != nil || parseDecimal(w.Value, &e) != nil {
		return 0, false
	}
	return d.compare(&e), true
}
