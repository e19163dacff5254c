// Package option describes the options of a stack in a table with a row for each. From the
// table come the defaults, the checks, the parameters of the template in both directions, and
// the flags of the command line with their help.
package option

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Table has the options O of a stack, in the order of the template's parameters.
type Table[O any] []Row[O]

// A Row is an option of a stack, or a parameter that follows from options.
type Row[O any] struct {
	// Name is the name of the option, as errors have it. Of returns a pointer to it: to an
	// int, a bool, a string, a list of strings, a time, or a map of tags.
	Name string
	Of   func(*O) any

	// Parameter is that of the template, and Default its default. A required one has none in
	// the template. A number without a default is the empty parameter while it is 0.
	Parameter, Default string
	Required           bool
	// Get and Set write and read a parameter whose text is not the usual one of Of: a time in
	// whole seconds, and a list with commas. Without Set and Of, the parameter is not read.
	Get func(*O) string
	Set func(*O, string) error

	// Flag sets the option, and Opposite its contrary. Text is the help of the flag:
	// {default} stands for the default and {bounds} for the bounds. Without a text, the
	// command has a flag of its own.
	Flag, Opposite, Text string

	// Min and Max bound a number, and a time in seconds; without Max it has no bounds.
	Min, Max int
	// Values are all that a text or number may be, and of a bool what the parameter is for
	// false and for true. Words are what the flag has for them, if it refuses other words.
	Values, Words []string
	// Pattern matches a text; an empty one only if it is required.
	Pattern func() *regexp.Regexp
	// Rule says what to give instead of a value that is refused; "" names bounds or values.
	Rule string
	// Check is what bounds, values and pattern do not say, nil for nothing.
	Check func(*O) error
}

// Pattern is an expression that is compiled when it is first used: most commands of a program
// check no option.
func Pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// SetDefaults sets every option that has a default.
func (t Table[O]) SetDefaults(o *O) {
	for i := range t {
		if r := &t[i]; r.Default != "" {
			if err := r.set(o, r.Default); err != nil {
				panic(fmt.Sprintf("option: the default of %s: %v", r.Parameter, err)) // each stack has a test
			}
		}
	}
}

// Check returns the error of the first option that is refused, a [*store.ValidationError].
func (t Table[O]) Check(o *O) error {
	for i := range t {
		r := &t[i]
		if value, reason := r.Refused(o); reason != "" {
			return &store.ValidationError{Field: r.Name, Value: value, Reason: reason}
		}
		if r.Check == nil {
			continue
		}
		if err := r.Check(o); err != nil {
			return err
		}
	}
	return nil
}

// Parameters iterates over the parameters of the template and their values.
func (t Table[O]) Parameters(o *O) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		for i := range t {
			if r := &t[i]; r.Parameter != "" && !yield(r.Parameter, r.get(o)) {
				return
			}
		}
	}
}

// Read sets the options of parameters. A parameter that is not among them, or empty, changes
// nothing; those that no row has do not count. One that cannot be read gives a
// [*store.ValidationError].
func (t Table[O]) Read(parameters map[string]string, o *O) error {
	for i := range t {
		r := &t[i]
		value := parameters[r.Parameter]
		if value == "" {
			continue
		}
		if err := r.set(o, value); err != nil {
			return &store.ValidationError{Field: "parameter " + r.Parameter, Value: value, Reason: err.Error()}
		}
	}
	return nil
}

// FlagOf is the flag of the option with a name, "" if it has none.
func (t Table[O]) FlagOf(name string) string {
	if i := slices.IndexFunc(t, func(r Row[O]) bool { return r.Name == name }); i >= 0 {
		return t[i].Flag
	}
	return ""
}

// get is the value of the parameter.
func (r *Row[O]) get(o *O) string {
	if r.Get != nil {
		return r.Get(o)
	}
	switch v := r.Of(o).(type) {
	case *int:
		if *v != 0 || r.Default != "" {
			return strconv.Itoa(*v)
		}
	case *bool:
		return r.switched(*v)
	case *string:
		return *v
	case *[]string:
		return strings.Join(*v, ",")
	case *time.Duration:
		return strconv.Itoa(int(*v / time.Second))
	}
	return ""
}

