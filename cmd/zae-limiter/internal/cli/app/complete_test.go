package app_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// A person waits at most two seconds for proposals, and gets those that were read. What a
// terminal would obey is not among them.
func TestProposalsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &app.App{Getenv: func(string) string { return "" }}
		a.Flags.Bind(pflag.NewFlagSet("", pflag.ContinueOnError))
		began := time.Now()
		got := a.Propose(t.Context(), "k", func(ctx context.Context) ([]string, error) {
			<-ctx.Done()
			return []string{"key-2", "key-1", "key-1", "acme", "k\x1b[2J", "k\ty"}, ctx.Err()
		})
		if diff := cmp.Diff([]string{"key-1", "key-2"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v, want 2s", took)
		}
	})
}
