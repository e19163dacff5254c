//go:build conformance

package benchmarks_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// A pythonOrder is an order to testdata/peer.py.
type pythonOrder map[string]any

// startPython starts the Python peer in its own process. Its client keeps botocore's
// default of 10 connections, since it has no option for it.
func startPython(t *testing.T, endpoint string) func(peerLoad) (peerBurst, error) {
	t.Helper()
	script := peers.StartScript(t, "testdata/peer.py")
	limit := load{}.limit(peerLimit)
	if err := script.Ask(pythonOrder{
		"op": "open", "endpoint": endpoint, "region": peers.Region, "table": table, "resource": resource, "entities": peerEntities("python"),
		"limit":   map[string]any{"name": peerLimit, "capacity": limit.Capacity, "refill_amount": amount, "refill_period_seconds": 60},
		"opening": map[string]int64{peerLimit: load{}.opening()}, "consume": map[string]int64{peerLimit: amount},
	}, new(any)); err != nil {
		t.Fatal(err)
	}
	return func(l peerLoad) (b peerBurst, err error) {
		var did struct {
			Elapsed, CPU time.Duration
			Took         []time.Duration
		}
		err = script.Ask(pythonOrder{"op": "burst", "callers": l.callers, "spread": l.spread, "long": *sliceTime}, &did)
		slices.Sort(did.Took)
		return peerBurst{burst: burst{elapsed: did.Elapsed, took: did.Took}, cpu: did.CPU}, err
	}
}
