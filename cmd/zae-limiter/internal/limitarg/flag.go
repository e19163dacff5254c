package limitarg

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// Limits is the value of a flag of limits, separated by commas or in repeated flags.
type Limits []store.Limit

// Set reads more limits. Their names must be new.
func (v *Limits) Set(s string) error {
	for _, part := range split(s) {
		l, err := Parse(part)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(*v, func(before store.Limit) bool { return before.Name == l.Name }) {
			return fmt.Errorf("limit %s was given before: name each limit once", l.Name)
		}
		*v = append(*v, l)
	}
	return nil
}

// String writes the limits in the form of the flag.
func (v *Limits) String() string {
	parts := make([]string, len(*v))
	for i, l := range *v {
		parts[i] = Format(l)
	}
	return strings.Join(parts, ",")
}

// Type is the value's name in help.
func (*Limits) Type() string { return "name:rate[/period][:burst]" }

// IsCumulative says that the flag takes several limits.
func (*Limits) IsCumulative() bool { return true }

// Amounts is the value of a flag of tokens by limit name: name=tokens, separated by commas
// or in repeated flags.
type Amounts map[string]int64

// Set reads more amounts. Their names must be new.
func (v *Amounts) Set(s string) error {
	if *v == nil {
		*v = Amounts{}
	}
	for part := range strings.SplitSeq(s, ",") {
		name, tokens, ok := strings.Cut(part, "=")
		if !ok {
			return errors.New("write name=tokens, several between commas: rpm=1,tpm=500 for instance")
		}
		if err := store.CheckLimitName(name); err != nil {
			return err
		}
		n, err := number(tokens)
		if err != nil || n < 0 || n > store.MaxTokens {
			return fmt.Errorf("tokens %q of %s: give a whole number from 0 to %d", tokens, name, int64(store.MaxTokens))
		}
		if _, dup := (*v)[name]; dup {
			return fmt.Errorf("%s was given before: name each limit once", name)
		}
		(*v)[name] = n
	}
	return nil
}

// String writes the amounts in the form of the flag, sorted by name.
func (v *Amounts) String() string {
	names := slices.Sorted(maps.Keys(*v))
	for i, name := range names {
		names[i] = name + "=" + strconv.FormatInt((*v)[name], 10)
	}
	return strings.Join(names, ",")
}

// Type is the value's name in help.
func (*Amounts) Type() string { return "name=tokens" }

// IsCumulative says that the flag takes several amounts.
func (*Amounts) IsCumulative() bool { return true }
