// Package stackarg has the flags that describe a stack, for the commands that make, change
// or print one.
package stackarg

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
	"github.com/zeroae/zae-limiter-go/store"
)

// Flags are the flags of a table of options. Without a flag, an option keeps its value.
type Flags[O any] struct {
	table option.Table[O]
	set   *pflag.FlagSet
	given O // what flags say; of an option with words, its word
	// opposites are the values of the flags that are the opposites of others.
	opposites map[string]*bool
	tags      Tags
}

// Bind adds the flags to those of a command.
func (f *Flags[O]) Bind(set *pflag.FlagSet, table option.Table[O]) {
	f.table, f.set, f.opposites, f.tags = table, set, map[string]*bool{}, Tags{}
	var defaults O
	table.SetDefaults(&defaults)
	for i := range table {
		if r := &table[i]; r.Text != "" {
			f.bind(r, r.Help(&defaults))
		}
	}
}

func (f *Flags[O]) bind(r *option.Row[O], help string) {
	switch v := r.Of(&f.given).(type) {
	case *int:
		f.set.IntVar(v, r.Flag, 0, help)
	case *bool:
		f.set.BoolVar(v, r.Flag, false, help)
		if r.Opposite != "" {
			f.opposites[r.Flag] = f.set.Bool(r.Opposite, false, "the opposite of --"+r.Flag)
		}
	case *string:
		if r.Words != nil {
			f.set.Var(app.Choice(v, r.Words...), r.Flag, help)
		} else {
			f.set.StringVar(v, r.Flag, "", help)
		}
	case *[]string:
		f.set.StringSliceVar(v, r.Flag, nil, help)
	case *time.Duration:
		f.set.DurationVar(v, r.Flag, 0, help)
	case *map[string]string:
		f.set.VarP(&f.tags, r.Flag, "t", help)
	}
}

// Apply sets the options of the flags that were given, and leaves the others alone. So a
// command that changes a stack begins with the options of the stack.
func (f *Flags[O]) Apply(o *O) {
	for i := range f.table {
		r := &f.table[i]
		switch {
		case r.Text == "":
		case f.set.Changed(r.Flag):
			f.apply(r, o)
		case r.Opposite != "" && f.set.Changed(r.Opposite):
			put(r.Of(o), !*f.opposites[r.Flag])
		}
	}
}

func (f *Flags[O]) apply(r *option.Row[O], o *O) {
	switch given := r.Of(&f.given).(type) {
	case *int:
		put(r.Of(o), *given)
	case *bool:
		put(r.Of(o), *given)
	case *string:
		value := *given
		if r.Words != nil {
			value = r.Values[slices.Index(r.Words, value)]
		}
		put(r.Of(o), value)
	case *[]string:
		list := make([]string, 0, len(*given))
		for _, item := range *given {
			list = append(list, strings.TrimSpace(item))
		}
		put(r.Of(o), list)
	case *time.Duration:
		put(r.Of(o), *given)
	}
	if all, ok := r.Of(o).(*map[string]string); ok {
		if *all = maps.Clone(*all); *all == nil {
			*all = map[string]string{}
		}
		maps.Copy(*all, f.tags)
	}
}

// put sets an option of the type of the value.
func put[T any](option any, value T) {
	if at, ok := option.(*T); ok {
		*at = value
	}
}

// Validate refuses a flag together with its opposite, and values that no stack takes.
func (f *Flags[O]) Validate() error {
	var o O
	f.table.SetDefaults(&o)
	f.Apply(&o)
	for i := range f.table {
		r := &f.table[i]
		if r.Text == "" || !f.set.Changed(r.Flag) {
			continue
		}
		if r.Opposite != "" && f.set.Changed(r.Opposite) {
			return fmt.Errorf("--%s and --%s contradict each other: give one of them", r.Flag, r.Opposite)
		}
		value, reason := r.Refused(&o)
		if n, ok := r.Of(&o).(*int); ok && *n < r.Min { // also a 0 that would mean no value
			value, reason = strconv.Itoa(*n), r.Range()
		}
		if reason != "" {
			return &store.ValidationError{Field: "--" + r.Flag, Value: value, Reason: reason}
		}
	}
	return nil
}

// Spec checks options as [deploy.New] does. An error names the flag that sets the option.
func Spec(o deploy.Options) (*deploy.Spec, error) {
	spec, err := deploy.New(o)
	return spec, NameFlag(deploy.OptionTable, err)
}

// NameFlag makes the error of an option name the flag that sets it.
func NameFlag[O any](table option.Table[O], err error) error {
	bad := (*store.ValidationError)(nil)
	if !errors.As(err, &bad) {
		return err
	}
	if flag := table.FlagOf(bad.Field); flag != "" {
		return &store.ValidationError{Field: "--" + flag, Value: bad.Value, Reason: bad.Reason}
	}
	return err
}

// Tags is the value of the flag of tags.
type Tags map[string]string

// Set reads one more tag. Its key must be new.
func (t *Tags) Set(s string) error {
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" {
		return errors.New("give KEY=VALUE, team=core for instance")
	}
	if _, twice := (*t)[key]; twice {
		return fmt.Errorf("tag %s was given before: give each key once", key)
	}
	(*t)[key] = value
	return nil
}

// String writes the tags in the form of the flag.
func (t *Tags) String() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(*t)) {
		parts = append(parts, key+"="+(*t)[key])
	}
	return strings.Join(parts, " ")
}

// Type is the value's name in help.
func (*Tags) Type() string { return "KEY=VALUE" }

// IsCumulative says that the flag takes several tags.
func (*Tags) IsCumulative() bool { return true }
