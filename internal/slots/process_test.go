//go:build unix

package slots_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/test/child"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// tableVariable makes the test binary a process that holds slots of the table at a URL.
	tableVariable = "SLOTS_TABLE"
	realCap       = 12
)

var realSlots = store.SlotKey{Entity: "user", Resource: "gpt-4", Limit: "inflight"}

func TestMain(m *testing.M) {
	url := os.Getenv(tableVariable)
	if url == "" {
		os.Exit(m.Run())
	}
	if err := holdReally(url); err != nil {
		fmt.Fprintln(os.Stderr, "hold slots:", err)
		os.Exit(1)
	}
}

// realHolder is a holder on the table at a URL, 3 of 100 of whose answers are lost.
func realHolder(url string) (*slots.Holder, error) {
	client := fastclient.New(aws.Config{
		Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	})
	lossy := faults.On(faults.After(func(_ *faults.Call, err error) error {
		if err == nil && rand.IntN(100) < 3 {
			return errCut
		}
		return err
	}), faults.UpdateItem)
	s, err := dynamo.Open(context.Background(), dynamo.Options{API: faults.Wrap(client, lossy), Table: testbed.Table})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return slots.New(s, slots.Options{
		Now: func() int64 { return s.Now().UnixMilli() }, Uptime: func() time.Duration { return time.Since(began) },
		Rand: rand.Int64N, Logger: slog.New(slog.DiscardHandler),
	}), nil
}

// holdReally holds slots until the input ends, and writes from when to when: a number for each
// lease, and the instant, which is negative at the end.
func holdReally(url string) error {
	h, err := realHolder(url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var all sync.WaitGroup
	var mu sync.Mutex
	say := func(id, sign int64) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(id, sign*time.Now().UnixNano())
	}
	for range 3 {
		all.Go(func() {
			for {
				lease, err := h.Acquire(ctx, slots.Ask{SlotKey: realSlots, Slots: 1, Cap: realCap, Waits: true})
				if err != nil {
					return
				}
				id := rand.Int64()
				say(id, 1)
				select {
				case <-time.After(rand.N(400 * time.Millisecond)):
				case <-lease.Lost():
				}
				say(id, -1)
				lease.Release()
			}
		})
	}
	all.Wait()
	h.Close()
	return nil
}

// A realProcess holds slots.
type realProcess struct {
	*child.Process

	began map[int64]int64 // of leases without an end
	spans []span          // of the others
	stop  int64           // when it was stopped; 0 if never
	died  int64           // when it was killed; 0 if never
}

// A span is when a slot was held, in ns.
type span struct{ from, to int64 }

func startReal(t *testing.T, url string) *realProcess {
	t.Helper()
	c := &realProcess{began: map[int64]int64{}}
	c.Process = child.Start(t, tableVariable, url, c.hear)
	return c
}

// hear takes in a line: a lease and when it began, or the negative of when it ended.
func (c *realProcess) hear(line string) {
	var id, at int64
	if n, _ := fmt.Sscan(line, &id, &at); n < 2 {
		return // it was killed half-way
	}
	if at > 0 {
		c.began[id] = at
		return
	}
	c.spans = append(c.spans, span{c.began[id], -at})
	delete(c.began, id)
}

// end waits for the end of a process, and returns when it held slots. One that was stopped is
// counted until it should have given up: it could not.
func (c *realProcess) end() []span {
	c.End()
	spans := c.spans
	for _, from := range c.began {
		spans = append(spans, span{from, c.died})
	}
	for i := range spans {
		if s := &spans[i]; c.stop != 0 && s.from < c.stop {
			s.to = min(s.to, c.stop+int64(slots.LeaseTime-slots.Skew))
		}
	}
	return spans
}

// P14 with processes, of which some are killed and some are stopped, on a network that loses
// answers.
func TestLongestProcessesThatAreKilledAndStopped(t *testing.T) {
	t.Parallel()
	db := testbed.NewEngine(t, dynamolite.Options{})
	testbed.CreateTable(t, db, dynamo.TableOptions{})
	server := httptest.NewServer(dynamolite.NewHandler(db, dynamolite.HandlerOptions{}))
	defer server.Close()
	var all []*realProcess
	for range 16 {
		all = append(all, startReal(t, server.URL))
	}
	time.Sleep(3 * time.Second)
	const paused = time.Minute // TestLongNoCrashLeaksASlot, beside it, takes as long
	stopped := time.Now()
	for _, c := range all[:3] { // they hold slots, with some probability
		c.stop = time.Now().UnixNano()
		c.Signal(syscall.SIGSTOP)
	}
	for i := range 15 {
		time.Sleep(time.Second)
		c := all[3+i]
		c.Kill()
		c.died = time.Now().UnixNano()
		all = append(all, startReal(t, server.URL))
	}
	time.Sleep(paused - time.Since(stopped)) // four leases
	for _, c := range all[:3] {
		c.Signal(syscall.SIGCONT)
	}
	time.Sleep(2 * time.Second)
	var spans []span
	for _, c := range all {
		spans = append(spans, c.end()...)
	}
	most := mostAtOnce(spans)
	t.Logf("%d slots were held, at most %d at once of %d", len(spans), most, realCap)
	if most > realCap || most < realCap/2 {
		t.Errorf("%d slots were held at once, of %d", most, realCap)
	}
	h, err := realHolder(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, cancel := context.WithTimeout(t.Context(), healing)
	defer cancel()
	lease, err := h.Acquire(ctx, slots.Ask{SlotKey: realSlots, Slots: realCap, Cap: realCap, Waits: true})
	if err != nil {
		t.Fatalf("slots are not back: %v", err)
	}
	lease.Release()
}

// mostAtOnce is the largest number of spans that overlap.
func mostAtOnce(spans []span) (most int) {
	type edge struct {
		at  int64
		add int
	}
	var edges []edge
	for _, s := range spans {
		edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.add, b.add)) })
	n := 0
	for _, e := range edges {
		n += e.add
		most = max(most, n)
	}
	return most
}
