package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/middleware/grpclimit"
)

// A journal is a log that a server writes and a test reads.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) count(message string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), `msg="`+message+`"`)
}

// commits is a handler that ends the lease itself.
func commits(ctx context.Context) error {
	lease, _ := grpclimit.LeaseFrom(ctx)
	return lease.Commit(ctx)
}

// A commit that fails is logged, and so is a limit that Settle names and the call did not. A
// lease that the handler has ended is not.
func TestWhatIsNotSettledIsLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		used   map[string]int64
		unary  func(context.Context, *testbed.World) error
		logged int
	}{
		"a limit of the call":        {map[string]int64{"rpm": 2}, nil, 0},
		"a limit that was not named": {map[string]int64{"other": 2}, nil, 1},
		"a lease that is closed":     {map[string]int64{"rpm": 2}, func(ctx context.Context, _ *testbed.World) error { return commits(ctx) }, 0},
		"a table that fails": {map[string]int64{"rpm": 2}, func(_ context.Context, w *testbed.World) error {
			return w.Engine.Close()
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, log := newWorld(t), new(journal)
			o := options()
			o.Settle = func(context.Context, *grpclimit.Call, *grpclimit.Outcome) map[string]int64 { return c.used }
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
			s := &service{}
			if c.unary != nil {
				s.unary = func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					return &pb.SimpleResponse{}, c.unary(ctx, w)
				}
			}
			_, _, err := call(as(t.Context(), "alice"), serve(t, s, w, o))
			w.Must(err)
			if n := log.count("lease not settled"); n != c.logged {
				t.Errorf("logged %d times, want %d", n, c.logged)
			}
		})
	}
}

// A message that is counted without enforcement, and names what the call did not, is logged.
func TestAMessageThatIsNotChargedIsLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit  string
		ends   bool // the handler ends the lease first
		logged int
	}{
		"a limit of the call":        {"tpm", false, 0},
		"a limit that was not named": {"other", false, 1}, // once, for two messages
		"a lease that is closed":     {"tpm", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, log := newWorld(t), new(journal)
				o := streamOptions()
				o.Unenforced, o.Sent = true, nil
				o.Received = func(context.Context, *grpclimit.Call, any) map[string]int64 { return map[string]int64{c.limit: 1} }
				o.Logger = slog.New(slog.NewTextHandler(log, nil))
				s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
					if c.ends {
						w.Check(commits(stream.Context()))
					}
					return echo(stream)
				}}
				stream, err := pb.NewTestServiceClient(serve(t, s, w, o)).FullDuplexCall(as(t.Context(), "alice"))
				w.Must(err)
				w.Must(ask(stream, 1))
				w.Must(ask(stream, 1))
				w.Must(stream.CloseSend())
				if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				synctest.Wait()
				if n := log.count("message not charged"); n != c.logged {
					t.Errorf("logged %d times, want %d", n, c.logged)
				}
			})
		})
	}
}
