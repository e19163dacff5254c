package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

// Bounds of the time between two looks of the command watch.
const (
	leastWatch = 100 * time.Millisecond
	usualWatch = time.Second
	mostWatch  = time.Hour
)

type watchOptions struct {
	bucketArgs
	every, lasts time.Duration
	count        int
	given        func(flag string) bool

	last map[watched]int64 // tokens at the last look
}

// watched names a limit of a side.
type watched struct{ entity, limit string }

const aboutWatch = `Watch every limit of an entity for a resource, and of its parent if it cascades: what is
left, how it changed since the last look, how long until there is a token and until it is
full, and in how many shards the bucket is. A balance below 0 is a debt, and TOKEN IN is the
wait until it is paid off.

On a terminal each look replaces the one before. Elsewhere there is a line for each look and
limit, and with --output json an object for each look. A look that finds the table out of
reach says so, and the next one tries again.

The command takes nothing. A look costs one read unit for each shard of the bucket and of the
parent's. Once a minute it reads the configuration again, which costs a few more.

Ctrl-C ends the command with exit code 0, or with 130 before the end of --for or --count.`

func newWatch(a *app.App) *cobra.Command {
	o := &watchOptions{bucketArgs: bucketArgs{app: a}, last: map[watched]int64{}}
	cmd := a.Command(o, &cobra.Command{
		Use:   "watch ENTITY RESOURCE",
		Short: "Watch the balances of an entity change",
		Long:  aboutWatch,
		Example: "  zae-limiter watch key-1 gpt-4\n" +
			"  zae-limiter watch key-1 gpt-4 --every 5s --for 10m\n" +
			"  zae-limiter watch key-1 gpt-4 --count 60 --output json",
	}, &o.entity, &o.resource)
	f := cmd.Flags()
	f.DurationVar(&o.every, "every", usualWatch, fmt.Sprintf("time between two looks, %v to %v", leastWatch, mostWatch))
	f.DurationVar(&o.lasts, "for", 0, "end after this time (default when interrupted)")
	f.IntVar(&o.count, "count", 0, "end after this `number` of looks (default when interrupted)")
	o.given = f.Changed
	return a.Prints(cmd, lookView{}, outageView{})
}

// bounded reports whether the command line says when to end.
func (o *watchOptions) bounded() bool { return o.given("for") || o.given("count") }

// Validate checks the names and the times.
func (o *watchOptions) Validate() error {
	if err := o.bucketArgs.Validate(); err != nil {
		return err
	}
	switch {
	case o.every < leastWatch || o.every > mostWatch:
		return fmt.Errorf("invalid --every %v: give %v to %v", o.every, leastWatch, mostWatch)
	case o.given("for") && o.lasts <= 0:
		return fmt.Errorf("invalid --for %v: give more than 0", o.lasts)
	case o.given("count") && o.count < 1:
		return fmt.Errorf("invalid --count %d: give 1 or more", o.count)
	}
	return nil
}

// Run looks until the time is over or the looks are done, or the context ends.
func (o *watchOptions) Run(ctx context.Context) error {
	s, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	l, err := o.app.Limiter(s)
	if err != nil {
		return err
	}
	err = o.watch(ctx, l, s.Now)
	if ctx.Err() != nil && !o.bounded() {
		err = nil // the way to end it
	}
	return errors.Join(err, l.Close())
}

// watch looks in the rhythm of a ticker, so that the time for which a look waits for its
// answer delays no later one. The first look must succeed.
func (o *watchOptions) watch(ctx context.Context, l *limiter.Limiter, now func() time.Time) error {
	live := o.app.Live(o.app.Stdout)
	var over <-chan time.Time
	if o.lasts > 0 {
		timer := time.NewTimer(o.lasts)
		defer timer.Stop()
		over = timer.C
	}
	ticker := time.NewTicker(o.every)
	defer ticker.Stop()
	for looks := 1; ; looks++ {
		s, err := l.Standing(ctx, o.entity, o.resource)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && (looks == 1 || !errors.Is(err, limiter.ErrUnavailable)) {
			return err
		}
		if err := o.show(live, &glance{standing: s, err: err, at: now().UTC().Truncate(time.Millisecond), looks: looks}); err != nil {
			return err
		}
		if looks == o.count {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return nil
		case <-ticker.C:
		}
	}
}

// A glance is the outcome of one look.
type glance struct {
	standing *limiter.Standing // nil after an error
	err      error
	at       time.Time
	looks    int // so far
}

// lookView is a look in JSON: the standing at an instant.
type lookView struct {
	At time.Time `json:"timestamp"`
	manage.Standing
}

