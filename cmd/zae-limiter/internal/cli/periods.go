package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// periodsOptions show the periods of a quota that renews as a specification says.
type periodsOptions struct {
	app  *app.App
	spec string
	zone string
	from string

	count   int
	renewal *calendar.Renewal
	start   time.Time // an instant of the first period, in the zone
}

const maxPeriods = 1000

func newPeriods(a *app.App) *cobra.Command {
	o := &periodsOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "periods SPEC",
		Short: "Show when a quota would renew",
		Long: "Show the periods of a quota that renews as SPEC says: the one that holds an instant, and\n" +
			"those that follow. SPEC is day, week from monday, month, month from day 31, month from\n" +
			"last day, year, year from 29 february, or five fields of cron; all but the last also with a\n" +
			"time like at 06:30. It is month since 2026-01-31T10:00:00Z for an anniversary, and session\n" +
			"5h for what begins with its first use. Several, separated by semicolons, renew at the edges\n" +
			"of each. Nothing is sent.",
		Example: "  zae-limiter periods 'week from monday at 06:30' --zone Europe/Berlin\n" +
			"  zae-limiter periods '0 0 * * *' --zone Africa/Cairo --from 2026-04-23 --count 3",
	}, &o.spec)
	cmd.Flags().StringVar(&o.zone, "zone", "", "IANA `name` of the time zone (default UTC)")
	cmd.Flags().StringVar(&o.from, "from", "", "`time` in the first period, 2006-01-02 in the zone or\n2006-01-02T15:04:05Z (default now)")
	cmd.Flags().IntVar(&o.count, "count", 5, fmt.Sprintf("`number` of periods, up to %d", maxPeriods))
	return a.Prints(cmd, periodsView{})
}

// Validate reads the specification, the zone and the time.
func (o *periodsOptions) Validate() (err error) {
	if o.renewal, err = calendar.Parse(o.spec, o.zone); err != nil {
		return err
	}
	loc, err := time.LoadLocation(o.zone)
	if err != nil {
		return fmt.Errorf("invalid --zone %q: %w", o.zone, err)
	}
	if o.count < 1 || o.count > maxPeriods {
		return fmt.Errorf("invalid --count %d: give a number from 1 to %d", o.count, maxPeriods)
	}
	if o.from == "" {
		o.start = o.app.Clock().In(loc)
		return nil
	}
	if o.start, err = time.ParseInLocation(time.DateOnly, o.from, loc); err == nil {
		return o.inCalendar()
	}
	if o.start, err = time.Parse(time.RFC3339, o.from); err != nil {
		return fmt.Errorf("invalid --from %q: give a time like 2006-01-02 or 2006-01-02T15:04:05Z", o.from)
	}
	o.start = o.start.In(loc)
	return o.inCalendar()
}

// inCalendar requires a time of which the calendar is exact.
func (o *periodsOptions) inCalendar() error {
	if year := o.start.Year(); year < 1970 || year > 2100 {
		return fmt.Errorf("invalid --from %q: give a time from 1970 to 2100", o.from)
	}
	return nil
}

// A periodView is a period of a quota in JSON. Its end is the start of the next.
type periodView struct {
	Start   time.Time `json:"start_at"`
	End     time.Time `json:"end_at"`
	Seconds float64   `json:"duration_seconds"`
}

// periodsView is the result in JSON.
type periodsView struct {
	Renewal string       `json:"renews"`
	Zone    string       `json:"zone,omitempty"`
	Stored  string       `json:"stored,omitempty"` // how the table stores it; a session is stored as its seconds
	Python  bool         `json:"python"`           // a client of the Python package can evaluate it
	Periods []periodView `json:"periods"`          // one after the other
}

// Run prints the periods.
func (o *periodsOptions) Run(context.Context) error {
	r := o.renewal
	stored, _ := r.Encode() // "" for a session
	v := periodsView{Renewal: r.String(), Zone: r.Zone(), Stored: stored, Python: r.ForPeer()}
	rows := make([][]string, 0, o.count)
	for p := r.Period(o.start.UnixMilli()); len(rows) < o.count; p = r.Period(p.End) {
		start, end := time.UnixMilli(p.Start), time.UnixMilli(p.End)
		v.Periods = append(v.Periods, periodView{start.UTC(), end.UTC(), end.Sub(start).Seconds()})
		rows = append(rows, []string{o.local(start), o.local(end), length(end.Sub(start))})
	}
	if r.Session() != 0 {
		o.app.Notef("A session begins with a use. These are those of uses that follow each session at once.")
	}
	return o.app.Print(v, func(w *strings.Builder) {
		app.Fields(w, "Renewal", v.Renewal, "Zone", v.Zone, "Stored", o.storedText(&v))
		w.WriteByte('\n')
		app.Table(w, []string{"START", "END", "LENGTH"}, rows)
	})
}

// storedText says how the table stores the renewal, and what a Python client makes of it.
func (o *periodsOptions) storedText(v *periodsView) string {
	if v.Python {
		return v.Stored
	}
	return v.Stored + ", which Python clients refuse"
}

// local is an instant as the wall of the zone reads it.
func (o *periodsOptions) local(t time.Time) string {
	layout := "Mon 2006-01-02 15:04:05"
	if t.Nanosecond() != 0 {
		layout += ".000"
	}
	return t.In(o.start.Location()).Format(layout + " -07:00")
}

// length is a duration in days and a rest.
func length(d time.Duration) string {
	const day = 24 * time.Hour
	days, rest := d/day, d%day
	text := rest.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	switch {
	case days == 0:
		return text
	case rest == 0:
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd %s", days, text)
}
