package usage_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	cliusage "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/usage"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// page has snapshots of some hours and entities, the newest first.
func page(hours, entities int) *usage.Page {
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &usage.Page{}
	for h := hours - 1; h >= 0; h-- {
		for e := range entities {
			p.Snapshots = append(p.Snapshots, usage.Snapshot{
				Key:    usage.Key{Entity: fmt.Sprintf("key-%02d", e), Resource: "gpt-4", Window: usage.Hourly, Start: first.Add(time.Duration(h) * time.Hour)},
				Tokens: []usage.Amount{{Limit: "rpm", Milli: big.NewInt(int64(1000 * (e + 1) * (h + 1)))}},
			})
		}
	}
	return p
}

// Whatever the number of windows, a chart shows them, and fits the terminal.
func TestAChartFitsWhatItShows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		hours, entities, columns, lines int
		has                             string
	}{
		{0, 0, 80, 1, "there is nothing to draw\n"},
		{1, 1, 80, 3, "key-00  gpt-4     1       ########################################\n"},
		{1, 1, 50, 3, "key-00  gpt-4     1       ########################\n"},
		{1, 1, 30, 3, "key-00  gpt-4     1\n"}, // no room for a bar
		{1, 25, 80, 23, "and 5 more, with 15 tokens together\n"},
		{2, 2, 80, 4, "2026-01-01T01:00:00Z  6       ########################################\n"},
		{20, 1, 80, 22, "2026-01-01T00:00:00Z  1       ##......................................\n"},
		{21, 1, 80, 13, "2026-01-01T00:00:00Z to 2026-01-01T20:00:00Z\n"},
		{300, 1, 80, 13, "rpm: tokens, hourly, the highest of each 5\n"},
		{300, 1, 44, 13, "rpm: tokens, hourly, the highest of each 10\n"},
	} {
		got := cliusage.Plot(tt.columns, &usage.Query{Window: usage.Hourly}, page(tt.hours, tt.entities))
		if !strings.Contains(got, tt.has) || strings.Count(got, "\n") != tt.lines {
			t.Errorf("%+v:\n%s", tt, got)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > max(44, tt.columns) { // the range of a line is 44 columns
				t.Errorf("%+v: a line has %d columns: %s", tt, n, line)
			}
		}
	}
}
