//go:build !unix

package locust

import (
	"runtime/metrics"
	"time"
)

// processorTime is what the process has spent on processors, as the runtime estimates it.
func processorTime() time.Duration {
	spent := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(spent)
	return time.Duration((spent[0].Value.Float64() - spent[1].Value.Float64()) * float64(time.Second))
}
