package serve_test

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/serve"
)

// A service with a small heap lets it grow by the spare memory before it collects, and by no more than Go
// does if the environment says how often to collect.
func TestASmallHeapIsCollectedLess(t *testing.T) {
	for _, tt := range []struct {
		set  string
		less bool
	}{{"", true}, {"GOGC", false}, {"GOMEMLIMIT", false}} {
		t.Run(tt.set, func(t *testing.T) {
			a := &app.App{Getenv: func(name string) string {
				if name == tt.set {
					return "100"
				}
				return ""
			}}
			before := goal()
			end := serve.CollectLess(a)
			less := goal() > before+serve.SpareHeap
			end()
			if less != tt.less || goal() > before+serve.SpareHeap {
				t.Errorf("the heap grows to %d bytes before, and more later: %v", before, less)
			}
		})
	}
}

// goal is the size of the heap at which the collector next runs, in bytes.
func goal() uint64 {
	runtime.GC()
	samples := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
