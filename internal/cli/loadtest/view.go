package loadtest

import (
	"fmt"
	"io"
	"strings"
	"time"

	load "github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/loadtest/result"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
)

// A view shows a run while it lasts: in place on a terminal, otherwise as plain lines. It
// ignores errors: it is not a result.
type view struct {
	w       io.Writer // nil shows nothing
	redraws bool
	names   *scenario.Scenario

	drawn int    // lines on the terminal
	told  string // the last preparation
	since time.Duration
	first bool
}

// plainEvery is the time between plain lines.
const plainEvery = 10 * time.Second

// show shows a state of the run.
func (v *view) show(p load.Progress) {
	switch {
	case v.w == nil:
	case v.redraws:
		v.redraw(v.block(p))
	case p.Sample == nil:
		if told := string(p.Side) + ": " + p.Preparing; told != v.told {
			v.told, v.first = told, false
			_, _ = io.WriteString(v.w, told+"\n")
		}
	case !v.first || p.Done-v.since >= plainEvery:
		v.first, v.since = true, p.Done
		_, _ = io.WriteString(v.w, v.plain(p)+"\n")
	}
}

// clear removes the view from the terminal.
func (v *view) clear() {
	if v.redraws {
		v.redraw(nil)
	}
}

// redraw replaces the lines on the terminal.
func (v *view) redraw(lines []string) {
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	b.WriteString("\r\x1b[J")
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	v.drawn = len(lines)
	_, _ = io.WriteString(v.w, b.String())
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
			per(s.Due, s), per(s.Done, s), per(s.Admitted, s), per(s.Refused, s), per(s.Throttled+s.Unavailable+s.Failed, s)),
		fmt.Sprintf("p50 %s   p99 %s   p99.9 %s   generator lag p99 %s", took(float64(s.P50)), took(float64(s.P99)), took(float64(s.P999)), took(float64(s.Lag))),
		fmt.Sprintf("WCU %.0f/s   RCU %.0f/s   $%.2f an hour   writes throttled %s/s", s.Cost.WCU/s.Seconds, s.Cost.RCU/s.Seconds, hourly(s), per(s.WritesThrottled, s)),
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
	return fmt.Sprintf("%s of %s, %s, %s: asked %s/s, done %s/s, refused %s/s, errors %s/s, p50 %s, p99 %s, p99.9 %s, %.0f WCU/s, $%.2f an hour, %d shards",
		p.Done.Round(time.Second), p.Planned.Round(time.Second), p.Side, v.names.Phases[p.Phase].Name,
		per(s.Due, s), per(s.Done, s), per(s.Refused, s), per(s.Throttled+s.Unavailable+s.Failed, s),
		took(float64(s.P50)), took(float64(s.P99)), took(float64(s.P999)), s.Cost.WCU/s.Seconds, hourly(s), s.Shards)
}

// per is a number per second of a sample.
func per(n int64, s *result.Sample) string { return count(float64(n) / s.Seconds) }

// hourly is what an hour of a sample costs, in dollars.
func hourly(s *result.Sample) float64 { return s.Cost.Dollars / s.Seconds * time.Hour.Seconds() }

// bar draws the elapsed part of a time.
func bar(done, planned time.Duration) string {
	const width = 40
	full := 0
	if planned > 0 {
		full = int(width * min(1, float64(done)/float64(planned)))
	}
	return fmt.Sprintf("[%s%s] %s of %s", strings.Repeat("#", full), strings.Repeat(".", width-full),
		done.Round(time.Second), planned.Round(time.Second))
}
