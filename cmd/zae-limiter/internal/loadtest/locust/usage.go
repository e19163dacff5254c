package locust

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// usageInterval is the time over which the use of the processors is measured, as in Locust.
const usageInterval = 10 * time.Second

// usage measures what the process uses.
type usage struct {
	at      time.Time
	spent   time.Duration
	percent float64
}

// sample returns the use of the processors since some seconds ago, and memory in bytes. 100
// percent is all processors that the process may use: Locust warns above 90, because a
// worker in Python can use no more than one.
func (u *usage) sample(now time.Time) (percent float64, memory uint64) {
	if passed := now.Sub(u.at); u.at.IsZero() || passed >= usageInterval {
		spent := processorTime()
		if !u.at.IsZero() {
			u.percent = 100 * (spent - u.spent).Seconds() / (passed.Seconds() * float64(runtime.GOMAXPROCS(0)))
		}
		u.at, u.spent = now, spent
	}
	held := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(held)
	return u.percent, held[0].Value.Uint64() - held[1].Value.Uint64()
}
