package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay/logs"
	"github.com/zeroae/zae-limiter-go/store"
)

// Logs are the logs of a command line, with the flags that say how to read and decide them.
type Logs struct {
	Files []string // - is standard input

	app   *app.App
	logs  logs.Options
	costs []string // as on the command line

	window time.Duration
	held   int

	malformedAtMost app.Share
	top             int

	flags *pflag.FlagSet
	own   []string // the flags' names
}

// NewLogs returns logs without files.
func NewLogs(a *app.App) *Logs { return &Logs{app: a} }

// Bind adds the flags.
func (o *Logs) Bind(f *pflag.FlagSet) {
	const window, held, top = 10 * time.Second, 100_000, 20
	o.flags = f
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.Var((*format)(&o.logs.Format), "format", "a format above, or the list of its `columns`, of all files (default found\nfrom the first lines of each)")
	own.StringVar(&o.logs.Entity, "entity", "", "`column` of the entity (default in json and csv entity, in w3c c-ip, in\nothers client_ip)")
	own.StringVar(&o.logs.Resource, "resource", "", "`column` of the resource (default resource, in json and csv)")
	own.StringVar(&o.logs.ResourceIs, "resource-is", "", "`name` of the resource of every event, instead of a column\n(default in other formats than json and csv: "+logs.DefaultResource+")")
	own.StringVar(&o.logs.Parent, "parent", "", "`column` of the entity to which the request cascades; empty or - is\nnone (default no column)")
	own.StringVar(&o.logs.Time, "time", "", "`column` of the time (default time; alb request_creation_time)")
	own.StringVar(&o.logs.Date, "date", "", "`column` of the date, if that of the time has none (default date in w3c)")
	own.StringVar(&o.logs.TimeLayout, "time-layout", "", "form of the times, as Go writes 2 January 2006, 15:04:05; without a\nzone in UTC (default as RFC 3339, databases, programs and servers\nwrite it, or a number of s, ms, µs or ns since 1970)")
	own.StringArrayVar(&o.costs, "cost", nil, "tokens that an event takes of a limit: `LIMIT=COLUMN|NUMBER`, or\n"+
		"LIMIT=COLUMN*FACTOR, rounded; names every limit; may be repeated, and\nadds the columns of one limit (default 1, if there is one limit)")
	own.DurationVar(&o.window, "window", window, "how much later than its time an event may come; it is decided in its\nplace then, and an event that comes later still when it comes")
	own.IntVar(&o.held, "window-events", held, "`number` of events to hold back at most for --window")
	own.Var(&o.malformedAtMost, "malformed-at-most", "share of malformed lines above which the command fails: 1% or 0.01\n(default it leaves out as many as there are)")
	own.IntVar(&o.top, topFlag, top, "`number` of buckets to show, those with the most refusals")
	own.VisitAll(func(flag *pflag.Flag) { o.own = append(o.own, flag.Name) })
	f.AddFlagSet(own)
}

// Given is the first of the flags that the command line has, but --top; "" if there is none.
func (o *Logs) Given() string {
	for _, name := range o.own {
		if name != topFlag && o.flags.Changed(name) {
			return "--" + name
		}
	}
	return ""
}

const topFlag = "top"

// Top is how many buckets to show.
func (o *Logs) Top() int { return o.top }

// Validate checks the flags.
func (o *Logs) Validate() error {
	switch stdin := slices.Index(o.Files, "-"); {
	case stdin >= 0 && slices.Contains(o.Files[stdin+1:], "-"):
		return errors.New("standard input (-) is given twice: name it once")
	case o.window < 0:
		return fmt.Errorf("invalid --window %v: give 0 or more", o.window)
	case o.held < 1:
		return fmt.Errorf("invalid --window-events %d: give 1 or more", o.held)
	case o.top < 1:
		return fmt.Errorf("invalid --top %d: give 1 or more", o.top)
	case o.logs.Resource != "" && o.logs.ResourceIs != "":
		return errors.New("--resource and --resource-is contradict each other: give a column or one name for all events")
	}
	for _, c := range o.costs {
		cost, err := parseCost(c)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(o.logs.Costs, func(before logs.Cost) bool {
			return before.Limit == cost.Limit && before.Column == cost.Column
		}) {
			return fmt.Errorf("--cost %s is given twice: name each column and each number of a limit once", c)
		}
		o.logs.Costs = append(o.logs.Costs, cost)
	}
	return nil
}

