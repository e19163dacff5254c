package grpclimit_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/grpclimit"
)

// A transport takes metadata and sends nothing.
type transport struct{}

func (transport) Method() string               { return "/" + resource }
func (transport) SetHeader(metadata.MD) error  { return nil }
func (transport) SendHeader(metadata.MD) error { return nil }
func (transport) SetTrailer(metadata.MD) error { return nil }

// A comparison has four things to do: to carry out a unary call with a lease that was
// acquired before, without the interceptor and behind it; and to make a whole call over a
// connection in memory, to a server without the interceptor and to one with it.
type comparison struct{ alone, behind, bare, limited func() }

func compare(tb testing.TB) comparison {
	tb.Helper()
	limits := limitertest.New(tb, limiter.PerMinute("rpm", 1_000_000_000), limiter.PerMinute("tpm", 1_000_000_000_000))
	consume := map[string]int64{"rpm": 1, "tpm": 100}
	lease, err := limits.Acquire(tb.Context(), limiter.Request{Entity: "alice", Resource: resource, Consume: consume})
	if err != nil {
		tb.Fatal(err)
	}
	same := grpclimit.AcquirerFunc(func(context.Context, limiter.Request) (*limiter.Lease, error) { return lease, nil })
	o := grpclimit.Options{Entity: grpclimit.Metadata("x-user"), Consume: consume}
	limit, err := grpclimit.NewServer(same, o)
	if err != nil {
		tb.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	ctx := metadata.NewIncomingContext(grpc.NewContextWithServerTransportStream(tb.Context(), transport{}), metadata.Pairs("x-user", "alice"))
	info, message, answer := &grpc.UnaryServerInfo{FullMethod: "/" + resource}, &pb.SimpleRequest{}, &pb.SimpleResponse{}
	handler := grpc.UnaryHandler(func(context.Context, any) (any, error) { return answer, nil })
	calls := func(opts ...grpc.ServerOption) func() {
		server := grpc.NewServer(opts...)
		pb.RegisterTestServiceServer(server, &service{})
		client, outgoing := pb.NewTestServiceClient(dial(tb, server)), as(tb.Context(), "alice")
		return func() {
			_, err := client.UnaryCall(outgoing, message)
			must(err)
		}
	}
	return comparison{
		alone: func() {
			lease, err := same.Acquire(ctx, limiter.Request{})
			must(err)
			_, err = handler(ctx, message)
			must(err)
			must(lease.Commit(ctx))
		},
		behind: func() {
			_, err := limit.Unary(ctx, message, info, handler)
			must(err)
		},
		bare: calls(), limited: calls(grpc.ChainUnaryInterceptor(limit.Unary)),
	}
}

// BenchmarkInterceptor measures what the server's interceptor adds to a unary call with two
// limits, in short slices in turn. It reports medians: in nanoseconds, and what a whole call
// over a connection in memory takes with the interceptor for each nanosecond without.
func BenchmarkInterceptor(b *testing.B) {
	const size = 200
	c := compare(b)
	slice := func(f func()) float64 {
		begin := time.Now()
		for range size {
			f()
		}
		return float64(time.Since(begin).Nanoseconds()) / size
	}
	var added, ratio []float64
	for b.Loop() {
		alone, behind, bare, limited := slice(c.alone), slice(c.behind), slice(c.bare), slice(c.limited)
		added = append(added, behind-alone)
		ratio = append(ratio, limited/bare)
	}
	slices.Sort(added)
	slices.Sort(ratio)
	b.ReportMetric(added[len(added)/2], "added-ns")
	b.ReportMetric(ratio[len(ratio)/2], "call-ratio")
	b.ReportMetric(testing.AllocsPerRun(100, c.behind)-testing.AllocsPerRun(100, c.alone), "added-allocs")
	b.ReportMetric(0, "ns/op") // of four slices
}

// maxAllocations is the budget for one call on top of the acquire, metadata of two limits
// included, as for the middleware of package httplimit.
const maxAllocations = 12

func TestTheInterceptorsAllocationBudget(t *testing.T) {
	c := compare(t)
	if added := testing.AllocsPerRun(1000, c.behind) - testing.AllocsPerRun(1000, c.alone); added > maxAllocations {
		t.Errorf("the interceptor adds %v allocations, %d are the most", added, maxAllocations)
	}
}
