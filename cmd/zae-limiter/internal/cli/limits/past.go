package limits

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	logfiles "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/replay"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/store"
)

// past says under which requests of the past a plan is looked at: those of logs, or the usage of the table.
type past struct {
	app        *app.App
	sources    []string
	logs       *logfiles.Logs
	start, end string

	from, to time.Time
}

// fromUsage is the source that stands for the usage of the table.
const fromUsage = "usage"

// lastDays are how many days of usage a plan looks at, unless the command line says it.
const lastDays = 7

func newPast(a *app.App, cmd *cobra.Command) *past {
	p := &past{app: a, logs: logfiles.NewLogs(a)}
	f := cmd.Flags()
	f.Var(app.NamedList(&p.sources), "past", "tell whom the limits would have refused: `usage` for the table's own\nusage by the hour, or the file of a log; logs may be several")
	f.Var(app.Named(&p.start), "start", "of usage: first `time` an hour may start, 2006-01-02 or\n2006-01-02T15:04:05Z (default 7 days ago)")
	f.Var(app.Named(&p.end), "end", "of usage: last `time` an hour may start; of a date, the whole day\n(default now)")
	p.logs.Bind(f)
	f.Lookup("format").Usage = "of logs: a format that replay names, or the list of its `columns`, of all\nfiles (default found from the first lines of each)"
	return p
}

// Validate checks the flags.
func (p *past) Validate() (err error) {
	isUsage := slices.Contains(p.sources, fromUsage)
	given := p.logs.Given()
	switch {
	case isUsage && len(p.sources) > 1:
		return fmt.Errorf("--past %s stands alone: give it, or logs", fromUsage)
	case given != "" && (isUsage || len(p.sources) == 0):
		return fmt.Errorf("%s reads a log: give --past FILE, or leave it out", given)
	case !isUsage && p.start+p.end != "":
		return fmt.Errorf("--start and --end choose usage: give --past %s, or leave them out", fromUsage)
	case len(p.sources) == 0:
		return nil
	}
	if !isUsage {
		p.logs.Files = p.sources
	}
	if p.from, p.to, err = app.ParseRange(p.start, p.end); err != nil {
		return err
	}
	now := p.app.Clock()
	if p.to.IsZero() || p.to.After(now) {
		p.to = now
	}
	if p.from.IsZero() {
		p.from = p.to.AddDate(0, 0, -lastDays)
	}
	// An hour counts as a whole.
	if p.from = usage.Hourly.Start(p.from); !p.from.Before(p.to) {
		return fmt.Errorf("invalid --start %s: give a time before %s", p.start, p.to.Format(time.RFC3339))
	}
	return p.logs.Validate()
}

// A pastView is what the limits of a plan would have done, in JSON: the report of replay.
type pastView struct {
	*logfiles.Report

	ReadUnits float64  `json:"read_units,omitempty"` // of usage: about what reading it costs
	Notes     []string `json:"notes,omitempty"`      // what the report cannot tell
}

// look tells what the limits after a plan would have done; nil if the command line names no past.
func (p *past) look(ctx context.Context, m *manifest.Manager, of *manifest.Manifest, plan *manifest.Plan) (*pastView, error) {
	if len(p.sources) == 0 {
		return nil, nil //nolint:nilnil // there is no past to look at
	}
	after, err := m.After(ctx, plan)
	if err != nil {
		return nil, err
	}
	levels := replay.Levels(after)
	if p.sources[0] != fromUsage {
		p.logs.SettleOf(levelsOf(of).Names(), levels.Names())
		report, _, err := p.logs.Decide(ctx, levels, nil)
		if err != nil {
			return nil, err
		}
		return &pastView{Report: report}, nil
	}
	s, err := p.app.Store(ctx)
	if err != nil {
		return nil, err
	}
	return p.usage(ctx, s, levels)
}

// levelsOf are the limits that a manifest declares.
func levelsOf(of *manifest.Manifest) replay.Levels {
	levels := replay.Levels{}
	for k, l := range of.Levels {
		levels[k] = l.Limits
	}
	return levels
}

