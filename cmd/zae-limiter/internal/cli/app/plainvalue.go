package app

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Strict makes a flag refuse what pflag lets pass, and say what to give.
func Strict(f *pflag.Flag) {
	plain(f)
	once(f)
}

// plain makes a flag of a number, a time or a truth value say what to give, in the words of a
// shell; pflag passes on errors of Go's parsers. A time may have days, of 24 hours, in front.
// plain leaves alone values that are not pflag's, whatever type they name: their errors are
// this program's.
func plain(f *pflag.Flag) {
	if t := reflect.TypeOf(f.Value); t.Kind() != reflect.Pointer || t.Elem().PkgPath() != reflect.TypeFor[pflag.Flag]().PkgPath() {
		return
	}
	switch f.Value.Type() {
	case "int", "int64", "uint64":
		f.Value = &plainValue{Value: f.Value, want: "give a whole number", is: isWhole}
	case "float64":
		f.Value = &plainValue{Value: f.Value, want: "give a number, 0.5 for instance", is: isDecimal}
	case "bool":
		f.Value = &plainValue{Value: f.Value, want: "give true or false"}
	case "duration":
		f.Value = &plainValue{Value: f.Value, want: "give a time: 90s, 1.5h or 1d for instance", read: hours}
		if f.DefValue == time.Duration(0).String() {
			f.DefValue = "0" // which help leaves out
		}
	}
}

// A plainValue is the value of a flag with an error of its own. is, if there is one, says what
// may be given at all; read writes what was given as pflag reads it.
type plainValue struct {
	pflag.Value

	want string
	is   func(string) bool
	read func(string) string
}

// isWhole reports whether a text is a whole number as people write it. pflag reads numbers as
// Go's source has them, where 010 is eight.
func isWhole(s string) bool {
	digits := strings.TrimLeft(s, "+-")
	return len(s)-len(digits) <= 1 && strings.Trim(digits, "0123456789") == "" && (digits == "0" || !strings.HasPrefix(digits, "0"))
}

// isDecimal reports whether a text is made as a decimal number is: Go's parser also accepts
// hexadecimal numbers, infinity, and what is no number.
func isDecimal(s string) bool { return strings.Trim(s, "+-.0123456789eE") == "" }

// Set reads the value.
func (v *plainValue) Set(s string) error {
	if v.is != nil && !v.is(s) {
		return errors.New(v.want)
	}
	if v.read != nil {
		s = v.read(s)
	}
	switch err := v.Value.Set(s); {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("the number is too large: " + v.want)
	case err != nil:
		return errors.New(v.want)
	}
	return nil
}

// hours writes a time whose first part is days in the units of Go, and leaves any other text as
// it is.
func hours(s string) string {
	const ofDay = 24
	days, rest, ok := strings.Cut(s, "d")
	d, err := time.ParseDuration(days + "h")
	if !ok || strings.Trim(days, "+-.0123456789") != "" || err != nil || d.Abs() > math.MaxInt64/ofDay {
		return s
	}
	return (d * ofDay).String() + rest
}
