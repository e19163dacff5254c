package benchmarks_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A callCost is the cost of a call in nanoseconds, without the server's.
type callCost struct{ cpu, wall, allocs, bytes float64 }

var (
	costCPU    = func(c callCost) float64 { return c.cpu }
	costWall   = func(c callCost) float64 { return c.wall }
	costAllocs = func(c callCost) float64 { return c.allocs }
	costBytes  = func(c callCost) float64 { return c.bytes }
)

// A caller is one of the compared clients.
type caller struct {
	name  string
	call  func() error
	costs []callCost
}

// costOfCalls makes calls from several goroutines, starting from a collected heap.
func costOfCalls(tb testing.TB, goroutines, calls int, call func() error) callCost {
	tb.Helper()
	runtime.GC()
	errs := make([]error, goroutines)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(tb), time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range calls / goroutines {
				if errs[g] = call(); errs[g] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	c := callCost{cpu: float64(cpuTime(tb) - cpu), wall: float64(time.Since(start))}
	runtime.ReadMemStats(&after)
	c.allocs, c.bytes = float64(after.Mallocs-before.Mallocs), float64(after.TotalAlloc-before.TotalAlloc)
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	n := float64(calls / goroutines * goroutines)
	return callCost{c.cpu / n, c.wall / n, c.allocs / n, c.bytes / n}
}

// median is the median of a quantity of a caller's costs.
func (c *caller) median(of func(callCost) float64) float64 { return c.to(nil, of).median }

// to is the ratio to another caller: the median of the ratios of neighbouring slices.
func (c *caller) to(base *caller, of func(callCost) float64) estimate {
	var all []float64
	for i, cost := range c.costs {
		v := of(cost)
		if base != nil {
			v /= of(base.costs[i])
		}
		all = append(all, v)
	}
	return estimateOf(all)
}

// TestClient compares fastclient with the SDK's own client. Both send the update of a warm
// acquire from 1, 8 and 64 goroutines: to a server that repeats an earlier answer of the
// engine, to the same server over TLS, and to the engine. Each side makes 640 calls, then
// the next does. "socket" writes the bytes of one request of fastclient and reads the answer,
// each in one piece. A second run of the SDK's client shows the noise. Targets apply to one
// goroutine and 31 rounds or more.
//
// Not parallel: other work would be measured too.
func TestClient(t *testing.T) {
	if raceEnabled {
		t.Fatal("under the race detector ratios say nothing: run without -race")
	}
	rec := record(t, dynamolite.New(dynamolite.Options{}), load{limits: 2})
	answers := rec.answers(t)
	plain, secure := aws.Config{BaseEndpoint: aws.String(serveCanned(t, answers))}, serveSecurely(t, answers)

	process := startProcess(t, "server")
	ask[opened](t, process, orders{Open: &openOrder{}})
	engine := aws.Config{BaseEndpoint: aws.String(ask[string](t, process, orders{Serve: true}))}
	fillEngine(t, engine, rec)

	s := newSheet("server", "goroutines", "client", "CPU", "allocations", "bytes", "calls/s", "CPU to the SDK's", "target", "time to the SDK's", "allocations to", "bytes to")
	for _, c := range []struct {
		name       string
		cfg        aws.Config
		goroutines []int
	}{{"canned", plain, []int{1, 8, 64}}, {"canned, TLS", secure, []int{1, 64}}, {"dynamolite", engine, []int{1, 8, 64}}} {
		c.cfg.Region = "us-east-1"
		c.cfg.Credentials = aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("local", "local", ""))
		for _, goroutines := range c.goroutines {
			callers := newCallers(t, c.cfg, rec)
			if c.name == "canned" {
				callers = append(callers, &caller{name: "socket", call: newSocket(t, c.cfg, bareOf(rec))})
			}
			for _, caller := range callers {
				costOfCalls(t, goroutines, 640, caller.call) // connects
			}
			for round := range *sliceRounds {
				for i := range callers {
					caller := callers[(round+i)%len(callers)]
					caller.costs = append(caller.costs, costOfCalls(t, goroutines, 640, caller.call))
				}
			}
			base := callers[0]
			for _, caller := range callers {
				cpu, target := caller.to(base, costCPU), ""
				if caller.name == "fastclient" && goroutines == 1 {
					what := c.name + ": CPU of a call, to the SDK's client"
					target = "≤ 0.28 " + string(hold(t, what, cpu, 0.28))
					hold(t, c.name+": allocations of a call, to the SDK's client", caller.to(base, costAllocs), 0.1)
				}
				s.row(c.name, strconv.Itoa(goroutines), caller.name, latency(caller.median(costCPU)), fmt.Sprintf("%.0f", caller.median(costAllocs)),
					fmt.Sprintf("%.1f KB", caller.median(costBytes)/1e3), perSecond(1e9/caller.median(costWall)), cpu.String(), target,
					caller.to(base, costWall).String(), fmt.Sprintf("%.2f", caller.to(base, costAllocs).median), fmt.Sprintf("%.2f", caller.to(base, costBytes).median))
			}
		}
	}
	s.print(t, fmt.Sprintf("medians of %d slices of 640 calls in turn", *sliceRounds))
}