// usage looks at the usage of all entities.
func (p *past) usage(ctx context.Context, s *dynamo.Store, levels replay.Levels) (*pastView, error) {
	names := levels.Names()
	hours, err := replay.NewHours(replay.Options{Levels: levels, Costs: names, Top: p.logs.Top()}, p.from.UnixMilli())
	if err != nil {
		return nil, err
	}
	snapshots := s.Usage()
	scope, err := snapshots.ScopeOf(ctx, p.from, p.to)
	if err != nil {
		return nil, err
	}
	v := &pastView{ReadUnits: scope.ReadUnits()}
	p.app.Notef("Reading the usage of %s bucket items of %s resources: about %s read units.",
		limitarg.Grouped(scope.Items), limitarg.Grouped(len(scope.Resources)), limitarg.Grouped(int64(v.ReadUnits+1)))
	for _, resource := range scope.Resources {
		q := usage.Query{Resource: resource, Window: usage.Hourly, From: p.from, To: p.to}
		err := snapshots.Each(ctx, q, func(windows []usage.Snapshot) error {
			return hours.Add(windows[0].Entity, resource, sumsOf(windows, names))
		})
		if err != nil {
			return nil, err
		}
	}
	v.Report = &logfiles.Report{Result: hours.Result()}
	v.Notes = p.notes(v.Result)
	return v, nil
}

// sumsOf are the hours of a bucket. An hour in which more was returned than taken counts as 0.
func sumsOf(windows []usage.Snapshot, names []string) []replay.Sum {
	sums := make([]replay.Sum, len(windows))
	for i := range windows {
		sums[i] = replay.Sum{Start: windows[i].Start.UnixMilli(), Amounts: make([]int64, len(names))}
		for _, a := range windows[i].Tokens {
			if at, ok := slices.BinarySearch(names, a.Limit); ok && a.Milli.Sign() > 0 {
				sums[i].Amounts[at] = store.MaxTokens
				if a.Milli.IsInt64() {
					sums[i].Amounts[at] = min(a.Milli.Int64()/store.Milli, store.MaxTokens)
				}
			}
		}
	}
	return sums
}

// notes are what usage cannot tell.
func (p *past) notes(r *replay.Result) []string {
	notes := []string{
		"Usage has sums by the hour, and no requests. Certain is what the sums rule out, whatever the requests were; maybe is what some requests of these sums would meet.",
		"Usage has what was admitted and settled. It does not have what was refused, and no limit counts what its parent would have refused.",
	}
	for i := range r.Limits {
		l := &r.Limits[i]
		if l.Buckets > 0 && l.Events == 0 {
			notes = append(notes, fmt.Sprintf("There is no usage of %s, of %s: nothing is known of it.", l.Name, l.Level))
		}
		if l.Buckets > 0 && l.Limit.Renews != nil && l.Limit.Renews.Session() == 0 && l.Limit.Renews.Period(p.from.UnixMilli()).Start < p.from.UnixMilli() {
			notes = append(notes, fmt.Sprintf("%s, of %s, begins full at %s, within its period: give --start for all of it.", l.Name, l.Level, p.from.Format(time.RFC3339)))
		}
	}
	return notes
}

// text writes the report for people.
func (v *pastView) text(w *strings.Builder) {
	w.WriteByte('\n')
	if v.Counts == replay.Requests {
		w.WriteString("Under the limits of this plan, the logs are:\n")
		v.Text(w)
		return
	}
	fmt.Fprintf(w, "Under the limits of this plan, of %s buckets with usage: %s refused for certain, %s maybe, %s never\n",
		limitarg.Grouped(v.Buckets), limitarg.Grouped(v.Verdicts.Certain), limitarg.Grouped(v.Verdicts.Maybe), limitarg.Grouped(v.Verdicts.Never))
	v.HoursText(w)
	for _, note := range v.Notes {
		w.WriteString(note + "\n")
	}
}
