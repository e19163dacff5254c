// Package replay has the command that decides a log under limits from a file.
package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay/logs"
	"github.com/zeroae/zae-limiter-go/store"
)

type options struct {
	app    *app.App
	files  []string
	limits string // the manifest's file
	logs   logs.Options
	costs  []string // as on the command line

	window time.Duration
	held   int

	refuseAtMost    app.Share
	malformedAtMost app.Share
	top             int
	page            string // the HTML file

	flags *pflag.FlagSet
}

const about = `Decide the events of logs under limits from a file, and tell what the limits would have
done: who is refused, when and for how long, and how far below the limits the rest is.

FILE is a log, plain or compressed with gzip; - is standard input. The events of several
files are merged by time. Formats:
  json            an object a line; --entity usage.key names the key usage.key, or the key
                  of an object within an object
  csv             with a header; separated by commas, semicolons, tabs or bars; quoted
                  values may have line breaks
  w3c             with a line #Fields: CloudFront, IIS; columns as named there
  common          columns host ident user time request status bytes
  combined        as common, and referer user_agent
  vhost_combined  as combined, behind vhost port
  main            of nginx's packages: as combined, and forwarded_for
  alb, elb        of AWS's application and classic load balancers: columns as AWS names them
  envoy           Envoy's default: time request status flags received_bytes sent_bytes
                  duration upstream_service_time forwarded_for user_agent request_id
                  authority upstream_host
Any other text is a list of columns, as log_format of nginx: '$host [$time] "$request"'.
A list that ends in " ..." leaves out what follows. From common on, there are also the
columns method target path protocol of the request, and client_ip: the first address of
forwarded_for, if a line has one, and else the client. Clients can write forwarded_for.

NAME[0] is the first value of a list (a JSON array, or text with commas), NAME[-1] the
last. A line that does not fit the format, or has no time, entity or resource, is left out
and counted. So is one without any cost; one without some counts for the other limits.

The limits are a manifest, as for zae-limiter limits. An event takes its cost of every
limit of its entity's bucket, and of its parent's, or of none. Buckets begin full. Entity
and resource may be any text; only the manifest's names follow the limiter's rules.

Decisions are those of the limiter for a bucket of one shard and exact clocks. Latency,
shards, settlements of leases, and what callers do after a refusal are not modelled. Memory
grows with the number of buckets, not with the number of events. --refuse-at-most keeps the
events in a temporary file of 4 to 10 bytes each for most logs.`

// New is the command replay.
func New(a *app.App) *cobra.Command {
	o := &options{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "replay FILE...",
		Short: "Tell what limits would have done to what happened",
		Long:  about,
		Example: "  zae-limiter replay requests.jsonl --limits limits.yaml --entity api_key --resource model \\\n" +
			"    --cost rpm=1 --cost tpm=usage.total_tokens --html report.html\n" +
			"  zae-limiter replay access.log.*.gz --limits requests.yaml --refuse-at-most 0.1%",
	}, &o.files)
	o.bind(cmd.Flags())
	return a.Prints(cmd, output{})
}

