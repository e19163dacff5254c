package benchmarks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// orders are sent to a process one after another. Each order has its own kind of answer.
type orders struct {
	Open  *openOrder  // answered with an opened
	Fill  *fillOrder  // answered with a usage
	Drive *driveOrder // answered with a burstSummary
	Serve bool        // answered with a URL
	Usage bool        // answered with a usage

	Canner bool     // answered with a URL, see canner
	Can    []string // operations that the canner cans; answered with the number of requests so far
	Count  bool     // answered with the number of requests that the canner has had
}

// openOrder opens a database, in memory if there is no directory.
type openOrder struct{ Dir string }

// opened is the time that opening took, and the time until an item was read, if there is
// one.
type opened struct{ Open, FirstRead time.Duration }

// fillOrder creates items of medium shape, or overwrites them at random.
type fillOrder struct {
	Items      int
	Indexed    bool
	Overwrites int // instead of creating them
}

// driveOrder lets one client repeat an operation.
type driveOrder struct {
	Get  bool // otherwise an update
	Keys int  // the number of keys to choose from
	Of   int  // the total number of items
	Long time.Duration
}

// burstSummary summarizes a burst, in nanoseconds.
type burstSummary struct{ P50, P99, Mean float64 }

// usage is what a process has used so far.
type usage struct {
	Resident, Peak float64 // bytes
	Live           float64 // reachable bytes of the heap; 0 if not requested
	CPU            time.Duration
	Mallocs        uint64
}

// roleVariable makes the test binary a process that takes orders.
const roleVariable = "BENCHMARKS_ORDERS"

// TestEngineProcess checks that a process takes orders and ends. In such a process the test
// takes the orders.
func TestEngineProcess(t *testing.T) {
	if os.Getenv(roleVariable) != "" {
		if err := obey(t.Context(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "obey:", err)
			t.Fatal(err)
		}
		return
	}
	p := startProcess(t, "process")
	ask[opened](t, p, orders{Open: &openOrder{}})
	if u := ask[usage](t, p, orders{Fill: &fillOrder{Items: 100}}); u.Resident == 0 {
		t.Error("the process holds a hundred items in no memory")
	}
	client := engineClient(ask[string](t, p, orders{Serve: true}), 1)
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(table), Key: keyOf(99)})
	if err != nil || len(out.Item) != 10 {
		t.Errorf("the last item has %d attributes, %v; want 10", len(out.Item), err)
	}
}

// A process is this binary, started again to obey orders until the test ends.
type process struct {
	in  *json.Encoder
	out *json.Decoder
	end func()
}

// startProcess starts a process that takes orders. With -engine.profiles it leaves a CPU
// profile under its name.
func startProcess(tb testing.TB, name string) *process {
	tb.Helper()
	args := []string{"-test.run=^TestEngineProcess$", "-test.timeout=0"}
	if *profileDir != "" {
		args = append(args, "-test.cpuprofile="+filepath.Join(*profileDir, strings.ReplaceAll(tb.Name(), "/", "-")+"-"+name+".pprof"))
	}
	return startSelf(tb, roleVariable, args...)
}

// startSelf starts this binary again in the role that an environment variable names. It
// must end when its standard input ends.
func startSelf(tb testing.TB, role string, args ...string) *process {
	tb.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), os.Args[0], args...)
	cmd.Env = append(os.Environ(), role+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := false
	p := &process{in: json.NewEncoder(stdin), out: json.NewDecoder(stdout)}
	p.end = func() {
		if ended {
			return
		}
		ended = true
		_ = stdin.Close() // this ends the process
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			tb.Error(err)
		}
	}
	tb.Cleanup(p.end)
	return p
}

// ask sends an order to a process and waits for the answer.
func ask[Answer any](tb testing.TB, p *process, o any) (answer Answer) {
	tb.Helper()
	if err := p.in.Encode(o); err != nil {
		tb.Fatal(err)
	}
	if err := p.out.Decode(&answer); err != nil {
		tb.Fatal("the process did not answer: ", err)
	}
	return answer
}