// newCallers are the SDK's own client, fastclient.New, and what they are compared with.
func newCallers(t *testing.T, cfg aws.Config, rec *recording) []*caller {
	t.Helper()
	callers := []*caller{{name: "SDK"}, {name: "fastclient"}, {name: "SDK again"}}
	for i, client := range []dynamo.API{dynamodb.NewFromConfig(cfg), fastclient.New(cfg), dynamodb.NewFromConfig(cfg)} {
		bare, err := bareOf(rec)(client)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		callers[i].call = func() error { return bare.do(ctx, probe) }
	}
	return callers
}

func bareOf(rec *recording) func(dynamo.API) (*bareUpdate, error) {
	return func(api dynamo.API) (*bareUpdate, error) {
		return newBareUpdate(api, probe, rec.sent[0], rec.sent[1], rec.at)
	}
}

// newSocket returns an exchange of the bytes that a call of fastclient sends to a server that
// always gives the same answer. Each goroutine has a connection.
func newSocket(t *testing.T, cfg aws.Config, bare func(dynamo.API) (*bareUpdate, error)) func() error {
	t.Helper()
	address := strings.TrimPrefix(*cfg.BaseEndpoint, "http://")
	dial := func() (net.Conn, error) {
		return new(net.Dialer).DialContext(t.Context(), "tcp", address)
	}
	var request bytes.Buffer
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
			c, err := dial()
			return &tap{c, &request}, err
		}
	})
	b, err := bare(fastclient.New(cfg))
	if err == nil {
		err = b.do(t.Context(), probe)
	}
	c, dialled := dial()
	if err := errors.Join(err, dialled); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write(request.Bytes())
	answer := make([]byte, 64<<10)
	size, err := c.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	type end struct {
		net.Conn
		in []byte
	}
	idle := make(chan *end, 64)
	return func() error {
		var e *end
		select {
		case e = <-idle:
		default:
			c, err := dial()
			if err != nil {
				return err
			}
			e = &end{c, make([]byte, size)}
		}
		_, err := e.Write(request.Bytes())
		if err == nil {
			_, err = io.ReadFull(e, e.in)
		}
		idle <- e
		return err
	}
}

// A tap records what is written to a connection.
type tap struct {
	net.Conn
	to *bytes.Buffer
}

func (t *tap) Write(p []byte) (int, error) {
	t.to.Write(p)
	return t.Conn.Write(p)
}

// fillEngine gives an engine the bucket to update, with more tokens than a run uses.
func fillEngine(t *testing.T, cfg aws.Config, rec *recording) {
	t.Helper()
	client := newClient(*cfg.BaseEndpoint)
	if err := dynamo.CreateTable(t.Context(), client, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: rec.image}); err != nil {
		t.Fatal(err)
	}
	bare, err := newBareUpdate(client, probe, rec.sent[0], rec.sent[1], rec.at)
	if err != nil {
		t.Fatal(err)
	}
	if err := bare.fund(t.Context(), probe); err != nil {
		t.Fatal(err)
	}
}

// secureVariable makes TestSecureServer a server, see serveSecurely.
const secureVariable = "BENCHMARKS_SERVE_TLS"

// serveSecurely is serveCanned over TLS. The returned configuration trusts the server.
func serveSecurely(tb testing.TB, answers map[string]string) aws.Config {
	tb.Helper()
	up := ask[secureServer](tb, startSelf(tb, secureVariable, "-test.run=^TestSecureServer$", "-test.timeout=0"), answers)
	certificate, err := x509.ParseCertificate(up.Certificate)
	if err != nil {
		tb.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return aws.Config{
		BaseEndpoint: &up.URL,
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		}),
	}
}

// A secureServer is what a server reports about itself.
type secureServer struct {
	URL         string
	Certificate []byte
}

// TestSecureServer checks that a server of serveSecurely answers and ends. In the server's
// process the test is the server.
func TestSecureServer(t *testing.T) {
	if os.Getenv(secureVariable) == "" {
		cfg := serveSecurely(t, map[string]string{"ListTables": `{"TableNames":["one"]}`})
		cfg.Region, cfg.Credentials = "us-east-1", credentials.NewStaticCredentialsProvider("local", "local", "")
		out, err := fastclient.New(cfg).ListTables(t.Context(), &dynamodb.ListTablesInput{})
		if err != nil || len(out.TableNames) != 1 {
			t.Errorf("got %+v, %v", out, err)
		}
		return
	}
	in := json.NewDecoder(os.Stdin)
	var answers map[string]string
	if err := in.Decode(&answers); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(canned(answers))
	defer server.Close()
	if err := json.NewEncoder(os.Stdout).Encode(secureServer{server.URL, server.Certificate().Raw}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
