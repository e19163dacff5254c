package limitarg

import (
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
	return setAmounts(*v, s, "=", 0)
}

// setAmounts reads amounts with a separator between name and tokens, of which there are at least so many.
func setAmounts(amounts map[string]int64, s, separator string, least int64) error {
	for part := range strings.SplitSeq(s, ",") {
		name, tokens, ok := strings.Cut(part, separator)
		if !ok {
			return fmt.Errorf("write name%[1]stokens, several between commas: rpm%[1]s1,tpm%[1]s500 for instance", separator)
		}
		if err := store.CheckLimitName(name); err != nil {
			return err
		}
		n, err := number(tokens)
		if err != nil || n < least || n > store.MaxTokens {
			return fmt.Errorf("tokens %q of %s: give a whole number from %d to %d", tokens, name, least, int64(store.MaxTokens))
		}
		if _, dup := amounts[name]; dup {
			return fmt.Errorf("%s was given before: name each limit once", name)
		}
		amounts[name] = n
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

// TopUps is the value of a flag of tokens that limits get: name:tokens, separated by commas or in
// repeated flags.
type TopUps map[string]int64

// Set reads more amounts. Their names must be new.
func (v *TopUps) Set(s string) error {
	if *v == nil {
		*v = TopUps{}
	}
	return setAmounts(*v, s, ":", 1)
}

// String writes the amounts in the form of the flag, sorted by name.
func (v *TopUps) String() string { return strings.ReplaceAll((*Amounts)(v).String(), "=", ":") }

// Type is the value's name in help.
func (*TopUps) Type() string { return "name:tokens" }

// IsCumulative says that the flag takes several amounts.
func (*TopUps) IsCumulative() bool { return true }
