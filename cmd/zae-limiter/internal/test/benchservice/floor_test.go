//go:build conformance

package benchservice_test

import (
	"context"
	jsonv1 "encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/go-json-experiment/json"
	"google.golang.org/grpc"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/child"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// asFloor is the variable of the environment that makes this program the floor: a process of its own, which decides nothing.
const asFloor = "ZAEL_BENCHSERVICE_FLOOR"

func TestMain(m *testing.M) {
	if os.Getenv(asFloor) == "" {
		os.Exit(m.Run())
	}
	if err := serveFloor(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A floorServer answers as soon as it has read a call.
type floorServer struct {
	rls.UnimplementedRateLimitServiceServer
}

// ShouldRateLimit admits every call.
func (floorServer) ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}, nil
}

// printedByFloor is what the floor prints when it listens.
type printedByFloor struct {
	PID            int
	Endpoint, GRPC string
}

// serveFloor serves what the transports cost: both protocols, without a limiter. Its heap is collected as seldom as that
// of the service.
func serveFloor() error {
	const spareHeap, streamWorkers = 64 << 20, 64
	spare := make([]byte, spareHeap)
	defer runtime.KeepAlive(spare)
	var at [2]net.Listener
	for i := range at {
		var err error
		if at[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // it ends with the process
			return err
		}
	}
	calls := grpc.NewServer(grpc.NumStreamWorkers(streamWorkers))
	rls.RegisterRateLimitServiceServer(calls, floorServer{})
	go func() { _ = calls.Serve(at[0]) }()
	if err := jsonv1.NewEncoder(os.Stdout).Encode(printedByFloor{os.Getpid(), "http://" + at[1].Addr().String(), at[0].Addr().String()}); err != nil {
		return err
	}
	return http.Serve(at[1], http.HandlerFunc(floorBatch)) //nolint:gosec // it ends with the process
}

// floorBatch reads the calls of a batch, and admits each with the answer that the service has: of one limit.
func floorBatch(w http.ResponseWriter, r *http.Request) {
	var in httpapi.Batch
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &in, json.RejectUnknownMembers(true))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var out httpapi.BatchAnswer
	for i := range in.Calls {
		c := &in.Calls[i]
		out.Results = append(out.Results, httpapi.Result{Status: http.StatusOK, Decision: &decide.Decision{
			Admitted: true, RetryAfter: decide.Millis(0), Statuses: []decide.Status{{
				Entity: c.Entity, Resource: c.Resource, Limit: "rpm", Parameters: limitarg.ParametersOf(limiter.PerMinute("rpm", 1_000_000_000)),
				Available: 1_000_000_000, Requested: 1, RetryAfter: decide.Millis(0),
			}},
		}})
	}
	text, err := jsonv1.Marshal(out)
	if err != nil {
		panic(err) // the types have nothing that cannot be encoded
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client may have left
}

// startFloor starts the floor.
func startFloor(t *testing.T) *service {
	t.Helper()
	lines := make(chan string, 1)
	child.Start(t, asFloor, "1", func(line string) { lines <- line })
	var printed printedByFloor
	select {
	case line := <-lines:
		if err := json.Unmarshal([]byte(line), &printed); err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the floor does not start")
	}
	return &service{pid: printed.PID, http: printed.Endpoint, grpc: printed.GRPC}
}

// bareUpdate measures in this process what an UpdateItem of an admitted call costs the engine alone: the last one that
// a limiter sends, again and again.
func bareUpdate(t *testing.T) *side {
	t.Helper()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	var last atomic.Pointer[dynamodb.UpdateItemInput]
	tap := faults.Wrap(engine, faults.Before(func(c *faults.Call) error {
		if in, ok := c.Input.(*dynamodb.UpdateItemInput); ok {
			last.Store(in)
		}
		return nil
	}))
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		t.Fatal(err)
	}
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: tap, Table: "limits"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := limiter.New(s, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		if _, err := l.Acquire(t.Context(), limiter.Request{
			Entity: "key-1", Resource: "api", Consume: map[string]int64{"rph": 1}, Fallback: []limiter.Limit{limiter.PerHour("rph", 1_000_000_000)},
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // the bucket is full again
	}
	in := last.Load()
	const later = 9_999_999_999_999
	values := in.ExpressionAttributeValues
	values[":seen"] = &types.AttributeValueMemberN{Value: strconv.Itoa(later)} // it is sent again
	n := later
	return &side{name: "floor: an UpdateItem in process", decisions: 1, inProcess: true, call: func(ctx context.Context, _ int) error {
		n++
		values[":q"] = &types.AttributeValueMemberN{Value: strconv.Itoa(n)} // the number of the write
		_, err := engine.UpdateItem(ctx, in)
		return err
	}}
}

// ownCPU is the processor time of this process.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
