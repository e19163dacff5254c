package loadtest

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// Options configure a run. Scenario, API and Table are required.
type Options struct {
	Scenario *scenario.Scenario
	// API is the DynamoDB. The measurement includes the API's own retries; a request and
	// its retries count as one.
	API dynamo.API
	// Table is created if it does not exist. The side [scenario.Bare] has a table of the
	// same name with "-bare" appended, whose GSI2 projects whole items. Neither is deleted.
	Table string
	// Namespace is registered for the run; "" is load- and eight random characters. Sides
	// after the first have namespaces of their own, with the side's name appended. The run
	// deletes its items and its names at the end.
	Namespace string
	// Keep leaves the namespaces and their items in place.
	Keep bool
	// MaxLag is how late the generator may be itself, at the 99th percentile. A run in
	// which it is later, and later than a tenth of the 99th percentile of the latency, is
	// unreliable. 0 is [DefaultMaxLag].
	MaxLag time.Duration
	// Slow, if not 0, is the duration above which samples count an operation as slow.
	Slow time.Duration
	// Target, Version and Prices describe the run in its result. Prices nil are the
	// built-in ones of us-east-1.
	Target, Version string
	Prices          *estimate.Prices
	// Region is the region of Prices, for the result; "" is [DefaultRegion].
	Region string

	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Logger receives what limiters cannot return; nil discards it.
	Logger *slog.Logger
	// Observe, if not nil, receives each sample, about one a second, and tells before a
	// measurement what is being prepared. Calls do not overlap.
	Observe func(Progress)
}

// A Progress is the state of a run.
type Progress struct {
	// Preparing says what happens before a measurement; "" during one.
	Preparing string
	Side      scenario.Side
	Phase     int
	// Done is the elapsed part of Planned, the time of all phases of all sides.
	Done, Planned time.Duration
	// Sample is the last interval; nil while something is prepared.
	Sample *result.Sample
}

// DefaultMaxLag is the default of [Options.MaxLag].
const DefaultMaxLag = 5 * time.Millisecond

// DefaultRegion is the default of [Options.Region].
const DefaultRegion = "us-east-1"

const (
	maxTableName = 255
	bareSuffix   = "-bare"
)

// withDefaults checks o and fills in the defaults.
func (o Options) withDefaults() (Options, *scenario.Plan, error) {
	if o.Scenario == nil {
		return o, nil, invalid("scenario", "", "give a scenario")
	}
	plan, err := o.Scenario.Plan()
	if err != nil {
		return o, nil, err
	}
	switch {
	case o.API == nil:
		return o, nil, invalid("API", "nil", "give a DynamoDB client, or an engine")
	case o.Table == "":
		return o, nil, invalid("table", "", "name the table")
	case slices.Contains(o.Scenario.Sides, scenario.Bare) && len(o.Table)+len(bareSuffix) > maxTableName:
		return o, nil, invalid("table", o.Table, "give a shorter name: another table is made with "+bareSuffix+" appended")
	case o.MaxLag < 0:
		return o, nil, invalid("max lag", o.MaxLag.String(), "give a duration above 0")
	case o.Slow < 0:
		return o, nil, invalid("slow", o.Slow.String(), "give a duration above 0")
	}
	if o.Namespace == "" {
		o.Namespace = fmt.Sprintf("load-%08x", rand.Uint32())
	}
	for i := range o.Scenario.Sides {
		if err := store.CheckNamespace(o.namespace(i)); err != nil {
			return o, nil, err
		}
	}
	o.MaxLag = cmp.Or(o.MaxLag, DefaultMaxLag)
	o.Region = cmp.Or(o.Region, DefaultRegion)
	if o.Prices == nil {
		if o.Prices, err = estimate.BuiltIn(o.Region); err != nil {
			return o, nil, err
		}
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(Progress) {}
	}
	return o, plan, nil
}

// namespace is the namespace of a side.
func (o Options) namespace(side int) string {
	if side == 0 {
		return o.Namespace
	}
	return o.Namespace + "-" + string(o.Scenario.Sides[side])
}

// table is the table of a side.
func (o Options) table(side scenario.Side) string {
	if side == scenario.Bare {
		return o.Table + bareSuffix
	}
	return o.Table
}

// invalid names an invalid option, its value and the remedy.
func invalid(option, value, reason string) error {
	return &store.ValidationError{Field: option, Value: value, Reason: reason}
}
