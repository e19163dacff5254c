package benchmarks_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// TestEngineHTTP measures an update over HTTP with the SDK's client: of the engine and of
// DynamoDB Local, each in its own process. "canned" answers without reading the request,
// see serveCanned, so that only the client's cost remains. The engine need not reach a
// throughput that "canned" does not reach.
//
// Not parallel: other work would be measured too.
func TestEngineHTTP(t *testing.T) {
	const keys = 1_000
	ctx := t.Context()
	server := startProcess(t, "server")
	ask[opened](t, server, orders{Open: &openOrder{}})
	engine := ask[string](t, server, orders{Serve: true})
	local := localEndpoint(t)
	for _, endpoint := range []string{engine, local} {
		if endpoint == "" {
			continue
		}
		if err := fill(ctx, engineClient(endpoint, 8), small, keys, false); err != nil {
			t.Fatal(err)
		}
	}
	canned := serveCanned(t, cannedUpdate(ctx, t, engineClient(engine, 1)))

	s := newSheet("UpdateItem, 7 attributes", "clients", "updates/s", "p50", "p99", "times DynamoDB Local's", "target", "p50 to", "target", "p99 to", "target", "server's CPU")
	for i, c := range []struct{ clients, keys int }{{1, keys}, {8, keys}, {64, keys}, {8, 1}, {64, 1}} {
		of := func(name, endpoint string) *side {
			client := engineClient(endpoint, c.clients)
			return &side{name: name, work: func() (burst, error) {
				return drive(c.clients, *sliceTime, func(random *rand.Rand) error {
					_, err := client.UpdateItem(ctx, hotUpdate(random.IntN(c.keys)))
					return err
				})
			}}
		}
		ours, none := of("dynamolite", engine), of("canned", canned)
		sides := []*side{ours, none}
		var theirs *side
		if local != "" {
			theirs = of("DynamoDB Local", local)
			sides = append(sides, theirs)
		}
		if i == 0 && theirs != nil {
			alternate(t, theirs) // lets Java compile the hot code
		}
		for _, side := range sides {
			side.bursts = nil
			if _, err := side.work(); err != nil { // connects
				t.Fatal(err)
			}
		}
		before := ask[usage](t, server, orders{Usage: true})
		alternate(t, sides...)
		after := ask[usage](t, server, orders{Usage: true})

		load := fmt.Sprintf("%d, %d keys", c.clients, c.keys)
		for _, side := range sides {
			row := []string{side.name, load, perSecond(side.median(burst.rate)), latency(side.median(burst.p50)), latency(side.median(burst.p99)), "", "", "", "", "", "", ""}
			if side == ours {
				row[11] = latency(float64(after.CPU-before.CPU) / float64(side.calls()))
			}
			if side == ours && theirs != nil {
				four := ours.to(theirs, burst.cost).times(4)
				if judge(none.to(theirs, burst.cost).times(4), 1) != missed {
					hold(t, load+": the time of 4 updates, to one of DynamoDB Local", four, 1)
				}
				row[5], row[6] = ours.to(theirs, burst.rate).String(), "≥ 4 "+string(judge(four, 1))
				p50, p99 := ours.to(theirs, burst.p50), ours.to(theirs, burst.p99)
				row[7], row[8] = p50.String(), "≤ 1 "+string(hold(t, load+": p50, to DynamoDB Local's", p50, 1))
				row[9], row[10] = p99.String(), "≤ 1 "+string(hold(t, load+": p99, to DynamoDB Local's", p99, 1))
			}
			s.row(row...)
		}
	}
	s.print(t, inSlices())
}

// cannedUpdate is an engine's answer to the update, for serveCanned.
func cannedUpdate(ctx context.Context, tb testing.TB, client *dynamodb.Client) map[string]string {
	tb.Helper()
	out, err := client.UpdateItem(ctx, hotUpdate(0))
	if err != nil {
		tb.Fatal(err)
	}
	rec := &recording{recorder: newRecorder()}
	rec.image = out.Attributes
	return rec.answers(tb)
}

// calls is the total number of calls of a side.
func (s *side) calls() (n int) {
	for _, b := range s.bursts {
		n += len(b.took)
	}
	return n
}