func (o *options) bind(f *pflag.FlagSet) {
	const window, held, top = 10 * time.Second, 100_000, 20
	o.flags = f
	f.Var(app.Named(&o.limits), "limits", "manifest `file` with the limits, YAML or JSON (required)")
	f.Var((*format)(&o.logs.Format), "format", "a format above, or the list of its `columns`, of all files (default found\nfrom the first lines of each)")
	f.StringVar(&o.logs.Entity, "entity", "", "`column` of the entity (default in json and csv entity, in w3c c-ip, in\nothers client_ip)")
	f.StringVar(&o.logs.Resource, "resource", "", "`column` of the resource (default resource, in json and csv)")
	f.StringVar(&o.logs.ResourceIs, "resource-is", "", "`name` of the resource of every event, instead of a column\n(default in other formats than json and csv: "+logs.DefaultResource+")")
	f.StringVar(&o.logs.Parent, "parent", "", "`column` of the entity to which the request cascades; empty or - is\nnone (default no column)")
	f.StringVar(&o.logs.Time, "time", "", "`column` of the time (default time; alb request_creation_time)")
	f.StringVar(&o.logs.Date, "date", "", "`column` of the date, if that of the time has none (default date in w3c)")
	f.StringVar(&o.logs.TimeLayout, "time-layout", "", "form of the times, as Go writes 2 January 2006, 15:04:05; without a\nzone in UTC (default as RFC 3339, databases, programs and servers\nwrite it, or a number of s, ms, µs or ns since 1970)")
	f.StringArrayVar(&o.costs, "cost", nil, "tokens that an event takes of a limit: `LIMIT=COLUMN|NUMBER`, or\n"+
		"LIMIT=COLUMN*FACTOR, rounded; names every limit; may be repeated, and\nadds the columns of one limit (default 1, if there is one limit)")
	f.DurationVar(&o.window, "window", window, "how much later than its time an event may come; it is decided in its\nplace then, and an event that comes later still when it comes")
	f.IntVar(&o.held, "window-events", held, "`number` of events to hold back at most for --window")
	f.Var(&o.refuseAtMost, "refuse-at-most", "propose the smallest limits that refuse at most this share of events:\n0.1% or 0.001 (default no proposals)")
	f.Var(&o.malformedAtMost, "malformed-at-most", "share of malformed lines above which the command fails: 1% or 0.01\n(default it leaves out as many as there are)")
	f.IntVar(&o.top, "top", top, "`number` of buckets to show, those with the most refusals")
	f.Var(app.Named(&o.page), "html", "`file` to write a page with pictures to")
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

// Validate checks the command line.
func (o *options) Validate() error {
	switch stdin := slices.Index(o.files, "-"); {
	case o.limits == "":
		return app.Required("limits", "limits.yaml")
	case stdin >= 0 && slices.Contains(o.files[stdin+1:], "-"):
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

// levels reads the limits, and settles the costs of an event.
func (o *options) levels() (replay.Levels, error) {
	text, err := os.ReadFile(o.limits)
	if err != nil {
		return nil, app.Unread("the limits", err)
	}
	m, err := manifest.Parse(o.limits, text)
	if err != nil {
		return nil, err
	}
	levels := replay.Levels{}
	for key, level := range m.Levels {
		levels[key] = level.Limits
	}
	if names := levels.Names(); len(o.logs.Costs) == 0 && len(names) == 1 {
		o.logs.Costs = []logs.Cost{{Limit: names[0], Tokens: 1}}
	}
	return levels, nil
}

// Run decides the logs and shows the result.
func (o *options) Run(ctx context.Context) (err error) {
	levels, err := o.levels()
	if err != nil {
		return err
	}
	replayer := replay.Options{Levels: levels, Top: o.top, Costs: o.logs.Limits()}
	if o.flags.Changed("refuse-at-most") {
		if replayer.Spool, err = replay.NewSpool(""); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, replayer.Spool.Close()) }()
	}
	r, err := replay.New(replayer)
	if err != nil {
		return named(err)
	}
	malformed, err := o.decide(ctx, r)
	if err != nil {
		return err
	}
	out := output{Result: r.Result(), Lines: malformed}
	if replayer.Spool != nil {
		if out.Proposals, err = r.Propose(ctx, float64(o.refuseAtMost)); err != nil {
			return err
		}
	}
	if o.page != "" {
		if err := o.writePage(&out); err != nil {
			return err
		}
	}
	return o.app.Print(out, out.text)
}

// named gives a limit without a cost its flag.
func named(err error) error {
	if wrong, ok := errors.AsType[*store.ValidationError](err); ok && wrong.Field == "cost" {
		return fmt.Errorf("limit %s has no cost: give --cost %s=COLUMN, or --cost %s=1 for one token an event", wrong.Value, wrong.Value, wrong.Value)
	}
	return err
}