// settle says what an event costs, if there is one limit and the command line does not say it.
func (o *Logs) settle(limits []string) {
	if len(o.logs.Costs) == 0 && len(limits) == 1 {
		o.logs.Costs = []logs.Cost{{Limit: limits[0], Tokens: 1}}
	}
}

// SettleOf says what an event costs: of limits, which the command line names unless there is one; and nothing of
// others that it does not name.
func (o *Logs) SettleOf(limits, others []string) {
	o.settle(limits)
	for _, name := range others {
		isNamed := func(c logs.Cost) bool { return c.Limit == name }
		if !slices.Contains(limits, name) && !slices.ContainsFunc(o.logs.Costs, isNamed) {
			o.logs.Costs = append(o.logs.Costs, logs.Cost{Limit: name})
		}
	}
}

// Decide decides the events of the logs. The spool may be nil.
func (o *Logs) Decide(ctx context.Context, levels replay.Levels, spool *replay.Spool) (*Report, *replay.Replayer, error) {
	r, err := replay.New(replay.Options{Levels: levels, Top: o.top, Costs: o.logs.Limits(), Spool: spool})
	if err != nil {
		return nil, nil, named(err)
	}
	malformed, err := o.decide(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	return &Report{Result: r.Result(), Lines: &malformed}, r, nil
}

// named gives a limit without a cost its flag.
func named(err error) error {
	if wrong, ok := errors.AsType[*store.ValidationError](err); ok && wrong.Field == "cost" {
		return fmt.Errorf("limit %s has no cost: give --cost %s=COLUMN, or --cost %s=1 for one token an event", wrong.Value, wrong.Value, wrong.Value)
	}
	return err
}

// format is a value of --format.
type format logs.Format

// String is part of [pflag.Value], as are Set and Type.
func (f *format) String() string { return string(*f) }

// Set refuses what is no format.
func (f *format) Set(s string) error {
	if s == "" {
		return errors.New("give a format, or leave the flag out")
	}
	err := logs.Format(s).Validate()
	if wrong, ok := errors.AsType[*store.ValidationError](err); ok {
		return errors.New(wrong.Reason)
	}
	*f = format(s)
	return err
}

// Type is the value's name in help.
func (f *format) Type() string { return "columns" }

// Words are the formats with a name, for completion.
func (f *format) Words() []string {
	var words []string
	for _, name := range logs.Formats() {
		words = append(words, string(name))
	}
	return words
}

// parseCost reads a value of --cost.
func parseCost(s string) (_ logs.Cost, err error) {
	name, what, ok := strings.Cut(s, "=")
	if !ok || what == "" {
		return logs.Cost{}, fmt.Errorf("invalid --cost %q: write LIMIT=COLUMN or LIMIT=NUMBER, tpm=total_tokens or rpm=1 for instance", s)
	}
	if err := store.CheckLimitName(name); err != nil {
		return logs.Cost{}, fmt.Errorf("invalid --cost %q: %w", s, err)
	}
	if strings.Trim(what, "-0123456789") != "" {
		cost := logs.Cost{Limit: name, Column: what}
		if column, factor, ok := strings.Cut(what, "*"); ok && strings.Trim(factor, "0123456789") == "" {
			if cost.Factor, err = strconv.ParseInt(factor, 10, 64); err != nil || cost.Factor < 1 || cost.Factor > store.MaxTokens {
				return logs.Cost{}, fmt.Errorf("invalid --cost %q: give a factor from 1 to %d", s, int64(store.MaxTokens))
			}
			cost.Column = column
		}
		return cost, nil
	}
	tokens, err := strconv.ParseInt(what, 10, 64)
	if err != nil || tokens < 0 || tokens > store.MaxTokens {
		return logs.Cost{}, fmt.Errorf("invalid --cost %q: give from 0 to %d tokens", s, int64(store.MaxTokens))
	}
	return logs.Cost{Limit: name, Tokens: tokens}, nil
}
