//go:build conformance

package benchmarks_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/peers"
)

// A pythonOrder is what testdata/peer.py is told.
type pythonOrder map[string]any

// startPython is the Python peer in a process of its own. Its client keeps botocore's default of 10 connections, which it has
// no option for.
func startPython(t *testing.T, endpoint string) func(peerLoad) (peerBurst, error) {
	t.Helper()
	cmd := exec.Command(peers.Python(t), "testdata/peer.py") //nolint:noctx // it must outlive the test's context, which ends before the cleanups
	cmd.Env = []string{
		"AWS_ACCESS_KEY_ID=" + peers.AccessKey, "AWS_SECRET_ACCESS_KEY=" + peers.SecretKey,
		"AWS_EC2_METADATA_DISABLED=true", "PYTHONDONTWRITEBYTECODE=1",
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			t.Errorf("peer.py: %v\n%s", err, &stderr)
		}
	})
	in, out := json.NewEncoder(stdin), json.NewDecoder(stdout)
	order := func(o pythonOrder, answer any) error {
		if err := in.Encode(o); err != nil {
			return err
		}
		return out.Decode(answer)
	}
	limit := load{}.limit(peerLimit)
	if err := order(pythonOrder{
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
		err = order(pythonOrder{"op": "burst", "callers": l.callers, "spread": l.spread, "long": *sliceTime}, &did)
		slices.Sort(did.Took)
		return peerBurst{burst: burst{elapsed: did.Elapsed, took: did.Took}, cpu: did.CPU}, err
	}
}
