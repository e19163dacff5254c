// Package conformance_test has the tests against real counterparts, with the build tag
// conformance, and those of several processes on one table.
package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// hotWorker is the environment variable that makes this binary a worker.
const hotWorker = "ZAEL_TEST_HOT_WORKER"

// TestMain lets a test start this binary again as a separate process. It runs twice as many tests
// at once as there are processors: a test waits for one of its processes at a time, and with two
// tests the processors are idle more than half of the time. The flag -parallel overrides it.
func TestMain(m *testing.M) {
	if os.Getenv(hotWorker) != "" {
		if err := serveJob(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const (
	hotTable     = "hot"
	hotResource  = "gpt-4"
	hotProcesses = 2
	hotRoutines  = 64 // of each process
)

// A job is the work of a worker: all its goroutines acquire a token at a time from one
// entity, for a number of times or for a duration.
type job struct {
	Endpoint, Entity string
	Capacity         int64 // of the limit, as refusals must quote it
	InFlight         int
	Tries            int           // of each goroutine; 0 means for a duration
	For              time.Duration // if Tries is 0
}

// A tally is the result of a job.
type tally struct {
	Admitted, Refused, Carried int64
	Failures                   []string
}

// serveJob does one job. It reads the job, reports that it is ready, waits for another line
// and, when done, writes its tally.
func serveJob(stdin io.Reader, stdout io.Writer) error {
	in, out := bufio.NewReader(stdin), json.NewEncoder(stdout)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(line, &j); err != nil {
		return err
	}
	ctx := context.Background()
	store, err := dynamo.Open(ctx, dynamo.Options{API: hotClient(j.Endpoint), Table: hotTable})
	if err != nil {
		return err
	}
	l, err := limiter.New(store, limiter.Options{InFlight: j.InFlight, Timeout: time.Minute})
	if err != nil {
		return err
	}
	if err := out.Encode("ready"); err != nil {
		return err
	}
	if _, err := in.ReadBytes('\n'); err != nil {
		return err
	}
	t := j.do(ctx, l)
	err = l.Close()
	t.Carried = int64(l.Stats().Carried) //nolint:gosec // a count
	return errors.Join(err, out.Encode(t))
}

// do starts all goroutines of the job.
func (j *job) do(ctx context.Context, l *limiter.Limiter) tally {
	var mu sync.Mutex
	var sum tally
	var working sync.WaitGroup
	var refused atomic.Bool
	until := time.Now().Add(j.For)
	// goes reports whether to continue. Goroutines that share writes continue until they
	// have been refused, however slow the machine is.
	goes := func() bool {
		const patience = 20
		now := time.Now()
		return now.Before(until) || j.InFlight >= 0 && !refused.Load() && now.Before(until.Add(patience*j.For))
	}
	for range hotRoutines {
		working.Go(func() {
			var t tally
			for i := 0; i < j.Tries || j.Tries == 0 && goes(); i++ {
				wait, err := j.one(ctx, l, &t)
				if err != nil {
					t.Failures = append(t.Failures, err.Error())
					break
				}
				if wait > 0 {
					refused.Store(true)
				}
				if j.Tries == 0 && wait > 0 {
					// After the quoted wait, and not all at once.
					time.Sleep(min(wait, time.Until(until)) + rand.N(10*time.Millisecond))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			sum.Admitted, sum.Refused = sum.Admitted+t.Admitted, sum.Refused+t.Refused
			sum.Failures = append(sum.Failures, t.Failures...)
		})
	}
	working.Wait()
	return sum
}

// one acquires a token and counts the result; wait is not 0 if it was refused.
func (j *job) one(ctx context.Context, l *limiter.Limiter, t *tally) (wait time.Duration, err error) {
	lease, err := l.Acquire(ctx, hotRequest(j.Entity, 1))
	var refused *limiter.ExceededError
	switch {
	case errors.As(err, &refused):
		t.Refused++
		for _, s := range refused.Statuses {
			if s.Exceeded && (s.Limit.Capacity != j.Capacity || s.Available > 0 || s.RetryAfter <= 0) {
				return 0, fmt.Errorf("a refusal says %+v", s)
			}
			wait = max(wait, s.RetryAfter)
		}
		return wait, nil
	case err != nil:
		return 0, err
	}
	t.Admitted++
	return 0, lease.Commit(ctx)
}

func hotRequest(entity string, n int64) limiter.Request {
	return limiter.Request{Entity: entity, Resource: hotResource, Consume: map[string]int64{"rpd": n}}
}

func hotClient(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
}

// A worker is a process that does a job.
type worker struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr bytes.Buffer
}

// employ starts a worker and returns when it is ready.
func (h *hot) employ(j job) *worker {
	h.Helper()
	w := &worker{Cmd: exec.CommandContext(h.Context(), os.Args[0])}
	// With the race detector the process would otherwise sleep for a second before it ends.
	w.Env = append(w.Environ(), hotWorker+"=1", "AWS_EC2_METADATA_DISABLED=true", "GORACE=atexit_sleep_ms=0")
	w.Stderr = &w.stderr
	var err error
	w.in, err = w.StdinPipe()
	h.must(err)
	out, err := w.StdoutPipe()
	h.must(err)
	w.out = json.NewDecoder(out)
	h.must(w.Start())
	h.must(json.NewEncoder(w.in).Encode(j))
	var ready string
	if err := w.out.Decode(&ready); err != nil {
		h.Fatalf("worker: %v, %v\n%s", err, w.Wait(), &w.stderr)
	}
	return w
}

// work starts all workers at once, and sums their tallies.
func (h *hot) work(j job) (sum tally) {
	h.Helper()
	workers := make([]*worker, hotProcesses)
	for i := range workers {
		workers[i] = h.employ(j)
	}
	for _, w := range workers {
		_, err := io.WriteString(w.in, "go\n")
		h.must(err)
	}
	for i, w := range workers {
		var t tally
		err := w.out.Decode(&t)
		if err := errors.Join(err, w.Wait()); err != nil || w.stderr.Len() > 0 {
			h.Fatalf("worker: %v\n%s", err, &w.stderr)
		}
		h.Logf("process %d: %d admitted, %d refused, %d carried", i, t.Admitted, t.Refused, t.Carried)
		if t.Admitted == 0 {
			h.Error("the processes did not meet")
		}
		if len(t.Failures) > 0 {
			h.Errorf("process %d failed %d times: %s", i, len(t.Failures), t.Failures[0])
		}
		sum.Admitted, sum.Refused, sum.Carried = sum.Admitted+t.Admitted, sum.Refused+t.Refused, sum.Carried+t.Carried
	}
	// Callers always queue for what several shards must serve together.
	if alone := j.InFlight < 0; !alone && sum.Carried == 0 || alone && h.shards == 1 && sum.Carried > 0 {
		h.Errorf("%d claims were carried along with %d in flight", sum.Carried, j.InFlight)
	}
	return sum
}

// hot is one entity that processes contend for.
type hot struct {
	*testing.T
	api    dynamo.API
	store  *dynamo.Store
	entity string // the entity with the limit
	asks   string // the entity of the requests: the same, or a child that cascades to it
	shards int
}

func (h *hot) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// A hotCase is a way in which the processes work.
type hotCase struct {
	name     string
	shards   int
	inFlight int
	cascade  bool
}

var hotCases = []hotCase{
	{"1 shard, shared writes", 1, 0, false},
	{"1 shard, a write each", 1, -1, false},
	{"4 shards, shared writes", 4, 0, false},
	{"4 shards, a write each", 4, -1, false},
	{"a parent of 4 shards, shared writes", 4, 0, true},
	{"a parent of 4 shards, a write each", 4, -1, true},
}

// contend lets processes contend for entities in every way. Cases are not parallel: each
// has more goroutines than a machine has processors.
func contend(t *testing.T, endpoint string) {
	t.Helper()
	api := hotClient(endpoint)
	if err := dynamo.CreateTable(t.Context(), api, dynamo.TableOptions{Name: hotTable}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct {
		name string
		run  func(h *hot, endpoint string, inFlight int)
	}{
		{"exactly what there is", exactly},
		{"no more and no less than accrues", accruing},
	} {
		cases := hotCases
		if testing.Short() {
			cases = hotCases[len(hotCases)-2:] // a parent, of several shards
		}
		for _, c := range cases {
			t.Run(kind.name+", "+c.name, func(t *testing.T) {
				store, err := dynamo.Open(t.Context(), dynamo.Options{API: api, Table: hotTable})
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("hot-%d", rand.Uint64()) //nolint:gosec // a name
				h := &hot{T: t, api: api, store: store, entity: name, asks: name, shards: c.shards}
				if c.cascade {
					h.asks = name + "-child"
					for _, e := range []limiter.Entity{{ID: h.entity}, {ID: h.asks, Parent: h.entity, Cascade: true}} {
						_, err := store.CreateEntity(t.Context(), e)
						h.must(err)
					}
				}
				kind.run(h, endpoint, c.inFlight)
			})
		}
	}
}

// limits gives the entity its limit, and the child more than it will ever need. It creates
// the buckets, full and with the wanted number of shards.
func (h *hot) limits(limit limiter.Limit) {
	h.Helper()
	set := func(entity string, l limiter.Limit, shards int) {
		h.must(h.store.SetLimits(h.Context(), limiter.ConfigKey{Entity: entity, Resource: hotResource}, []limiter.Limit{l}))
		double(h.T, h.store, h.api, hotTable, limiter.Bucket{Entity: entity, Resource: hotResource}, shards)
	}
	set(h.entity, limit, h.shards)
	if h.asks != h.entity {
		set(h.asks, limiter.PerDay("rpd", 1_000_000), 1)
	}
}

// double creates a bucket if there is none, and lets a client double it up to a number of shards. It makes
// the client believe that every shard has taken all possible writes.
func double(t *testing.T, store *dynamo.Store, api dynamo.API, table string, bucket limiter.Bucket, count int) {
	t.Helper()
	_, ns := store.Namespace()
	write := func(shards int, milli int64) {
		for bucket.Shard = range shards {
			_, err := api.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: &table, Key: schema.BucketKey(ns, bucket).Item(),
				UpdateExpression:          aws.String("SET " + schema.WCUTokens + " = :wcu"),
				ConditionExpression:       aws.String("attribute_exists(PK)"),
				ExpressionAttributeValues: schema.Item{":wcu": schema.N(milli)},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	touch := func() uint64 {
		l, err := limiter.New(store, limiter.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := l.Acquire(t.Context(), limiter.Request{Entity: bucket.Entity, Resource: bucket.Resource, Consume: map[string]int64{"rpd": 0}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(lease.Commit(t.Context()), l.Close()); err != nil {
			t.Fatal(err)
		}
		return l.Stats().Doublings
	}
	touch()
	images, err := store.Buckets(t.Context(), bucket.Entity, bucket.Resource, count)
	if err != nil {
		t.Fatal(err)
	}
	for n := len(images); n < count; {
		write(n, -1e9)
		doublings := touch()
		if doublings == 0 {
			t.Fatalf("no doubling of %d shards", n)
		}
		write(n, schema.WCUCapacity)
		n <<= doublings // a client that is held up for long doubles twice
	}
	images, err = store.Buckets(t.Context(), bucket.Entity, bucket.Resource, count)
	if err != nil || len(images) != count {
		t.Fatalf("%d shards, want %d: %v", len(images), count, err)
	}
}

// exactly is a limit that does not refill while the test runs.
func exactly(h *hot, endpoint string, inFlight int) {
	h.Helper()
	const capacity, tries = 500, 6
	h.limits(limiter.Custom("rpd", capacity, 1000*24*time.Hour))
	got := h.work(job{Endpoint: endpoint, Entity: h.asks, Capacity: capacity, InFlight: inFlight, Tries: tries})
	if all := int64(hotProcesses * hotRoutines * tries); got.Admitted != capacity || got.Refused != all-capacity {
		h.Errorf("%d admitted and %d refused of %d, %d were there", got.Admitted, got.Refused, all, capacity)
	}
	h.books(capacity)
}

// books checks that this number of tokens was consumed, including the child's.
func (h *hot) books(consumed int64) {
	h.Helper()
	shardsOf := map[string]int{h.asks: 1}
	shardsOf[h.entity] = h.shards
	for entity, shards := range shardsOf {
		images, err := h.store.Buckets(h.Context(), entity, hotResource, shards)
		h.must(err)
		var sum int64
		for _, img := range images {
			l, _ := img.Limit("rpd")
			sum += l.Consumed
		}
		if len(images) != shards || sum != consumed*1000 {
			h.Errorf("%d shards of %s consumed %d millitokens, want %d shards and %d tokens", len(images), entity, sum, shards, consumed)
		}
	}
}

// accruing is a limit that refills. The bucket is emptied first, so that it admits only
// what it earns.
func accruing(h *hot, endpoint string, inFlight int) {
	h.Helper()
	const capacity, rate, span = 600, 60, 1500 * time.Millisecond
	h.limits(limiter.PerSecond("rpd", rate, limiter.Burst(capacity)))
	l, err := limiter.New(h.store, limiter.Options{Trust: -1, Timeout: time.Minute})
	h.must(err)
	before := time.Now()
	lease, err := l.Acquire(h.Context(), hotRequest(h.asks, capacity))
	h.must(err)
	h.must(lease.Commit(h.Context()))
	after := time.Now()

	got := h.work(job{Endpoint: endpoint, Entity: h.asks, Capacity: capacity, InFlight: inFlight, For: span})

	// Counting the remaining tokens makes the exact end irrelevant.
	asked := time.Now()
	statuses, err := l.Available(h.Context(), hotRequest(h.asks, 0))
	h.must(err)
	rest := statuses[len(statuses)-1].Available
	lease, err = l.Acquire(h.Context(), hotRequest(h.asks, rest))
	h.must(err)
	answered := time.Now()
	h.must(errors.Join(lease.Commit(h.Context()), l.Close()))

	most := rate * answered.Sub(before).Seconds()
	least := rate * asked.Sub(after).Seconds()
	total := got.Admitted + rest
	h.Logf("%d admitted and %d left of %.1f to %.1f", got.Admitted, rest, least, most)
	if total > int64(most) || float64(total) < 0.99*least-1 {
		h.Errorf("%d were admitted and %d left, earned were %.1f to %.1f", got.Admitted, rest, least, most)
	}
	// The workers request more than accrues, unless they are busy with conflicts among
	// themselves. A busy machine lets tokens accrue before they begin, and after they end.
	if inFlight >= 0 && got.Refused == 0 {
		h.Errorf("the processes were admitted %d times, and never refused", got.Admitted)
	}
	h.books(capacity + total)
}

// TestLongProcessesOnLocal lets two processes contend for an entity on zae-limiter local.
func TestLongProcessesOnLocal(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	var stderr bytes.Buffer
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, cli.Options{
			Args:  []string{"local", "--addr", "127.0.0.1:0", "--output", "json"},
			Stdin: bytes.NewReader(nil), Stdout: write, Stderr: &stderr,
			Getenv: func(string) string { return "" },
		})
		_ = write.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 || stderr.Len() > 0 {
			t.Errorf("zae-limiter local: exit code %d, errors %q", code, &stderr)
		}
	})
	var said struct{ Endpoint string }
	if err := json.NewDecoder(read).Decode(&said); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, read)
	contend(t, said.Endpoint)
}
