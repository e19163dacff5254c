package logs

import (
	"bytes"
	"math/big"
	"strconv"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/store"
)

// event reads an event from a line.
func (l *Reader) event(line []byte, e *replay.Event) (err error) {
	clear(l.values)
	if err := l.fields.split(line, l.values); err != nil {
		return err
	}
	if e.At, err = l.instant(); err != nil {
		return err
	}
	e.Resource, e.Parent = l.o.ResourceIs, ""
	if e.Entity, err = l.name(l.places.entity, l.o.Entity); err != nil {
		return err
	}
	if l.places.resource >= 0 {
		if string(l.values[l.places.resource].text) != l.last || l.last == "" {
			if l.last, err = l.name(l.places.resource, l.o.Resource); err != nil {
				return err
			}
		}
		e.Resource = l.last
	}
	if l.places.parent >= 0 && !l.values[l.places.parent].isAbsent() {
		if e.Parent, err = l.name(l.places.parent, l.o.Parent); err != nil {
			return err
		}
	}
	return l.amounts(e)
}

// instant is the time of the line, in milliseconds since the epoch.
func (l *Reader) instant() (int64, error) {
	v := &l.values[l.places.time]
	text := v.text
	if l.places.date >= 0 {
		date := &l.values[l.places.date]
		if v.isAbsent() || date.isAbsent() {
			return 0, &columnError{l.o.Date + " and " + l.o.Time, errMissing}
		}
		l.clock.joined = append(append(append(l.clock.joined[:0], date.text...), ' '), text...)
		text = l.clock.joined
	}
	if v.isOther {
		return 0, &columnError{l.o.Time, notText(v)}
	}
	at, err := l.clock.parse(text)
	if err != nil {
		return 0, &columnError{l.o.Time, err}
	}
	return at, nil
}

// name is the text of a column that has a name.
func (l *Reader) name(place int, column string) (string, error) {
	v := &l.values[place]
	switch {
	case v.isOther:
		return "", &columnError{column, notText(v)}
	case v.isAbsent():
		return "", &columnError{column, errMissing}
	}
	return string(v.text), nil
}

// amounts reads the costs. An event counts for the limits of which it has a cost; one that
// has none at all is malformed.
func (l *Reader) amounts(e *replay.Event) error {
	e.Amounts = e.Amounts[:0]
	known := len(l.o.Costs) == 0
	if l.lacking {
		clear(l.lacks)
		l.lacking = false
	}
	for i := range l.o.Costs {
		c := &l.o.Costs[i]
		tokens, err := c.Tokens, error(nil)
		if place := l.places.costs[i]; place >= 0 {
			tokens, err = c.read(&l.values[place])
		}
		if err == nil {
			known = true
		} else {
			l.lacks[i], l.lacking = err, true
		}
		to := l.places.amounts[i]
		if to == len(e.Amounts) {
			e.Amounts = append(e.Amounts, 0)
		}
		if e.Amounts[to] += tokens; e.Amounts[to] > store.MaxTokens {
			return &columnError{c.Column, &lineError{problem: "with other costs of " + c.Limit + " it is more than 10^15 tokens"}}
		}
	}
	if !known {
		return l.lacks[0]
	}
	return nil
}

// read reads the tokens in a column.
func (c *Cost) read(v *value) (int64, error) {
	switch {
	case v.isOther:
		return 0, &columnError{c.Column, notText(v)}
	case len(v.text) == 0:
		return 0, &columnError{c.Column, errMissing}
	case isAbsent(v.text):
		return 0, nil // "-"
	}
	tokens, ok := whole(v.text)
	if !ok || c.Factor != 0 {
		tokens, ok = c.product(v.text)
	}
	if !ok {
		return 0, &columnError{c.Column, &valueError{v.text, "give a whole number of tokens from 0 to 10^15"}}
	}
	return tokens, nil
}

// whole reads digits, also with zeros behind a decimal point.
func whole(text []byte) (n int64, ok bool) {
	const most = 16 // digits of MaxTokens
	for i, c := range text {
		if c == '.' && i > 0 && i+1 < len(text) {
			return n, len(bytes.Trim(text[i+1:], "0")) == 0 && n <= store.MaxTokens
		}
		if c < '0' || c > '9' || i >= most {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= store.MaxTokens
}

// product reads any decimal number, and multiplies it by the factor. Without a factor the
// number must be whole.
func (c *Cost) product(text []byte) (int64, bool) {
	const longest, huge, tiny = 64, 1e16, 1e-30 // bounds of what a big number takes
	if len(text) > longest || len(bytes.Trim(text, "+-.0123456789eE")) > 0 {
		return 0, false
	}
	about, err := strconv.ParseFloat(string(text), 64)
	if err != nil || about < 0 || about > huge {
		return 0, false
	}
	n := new(big.Rat)
	if about > tiny {
		if _, ok := n.SetString(string(text)); !ok {
			return 0, false
		}
	} else if c.Factor == 0 && about > 0 {
		return 0, false
	}
	if c.Factor > 0 {
		half := big.NewRat(1, 2)
		n.Add(n.Mul(n, new(big.Rat).SetInt64(c.Factor)), half)
		n.SetInt(new(big.Int).Quo(n.Num(), n.Denom()))
	}
	if !n.IsInt() || !n.Num().IsInt64() || n.Num().Int64() > store.MaxTokens {
		return 0, false
	}
	return n.Num().Int64(), true
}