// outageView is a look in JSON that found the table out of reach.
type outageView struct {
	At      time.Time `json:"timestamp"`
	Error   string    `json:"error"` // unavailable
	Message string    `json:"message"`
}

// view is the look in JSON.
func (g *glance) view() any {
	if g.err != nil {
		return outageView{g.at, "unavailable", g.err.Error()}
	}
	return lookView{g.at, *manage.StandingOf(g.standing, "")}
}

// show shows a look, and remembers its balances for the next one.
func (o *watchOptions) show(live *app.Live, g *glance) (err error) {
	defer o.remember(g)
	if live.Redraws() && !o.app.Flags.JSON() {
		return live.Draw(o.block(g, live.Columns()))
	}
	return o.app.Print(g.view(), func(w *strings.Builder) { o.plain(w, g) })
}

func (o *watchOptions) remember(g *glance) {
	for side := g.standing; side != nil; side = side.Parent {
		for i := range side.Limits {
			b := &side.Limits[i]
			o.last[watched{b.Entity, b.Limit.Name}] = b.Available
		}
	}
}

// change is the difference from the last look, "" at the first.
func (o *watchOptions) change(b *limiter.Balance) string {
	before, ok := o.last[watched{b.Entity, b.Limit.Name}]
	if !ok {
		return ""
	}
	change := limitarg.Grouped(b.Available - before)
	if b.Available > before {
		return "+" + change
	}
	return change
}

// block is a look for a terminal with some columns: what matters most stands first, and the
// bar gets the room that the rest leaves.
func (o *watchOptions) block(g *glance, columns int) []string {
	lines := []string{fmt.Sprintf("%s for %s   %s   every %v, look %d", o.resource, o.entity, g.at.Format(time.RFC3339), o.every, g.looks)}
	if g.err != nil {
		return append(lines, "the table is out of reach: "+g.err.Error())
	}
	table := app.BarTable(columns, func(bar int) ([]string, [][]string) { return o.rows(g.standing, bar) })
	return append(append(lines, table...), remarks(g.standing)...)
}

// rows are the limits of a look, with a bar of some columns; without one for none.
func (o *watchOptions) rows(s *limiter.Standing, bar int) (header []string, rows [][]string) {
	header = []string{"ENTITY", "LIMIT", "AVAILABLE", "CHANGE", "TOKEN IN", "FULL IN", "RATE", "SHARDS", "LEVEL"}
	const place = 4 // of the bar
	if bar > 0 {
		header = append(header[:place:place], append([]string{"LEFT"}, header[place:]...)...)
	}
	for side := s; side != nil; side = side.Parent {
		for i := range side.Limits {
			b := &side.Limits[i]
			row := []string{b.Entity, b.Limit.Name, limitarg.Grouped(b.Available) + " of " + limitarg.Grouped(b.Limit.Capacity), o.change(b)}
			if bar > 0 {
				row = append(row, app.Gauge(1-b.Used, bar))
			}
			rows = append(rows, append(row, within(b.RetryAfter), within(b.FullAfter), limitarg.Rate(b.Limit), strconv.Itoa(side.Shards), side.Level.String()))
		}
	}
	return header, rows
}

// within is a wait in a table, "" for none.
func within(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return wait(d)
}

// plain writes a look in lines, one for each limit.
func (o *watchOptions) plain(w *strings.Builder, g *glance) {
	at := g.at.Format(time.RFC3339)
	if g.err != nil {
		fmt.Fprintf(w, "%s %s %s: the table is out of reach: %v\n", at, o.entity, o.resource, g.err)
		return
	}
	for side := g.standing; side != nil; side = side.Parent {
		for i := range side.Limits {
			b := &side.Limits[i]
			fmt.Fprintf(w, "%s %s %s %s: %s of %s", at, b.Entity, b.Resource, b.Limit.Name, limitarg.Grouped(b.Available), limitarg.Grouped(b.Limit.Capacity))
			for _, part := range []struct{ name, value string }{
				{"change", o.change(b)},
				{"token in", within(b.RetryAfter)},
				{"full in", within(b.FullAfter)},
				{"rate", limitarg.Rate(b.Limit)},
				{"shards", strconv.Itoa(side.Shards)},
				{"level", side.Level.String()},
			} {
				if part.value != "" {
					fmt.Fprintf(w, ", %s %s", part.name, part.value)
				}
			}
			w.WriteByte('\n')
		}
	}
	for _, remark := range remarks(g.standing) {
		fmt.Fprintf(w, "%s %s\n", at, remark)
	}
}
