package loadtest

import (
	"fmt"
	"io"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	load "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// A view shows a run while it lasts: in place on a terminal, otherwise as plain lines. It
// ignores errors: it is not a result.
type view struct {
	w     io.Writer          // nil shows nothing
	live  *app.Live          // on w
	names *scenario.Scenario // nil for a swarm

	told  string // the last preparation
	since time.Duration
	first bool
}

// viewOf is the live view for the terminal, or plain lines, or nothing beside JSON.
func viewOf(a *app.App, names *scenario.Scenario) *view {
	v := &view{names: names, live: a.Live(a.Stderr)}
	if !a.Flags.JSON() {
		v.w = a.Stderr
	}
	return v
}

// plainEvery is the time between plain lines.
const plainEvery = 10 * time.Second

// show shows a state of the run.
func (v *view) show(p load.Progress) {
	preparing := ""
	if p.Sample == nil {
		preparing = string(p.Side) + ": " + p.Preparing
	}
	v.update(preparing, p.Done, func() []string { return v.block(p) }, func() string { return v.plain(p) })
}

// update shows a block in place on a terminal. Elsewhere it shows what is prepared once, and
// later a plain line at the first instant and every [plainEvery].
func (v *view) update(preparing string, at time.Duration, block func() []string, plain func() string) {
	switch {
	case v.w == nil:
	case v.live.Redraws():
		_ = v.live.Draw(block())
	case preparing != "":
		if preparing != v.told {
			v.told, v.first = preparing, false
			_, _ = io.WriteString(v.w, preparing+"\n")
		}
	case !v.first || at-v.since >= plainEvery:
		v.first, v.since = true, at
		_, _ = io.WriteString(v.w, plain()+"\n")
	}
}

// clear removes the view from the terminal.
func (v *view) clear() {
	if v.w != nil && v.live.Redraws() {
		_ = v.live.Draw(nil)
	}
}

// block is the state of a run in some lines.
func (v *view) block(p load.Progress) []string {
	head := fmt.Sprintf("%s  side %s", v.names.Name, p.Side)
	if p.Sample == nil {
		return []string{fmt.Sprintf("%s  %s", head, p.Preparing), bar(p.Done, p.Planned)}
	}
	s := p.Sample
	lines := []string{
		fmt.Sprintf("%s  phase %s", head, v.names.Phases[p.Phase].Name),
		bar(p.Done, p.Planned),
		fmt.Sprintf("asked %s/s   done %s/s   admitted %s/s   refused %s/s   errors %s/s",
			per(s.Due, s), per(s.Done, s), per(s.Admitted, s), per(s.Refused, s), failures(s)),
		fmt.Sprintf("p50 %s   p99 %s   p99.9 %s   generator lag p99 %s", took(float64(s.P50)), took(float64(s.P99)), took(float64(s.P999)), took(float64(s.Lag))),
		fmt.Sprintf("WCU %.0f/s   RCU %.0f/s   $%.2f an hour   throttled: answers %s/s, writes %s/s",
			s.Cost.WCU/s.Seconds, s.Cost.RCU/s.Seconds, hourly(s), per(s.Throttled, s), per(s.WritesThrottled, s)),
	}
	last := fmt.Sprintf("shards of the busiest bucket %d", s.Shards)
	if s.Users > 0 {
		last += fmt.Sprintf("   users %d", s.Users)
	}
	return append(lines, last)
}

// plain is a sample in one line.
func (v *view) plain(p load.Progress) string {
	s := p.Sample
	return fmt.Sprintf("%s of %s, %s, %s: asked %s/s, done %s/s, admitted %s/s, refused %s/s, throttled %s/s, errors %s/s, p50 %s, p99 %s, p99.9 %s, %.0f WCU/s, writes throttled %s/s, $%.2f an hour, %d shards",
		p.Done.Round(time.Second), p.Planned.Round(time.Second), p.Side, v.names.Phases[p.Phase].Name,
		per(s.Due, s), per(s.Done, s), per(s.Admitted, s), per(s.Refused, s), per(s.Throttled, s), failures(s),
		took(float64(s.P50)), took(float64(s.P99)), took(float64(s.P999)), s.Cost.WCU/s.Seconds, per(s.WritesThrottled, s), hourly(s), s.Shards)
}

// failures are the operations of each second that failed for another reason than a throttle.
func failures(s *result.Sample) string { return per(s.Unavailable+s.Failed, s) }

// per is a number per second of a sample.
func per(n int64, s *result.Sample) string { return count(float64(n) / s.Seconds) }

// hourly is what an hour of a sample costs, in dollars.
func hourly(s *result.Sample) float64 { return s.Cost.Dollars / s.Seconds * time.Hour.Seconds() }

// bar draws the elapsed part of a time.
func bar(done, planned time.Duration) string {
	const width = 40
	part := 0.0
	if planned > 0 {
		part = float64(done) / float64(planned)
	}
	return fmt.Sprintf("[%s] %s of %s", app.Gauge(part, width), done.Round(time.Second), planned.Round(time.Second))
}