// servant is the state of a process that takes orders.
type servant struct {
	db     *dynamolite.DB
	served chan error // nil if it does not serve
	canner *canner    // nil if it does not serve one
}

// obey carries out the orders in in, until in ends.
func obey(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var s servant
	defer func() {
		cancel()
		if s.served != nil {
			err = errors.Join(err, <-s.served)
		}
		if s.db != nil {
			err = errors.Join(err, s.db.Close())
		}
	}()
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o orders
		if err := from.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		answer, err := s.obey(ctx, &o)
		if err != nil {
			return err
		}
		if err := to.Encode(answer); err != nil {
			return err
		}
	}
}

func (s *servant) obey(ctx context.Context, o *orders) (any, error) {
	switch {
	case o.Open != nil:
		return s.open(ctx, o.Open)
	case o.Fill != nil:
		return s.fill(ctx, o.Fill)
	case o.Drive != nil:
		b, err := drive(1, o.Drive.Long, o.Drive.operation(ctx, s.db))
		if err != nil {
			return nil, err
		}
		return b.summary(), nil
	case o.Serve:
		return s.serve(ctx)
	case o.Canner:
		return s.serveCanner(ctx)
	case o.Can != nil:
		return s.canner.requests.Load(), s.canner.can(o.Can)
	case o.Count:
		return s.canner.requests.Load(), nil
	default:
		return used()
	}
}

func (s *servant) open(ctx context.Context, o *openOrder) (a opened, err error) {
	start := time.Now()
	if s.db, err = dynamolite.Open(dynamolite.Options{Dir: o.Dir}); err != nil {
		return a, err
	}
	a.Open = time.Since(start)
	_, _ = s.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(table), Key: keyOf(0)}) // there may be no table yet
	a.FirstRead = time.Since(start)
	return a, nil
}

func (s *servant) fill(ctx context.Context, o *fillOrder) (usage, error) {
	err := error(nil)
	if o.Overwrites == 0 {
		err = fill(ctx, s.db, medium, o.Items, o.Indexed)
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // chooses keys
	for range o.Overwrites {
		if err == nil {
			_, err = s.db.UpdateItem(ctx, hotUpdate(random.IntN(o.Items)))
		}
	}
	if err != nil {
		return usage{}, err
	}
	u, err := used() // before collecting garbage for it
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	u.Live = float64(m.HeapAlloc)
	return u, err
}

// operation is the operation that a client repeats.
func (o *driveOrder) operation(ctx context.Context, api items) func(*rand.Rand) error {
	return func(random *rand.Rand) (err error) {
		i := random.IntN(o.Keys) * (o.Of / o.Keys)
		if o.Get {
			_, err = api.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(table), Key: keyOf(i), ConsistentRead: aws.Bool(true)})
		} else {
			_, err = api.UpdateItem(ctx, hotUpdate(i))
		}
		return err
	}
}

func (b burst) summary() burstSummary {
	return burstSummary{P50: b.p50(), P99: b.p99(), Mean: float64(b.elapsed) / float64(len(b.took))}
}

func (s *servant) serve(ctx context.Context) (string, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.served = make(chan error, 1)
	go func() { s.served <- dynamolite.NewHandler(s.db, dynamolite.HandlerOptions{}).Serve(ctx, l) }()
	return "http://" + l.Addr().String(), nil
}

// used reads what the process has used, from Linux's /proc.
func used() (u usage, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return u, fmt.Errorf("the memory of a process is measured on Linux only: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kilobytes, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
		if err != nil {
			return u, err
		}
		if name == "VmRSS" {
			u.Resident = kilobytes * 1024
		} else {
			u.Peak = kilobytes * 1024
		}
	}
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return u, err
	}
	u.CPU = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Mallocs = m.Mallocs
	return u, nil
}
