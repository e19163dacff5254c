package manifest_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// An export keeps what each form of a limit returns.
func TestReturnsOfLimits(t *testing.T) {
	t.Parallel()
	exportKeeps(t, func(l *store.Limit) { l.Returns = 0 },
		"{rate: 100/min, returns: 50}", "{capacity: 5, returns: 100}", "{quota: 5, renews: day, returns: 1}",
		"{capacity: 5, reset_after_seconds: 3600, returns: 5, mode: shadow}")
	for _, percent := range []string{"0", "101", "half", "50%"} {
		_, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: {rate: 1, returns: "+percent+"}}}\n"))
		if err == nil || !strings.Contains(err.Error(), "system.limits.rpm.returns") {
			t.Error(percent, err)
		}
	}
}
