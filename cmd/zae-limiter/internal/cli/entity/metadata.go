package entity

import (
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// metadata is the value of a flag of key=value, separated by commas or in repeated flags.
type metadata map[string]string

// Set reads more pairs. Their keys must be new. A single pair may have commas in its value;
// among several, quotes enclose a pair with commas.
func (m *metadata) Set(s string) error {
	pairs := []string{s}
	if strings.Count(s, "=") != 1 {
		var err error
		if pairs, err = csv.NewReader(strings.NewReader(s)).Read(); err != nil {
			return errors.New(`give key=value, several between commas; a value with a comma is quoted: '"a=1,2",b=3'`)
		}
	}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return errors.New("give key=value, several between commas: team=core,tier=gold for instance")
		}
		if _, twice := (*m)[key]; twice {
			return fmt.Errorf("%s was given before: name each key once", key)
		}
		if *m == nil {
			*m = metadata{}
		}
		(*m)[key] = value
	}
	return nil
}

// String writes the pairs, sorted by key.
func (m *metadata) String() string {
	keys := slices.Sorted(maps.Keys(*m))
	for i, key := range keys {
		keys[i] = key + "=" + (*m)[key]
	}
	return strings.Join(keys, ",")
}

// Type is that of other flags with several strings.
func (*metadata) Type() string { return "strings" }

// IsCumulative says that the flag takes several pairs.
func (*metadata) IsCumulative() bool { return true }
