package calendar_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// Edges walks as Next does, and leaves what Period remembers alone.
func TestEdges(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"day", "month from last day", "*/7 9-17 * * 1-5", "week from monday;month", "year from 29 february"} {
		r, err := calendar.Parse(words, "Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		const from, most = 1_700_000_000_000, 50
		edges := []int64{from}
		for range most {
			edges = append(edges, r.Next(edges[len(edges)-1]))
		}
		for n, edge := range edges {
			for _, to := range []int64{edge, edge - 1, edge + 1} {
				want := n
				if to < edge {
					want = max(0, n-1)
				}
				if got, last := r.Edges(from, to, most); got != want || last != edges[want] {
					t.Errorf("%s: from %d to %d there are %d edges, the last at %d, want %d, %d", words, from, to, got, last, want, edges[want])
				}
			}
			if got, last := r.Edges(from, edges[most], n); got != n || last != edge {
				t.Errorf("%s: of at most %d edges there are %d, the last at %d, want %d", words, n, got, last, edge)
			}
		}
	}
}
