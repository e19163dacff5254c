package aggregator_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A dense stream has denseRecords, in pages of 1,000 records of denseBuckets.
const (
	denseRecords = 40_000
	denseBuckets = 50
)

// Following a dense stream: of an engine in the same
// process, and through the clients of an engine in another one. CPU time is that of the
// process that follows, so the engine's is in the first only.
func BenchmarkDense(b *testing.B) {
	b.Run("in process", func(b *testing.B) {
		benchmarkDense(b, func() (dynamo.API, stream.API) {
			db, _ := stocked(b, denseRecords, denseBuckets)
			return db, db
		})
	})
	b.Run("client", func(b *testing.B) {
		benchmarkDense(b, func() (dynamo.API, stream.API) { return serveStocked(b, denseRecords) })
	})
}

func benchmarkDense(b *testing.B, open func() (dynamo.API, stream.API)) {
	b.Helper()
	var spent time.Duration
	var mallocs uint64
	for b.Loop() {
		b.StopTimer()
		api, streams := open()
		runtime.GC()
		cpu, memory := resources(b)
		b.StartTimer()
		follow(b, api, streams, denseRecords)
		after, memoryAfter := resources(b)
		spent, mallocs = spent+after-cpu, mallocs+memoryAfter-memory
	}
	all := float64(denseRecords) * float64(b.N)
	b.ReportMetric(all/spent.Seconds(), "records/cpu-s")
	b.ReportMetric(float64(mallocs)/all, "allocs/record")
}

// resources are the CPU time and the allocations of the process so far.
func resources(tb testing.TB) (cpu time.Duration, mallocs uint64) {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), m.Mallocs
}

// serveVariable makes the test binary a process that serves a stream of that many records.
const serveVariable = "AGGREGATOR_SERVES"

// serveStocked starts a process with a stocked engine, and returns clients of it.
func serveStocked(tb testing.TB, records int) (dynamo.API, stream.API) {
	tb.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), os.Args[0], "-test.run=^TestFollowThroughClients$", "-test.timeout=0")
	cmd.Env, cmd.Stderr = append(os.Environ(), fmt.Sprint(serveVariable, "=", records)), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	var url string
	if _, err := fmt.Fscanln(out, &url); err != nil {
		tb.Fatal(err)
	}
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	}
	return fastclient.New(cfg), dynamodbstreams.NewFromConfig(cfg)
}

// serve serves a stocked engine until the input ends.
func serve(t *testing.T, records string) {
	t.Helper()
	n, err := strconv.Atoi(records)
	if err != nil {
		t.Fatal(err)
	}
	db, _ := stocked(t, n, denseBuckets)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fmt.Println("http://" + l.Addr().String()) // for serveStocked
	_ = dynamolite.NewHandler(db, dynamolite.HandlerOptions{}).Serve(ctx, l)
}

// A stream of another process is processed through the clients, all of it. In that process,
// the test serves the stream.
func TestFollowThroughClients(t *testing.T) {
	if records := os.Getenv(serveVariable); records != "" {
		serve(t, records)
		return
	}
	const records = 500
	api, streams := serveStocked(t, records)
	follow(t, api, streams, records)
}

// A dense batch takes few allocations for each record: a record's amounts, and its share of
// the lists. The writes are not part of it.
func TestADenseBatchIsCheap(t *testing.T) {
	const records, most = 1000, 3300 // under the race detector; 1,820 without
	db, arn := stocked(t, records+denseBuckets, denseBuckets)
	var batch []stream.Record
	for _, r := range stream.Decode(pages(t, db, arn)) {
		if r.Old != nil && r.New != nil && len(batch) < records {
			batch = append(batch, r)
		}
	}
	a := unattended(t, db, &nobody{})
	got := testing.AllocsPerRun(10, func() {
		if res, err := a.Process(t.Context(), batch); err != nil || res.Records != records || res.Buckets != denseBuckets {
			t.Fatal(err, res)
		}
	})
	if got > most {
		t.Errorf("%.0f allocations for %d records", got, records)
	}
	t.Logf("%.0f allocations for %d records", got, records)
}
