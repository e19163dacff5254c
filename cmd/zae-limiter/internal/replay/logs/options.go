package logs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultResource is the resource of every event of an access log, if the options name no
// column for it.
const DefaultResource = "requests"

// Options configure a [Reader].
type Options struct {
	// Name is the name of the file in reports of malformed lines.
	Name string
	// Format is the format of the file; "" is detected.
	Format Format
	// Time, Entity and Resource are columns. In JSON a column is a key of the object, or the
	// path to a key in objects within it, with dots between the keys; a key that has the dots
	// itself comes first. NAME[N] is one value of a list, which is an array or text with commas:
	// 0 is the first, and -1 the last. The defaults are "time", "entity" and "resource" in JSON
	// and CSV, and those of [Format] in others.
	Time, Entity, Resource string
	// Date is the column of the date, if it is not in that of the time. "" is no column, or
	// "date" in W3C.
	Date string
	// ResourceIs is the resource of every event, instead of a column. The default in access
	// logs is [DefaultResource].
	ResourceIs string
	// Parent is the column of the parent to which the request cascades. An empty value or
	// "-" is none. "" is no column.
	Parent string
	// Costs say what an event costs of each limit. The costs of one limit are added; the
	// amounts of an event have the order in which the limits come first.
	Costs []Cost
	// TimeLayout is the form of times as package time has it. The default "" accepts RFC 3339
	// and the other forms that databases, programs and servers write; and numbers since the
	// epoch: below 10^11 seconds, below 10^14 milliseconds, below 10^17 microseconds, and
	// others nanoseconds. A time without a zone is in UTC. A zone must be UTC, GMT or an offset.
	TimeLayout string
}

// A Cost says what an event costs of a limit.
type Cost struct {
	Limit string
	// Column holds the tokens: a whole number in any form (456, 456.0, 4.56e2), or "-" for 0. ""
	// takes Tokens.
	Column string
	Tokens int64
	// Factor multiplies what the column holds, which may then have a fraction: the product is
	// rounded to the nearest token. 0 is no factor.
	Factor int64
}

func (o *Options) validate() error {
	if err := o.Format.Validate(); err != nil {
		return err
	}
	if o.Resource != "" && o.ResourceIs != "" {
		return &store.ValidationError{Field: "resource", Value: o.Resource, Reason: "give a column or one name for all events, not both"}
	}
	for _, column := range o.columns() {
		const most = 10 // dots: each may be in a key or between keys
		if strings.Count(column, ".") > most {
			return &store.ValidationError{Field: "column", Value: column, Reason: "give a name with at most 10 dots"}
		}
	}
	for _, c := range o.Costs {
		for _, n := range []int64{c.Tokens, c.Factor} {
			if n < 0 || n > store.MaxTokens {
				return &store.ValidationError{Field: "cost of " + c.Limit, Value: strconv.FormatInt(n, 10), Reason: "give from 0 to 10^15 tokens"}
			}
		}
	}
	return nil
}

// fill fills in the columns that the options leave to the format. names are the columns of
// the format; nil if they are not known.
func (o *Options) fill(names []string) {
	column := func(target *string, name string) {
		if *target == "" {
			*target = name
		}
	}
	switch o.Format {
	case JSON, CSV:
		column(&o.Entity, "entity")
		if o.ResourceIs == "" {
			column(&o.Resource, "resource")
		}
	case W3C:
		if o.Time == "" {
			column(&o.Date, "date")
		}
		column(&o.Entity, "c-ip")
	case ALB:
		column(&o.Time, "request_creation_time")
	default:
		for _, name := range []string{"time_local", "time_iso8601", "msec"} { // of nginx
			if slices.Contains(names, name) && !slices.Contains(names, "time") {
				column(&o.Time, name)
			}
		}
	}
	column(&o.Time, "time")
	column(&o.Entity, "client_ip")
	if o.Resource == "" {
		column(&o.ResourceIs, DefaultResource)
	}
}

// columns are the columns to read, each once.
func (o *Options) columns() (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range []string{o.Date, o.Time, o.Entity, o.Resource, o.Parent} {
		add(name)
	}
	for _, c := range o.Costs {
		add(c.Column)
	}
	return names
}

// Limits are the limits of the amounts of an event.
func (o *Options) Limits() (names []string) {
	for _, c := range o.Costs {
		if !slices.Contains(names, c.Limit) {
			names = append(names, c.Limit)
		}
	}
	return names
}
