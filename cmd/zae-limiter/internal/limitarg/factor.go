package limitarg

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// Factors is the value of a flag of factors by limit name, in thousandths: name:xfactor,
// separated by commas or in repeated flags.
type Factors map[string]int64

// Set reads more factors. Their names must be new.
func (v *Factors) Set(s string) error {
	const thousand, most = 1000, 1e6
	if *v == nil {
		*v = Factors{}
	}
	for part := range strings.SplitSeq(s, ",") {
		name, text, ok := strings.Cut(part, ":x")
		factor, err := strconv.ParseFloat(text, 64)
		permille := int64(math.RoundToEven(min(factor, most) * thousand))
		if !ok || err != nil || factor > most || permille < 1 {
			return fmt.Errorf("%q: write name:xfactor, rpm:x2 for instance, with a factor from 0.001 to 1000000", part)
		}
		if err := store.CheckLimitName(name); err != nil {
			return err
		}
		if _, before := (*v)[name]; before {
			return fmt.Errorf("limit %s was given before: name each limit once", name)
		}
		(*v)[name] = permille
	}
	return nil
}

// String writes the factors in the form of the flag.
func (v *Factors) String() string {
	parts := make([]string, 0, len(*v))
	for _, name := range slices.Sorted(maps.Keys(*v)) {
		parts = append(parts, name+":x"+store.ScheduleEntry{Permille: (*v)[name]}.Scale())
	}
	return strings.Join(parts, ",")
}

// Type is the value's name in help.
func (*Factors) Type() string { return "name:xfactor" }

// IsCumulative says that the flag takes several factors.
func (*Factors) IsCumulative() bool { return true }