// set reads the value of the parameter.
func (r *Row[O]) set(o *O, value string) (err error) {
	switch {
	case r.Set != nil:
		return r.Set(o, value)
	case r.Of == nil:
		return nil
	}
	switch v := r.Of(o).(type) {
	case *int:
		*v, err = Integer(value)
	case *bool:
		if *v = value == r.switched(true); !*v && value != r.switched(false) {
			err = fmt.Errorf("give %s or %s", r.switched(false), r.switched(true))
		}
	case *string:
		*v = value
	case *[]string:
		*v = strings.Split(strings.ReplaceAll(value, " ", ""), ",")
	case *time.Duration:
		var seconds int
		seconds, err = Integer(value)
		*v = time.Duration(seconds) * time.Second
	}
	return err
}

// switched is the parameter of a bool.
func (r *Row[O]) switched(on bool) string {
	switch {
	case len(r.Values) == 0:
		return strconv.FormatBool(on)
	case on:
		return r.Values[1]
	}
	return r.Values[0]
}

// Refused says why bounds, values or pattern refuse the option, whatever the others are. The
// reason is "" if they do not.
func (r *Row[O]) Refused(o *O) (value, reason string) {
	if r.Of == nil {
		return "", ""
	}
	switch v := r.Of(o).(type) {
	case *int:
		value = strconv.Itoa(*v)
		if unset := *v == 0 && r.Default == ""; !unset && (r.Max > 0 && (*v < r.Min || *v > r.Max) || r.Values != nil && !slices.Contains(r.Values, value)) {
			return value, r.rule()
		}
	case *time.Duration:
		least, most := time.Duration(r.Min)*time.Second, time.Duration(r.Max)*time.Second
		if r.Max > 0 && (*v < least || *v > most || *v%time.Second != 0) {
			return v.String(), r.rule()
		}
	case *string:
		if given := *v != "" || r.Required || r.Default != ""; given && r.wrong(*v) {
			return *v, r.rule()
		}
	case *[]string:
		if i := slices.IndexFunc(*v, r.wrong); i >= 0 {
			return (*v)[i], r.rule()
		}
	}
	return "", ""
}

// wrong reports whether values or pattern refuse a text.
func (r *Row[O]) wrong(text string) bool {
	return r.Values != nil && !slices.Contains(r.Values, text) || r.Pattern != nil && !r.Pattern().MatchString(text)
}

// rule says what to give.
func (r *Row[O]) rule() string {
	switch {
	case r.Rule != "":
		return r.Rule
	case r.Values != nil:
		return "choose from " + strings.Join(r.Values, ", ")
	}
	return r.Range()
}

// Range says between which numbers to give one.
func (r *Row[O]) Range() string { return fmt.Sprintf("give %d to %d", r.Min, r.Max) }

// Help is the help of the flag.
func (r *Row[O]) Help(defaults *O) string {
	usual, least, most := "", strconv.Itoa(r.Min), strconv.Itoa(r.Max)
	switch v := r.Of(defaults).(type) {
	case *int:
		usual = strconv.Itoa(*v)
	case *bool:
		usual = map[bool]string{true: "on", false: "off"}[*v]
	case *string:
		if usual = *v; r.Words != nil {
			usual = r.Words[slices.Index(r.Values, usual)]
		}
	case *[]string:
		usual = strings.Join(*v, ",")
	case *time.Duration:
		usual = short(*v)
		least, most = short(time.Duration(r.Min)*time.Second), short(time.Duration(r.Max)*time.Second)
	}
	return strings.NewReplacer("{default}", "(default "+usual+")", "{bounds}", least+" to "+most).Replace(r.Text)
}

// short writes a time without parts that are 0.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

// Integer reads a whole number.
func Integer(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, errors.New("give a whole number")
	}
	return n, nil
}
