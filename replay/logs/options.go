package logs

import (
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/replay"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Format is the form of a log's lines.
type Format string

// The formats.
const (
	Detect   Format = "" // from the first line
	JSON     Format = "json"
	CSV      Format = "csv"      // with a header; separated by commas, semicolons or tabs
	Common   Format = "common"   // host ident user [time] "request" status bytes
	Combined Format = "combined" // common, then "referer" "user agent"
	ALB      Format = "alb"
)

// Formats are the formats with a name.
func Formats() []Format { return []Format{JSON, CSV, Common, Combined, ALB} }

// DefaultResource is the resource of every event of an access log, if the options name no
// column for it.
const DefaultResource = "requests"

// Options configure a [Reader].
type Options struct {
	// Name is the name of the file in reports of malformed lines.
	Name string
	// Format is the format of the file; "" is detected.
	Format Format
	// Time, Entity and Resource are columns. In JSON a column is the path of a field, with
	// dots between names ("usage.total_tokens"). The default in JSON and CSV is "time",
	// "entity" and "resource", in access logs "time" and "host", in logs of load balancers
	// "request_creation_time" and "client_ip".
	Time, Entity, Resource string
	// ResourceIs is the resource of every event, instead of a column. The default in access
	// logs is [DefaultResource].
	ResourceIs string
	// Parent is the column of the parent to which the request cascades. An empty value or
	// "-" is none. "" is no column.
	Parent string
	// Costs say what an event costs of each limit, in the order of the amounts of an event.
	Costs []Cost
	// TimeLayout is the form of times as package time has it. The default "" accepts RFC
	// 3339, also with a space for the T, without the colon of the zone and without a zone; the
	// times of access logs; and numbers since the epoch.
	// Numbers below 10^11 are seconds, below 10^14 milliseconds, below 10^17
	// microseconds, and others nanoseconds. A time without a zone is in UTC.
	TimeLayout string
}

// A Cost says what an event costs of a limit.
type Cost struct {
	Limit string
	// Column holds the tokens: a whole number, or "-" for 0. "" takes Tokens.
	Column string
	Tokens int64
}

func (o *Options) validate() error {
	if o.Format != Detect && !slices.Contains(Formats(), o.Format) {
		return &store.ValidationError{Field: "format", Value: string(o.Format), Reason: "give json, csv, common, combined or alb"}
	}
	if o.Resource != "" && o.ResourceIs != "" {
		return &store.ValidationError{Field: "resource", Value: o.Resource, Reason: "give a column or one name for all events, not both"}
	}
	for _, c := range o.Costs {
		if c.Tokens < 0 || c.Tokens > store.MaxTokens {
			return &store.ValidationError{
				Field: "cost of " + c.Limit, Value: strconv.FormatInt(c.Tokens, 10), Reason: "give from 0 to 10^15 tokens",
			}
		}
	}
	return nil
}

// fill fills in the columns that the options leave to the format.
func (o *Options) fill() {
	column := func(target *string, name string) {
		if *target == "" {
			*target = name
		}
	}
	switch o.Format {
	case Common, Combined:
		column(&o.Time, "time")
		column(&o.Entity, "host")
	case ALB:
		column(&o.Time, "request_creation_time")
		column(&o.Entity, "client_ip")
	default:
		column(&o.Time, "time")
		column(&o.Entity, "entity")
		if o.ResourceIs == "" {
			column(&o.Resource, "resource")
		}
	}
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
	for _, name := range []string{o.Time, o.Entity, o.Resource, o.Parent} {
		add(name)
	}
	for _, c := range o.Costs {
		add(c.Column)
	}
	return names
}

// Malformed counts the lines that could not be read.
type Malformed struct {
	Lines int64     `json:"lines"`           // all lines that were read, without empty ones and the header
	Count int64     `json:"malformed"`       // lines that could not be read
	First []Problem `json:"first,omitempty"` // at most [Shown]
}

// Shown is the number of malformed lines that a reader keeps to show.
const Shown = 5

// A Problem is a line that could not be read.
type Problem struct {
	File   string `json:"file"` // name of the file
	Line   int64  `json:"line"` // number of the line
	Reason string `json:"reason"`
	Text   string `json:"text"` // the beginning of the line
}

// Add adds the counts of another file.
func (m *Malformed) Add(other Malformed) {
	m.Lines += other.Lines
	m.Count += other.Count
	m.First = append(m.First, other.First...)
	m.First = m.First[:min(len(m.First), Shown)]
}

// a source is what a reader is.
var _ replay.Source = (*Reader)(nil)

const millisecond = int64(time.Millisecond)
