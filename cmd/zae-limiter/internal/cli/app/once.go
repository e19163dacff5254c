package app

import (
	"errors"

	"github.com/spf13/pflag"
)

// ErrTwice is the error of a flag that takes one value and got another.
var ErrTwice = errors.New("given twice")

// once makes a flag refuse a second value, of which pflag would keep the last. A flag that
// takes several values keeps all.
func once(f *pflag.Flag) {
	if !IsCumulative(f.Value) {
		f.Value = &single{Value: f.Value}
	}
}

// IsCumulative reports whether a flag takes several values: pflag's lists do, and a value that
// says so.
func IsCumulative(v pflag.Value) bool {
	if _, ok := v.(pflag.SliceValue); ok {
		return true
	}
	several, ok := v.(interface{ IsCumulative() bool })
	return ok && several.IsCumulative()
}

// A single value is set once.
type single struct {
	pflag.Value

	given bool
}

// Set sets the value, unless it is set.
func (v *single) Set(s string) error {
	if v.given {
		return ErrTwice
	}
	v.given = true
	return v.Value.Set(s)
}

// Repeatable is a flag's value that may be set again.
func Repeatable(f *pflag.Flag) pflag.Value {
	if v, ok := f.Value.(*single); ok {
		return v.Value
	}
	return f.Value
}
