// Package parameter says once for each parameter of a template which option it has, so that
// the options of a stack can be written to its parameters and read back from them.
package parameter

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// Placeholder stands for the name of a component in the format of a name.
const Placeholder = "{}"

// A Parameter is a field of the options O, in both directions. Set is nil where the value
// follows from other fields.
type Parameter[O any] struct {
	Key string
	Get func(*O) string
	Set func(*O, string) error
}

// Pattern is an expression that is compiled when it is first used: most commands of a program
// check no parameter.
func Pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// Read sets the options that values has. A parameter that values does not have, or has
// empty, changes nothing, and values of other keys are ignored. A value that cannot be read
// gives a [*store.ValidationError].
func Read[O any](all []Parameter[O], values map[string]string, o *O) error {
	for _, p := range all {
		value := values[p.Key]
		if value == "" || p.Set == nil {
			continue
		}
		if err := p.Set(o, value); err != nil {
			return &store.ValidationError{Field: "parameter " + p.Key, Value: value, Reason: err.Error()}
		}
	}
	return nil
}

// Text is a field that is written as it is.
func Text[O any, T ~string](key string, field func(*O) *T) Parameter[O] {
	return Parameter[O]{
		key,
		func(o *O) string { return string(*field(o)) },
		func(o *O, v string) error { *field(o) = T(v); return nil },
	}
}

// List is a field of texts that do not have the separator in them.
func List[O any](key, separator string, field func(*O) *[]string) Parameter[O] {
	return Parameter[O]{
		key,
		func(o *O) string { return strings.Join(*field(o), separator) },
		func(o *O, v string) error { *field(o) = strings.Split(v, separator); return nil },
	}
}

// Number is a field with a whole number.
func Number[O any](key string, field func(*O) *int) Parameter[O] {
	return Parameter[O]{
		key,
		func(o *O) string { return strconv.Itoa(*field(o)) },
		func(o *O, v string) (err error) { *field(o), err = Integer(v); return err },
	}
}

// Optional is a number whose 0 is the empty parameter.
func Optional[O any](key string, field func(*O) *int) Parameter[O] {
	p := Number(key, field)
	full := p.Get
	p.Get = func(o *O) string {
		if *field(o) == 0 {
			return ""
		}
		return full(o)
	}
	return p
}

// Seconds is a duration, which the parameter has in whole seconds.
func Seconds[O any](key string, field func(*O) *time.Duration) Parameter[O] {
	return Parameter[O]{
		key,
		func(o *O) string { return strconv.Itoa(int(*field(o) / time.Second)) },
		func(o *O, v string) error {
			n, err := Integer(v)
			*field(o) = time.Duration(n) * time.Second
			return err
		},
	}
}

// Flag is a field that is true where the parameter is.
func Flag[O any](key string, field func(*O) *bool) Parameter[O] {
	return Choice(key, "false", "true", field)
}

// Without is a field that is true where the parameter is false.
func Without[O any](key string, field func(*O) *bool) Parameter[O] {
	return Choice(key, "true", "false", field)
}

// Choice is a field with one word for false and one for true.
func Choice[O any](key, no, yes string, field func(*O) *bool) Parameter[O] {
	return Parameter[O]{
		key,
		func(o *O) string {
			if *field(o) {
				return yes
			}
			return no
		},
		func(o *O, v string) error {
			if v != no && v != yes {
				return fmt.Errorf("give %s or %s", no, yes)
			}
			*field(o) = v == yes
			return nil
		},
	}
}

// Constant has the same value in every stack.
func Constant[O any](key, value string) Parameter[O] {
	return Parameter[O]{Key: key, Get: func(*O) string { return value }}
}

// Prefix is what a format has before the placeholder: a template cannot take a format apart.
func Prefix[O any](key string, format func(*O) *string) Parameter[O] {
	return Parameter[O]{
		key,
		func(o *O) string { before, _, _ := strings.Cut(*format(o), Placeholder); return before },
		func(o *O, v string) error { *format(o) = v + Placeholder; return nil },
	}
}

// Suffix is what a format has after the placeholder. Its parameter follows the prefix.
func Suffix[O any](key string, format func(*O) *string) Parameter[O] {
	return Parameter[O]{
		key,
		func(o *O) string { _, after, _ := strings.Cut(*format(o), Placeholder); return after },
		func(o *O, v string) error { *format(o) = cmp.Or(*format(o), Placeholder) + v; return nil },
	}
}

// Integer reads a whole number.
func Integer(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, errors.New("give a whole number")
	}
	return n, nil
}
