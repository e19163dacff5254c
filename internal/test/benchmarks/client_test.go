package benchmarks_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
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

// cannedServer is the name of the server that repeats answers.
const cannedServer = "canned"

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

// TestClient compares fastclient with the SDK's own client. Both send the update of a warm
// acquire from 1, 8 and 64 goroutines: to a server that repeats an earlier answer of the
// engine, to the same server over TLS, and to the engine. Each side makes 640 calls, then
// the next does. A second run of the SDK's client shows the noise. The first server has
// four more callers, see newCanned: "net/http", "socket", "acquire" and "cascade". Targets apply to
// one goroutine and 31 rounds or more.
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

	s := newSheet("server", "goroutines", "client", "CPU", "allocations", "bytes", "calls/s", "CPU to the SDK's", "to the socket's", "time to the SDK's", "targets")
	for _, c := range []struct {
		name       string
		cfg        aws.Config
		goroutines []int
	}{{cannedServer, plain, []int{1, 8, 64}}, {"canned, TLS", secure, []int{1, 64}}, {"dynamolite", engine, []int{1, 8, 64}}} {
		c.cfg.Region = "us-east-1"
		c.cfg.Credentials = aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("local", "local", ""))
		for _, goroutines := range c.goroutines {
			all := newCallers(t, c.cfg, rec)
			if c.name == cannedServer {
				all = append(all, newCanned(t, c.cfg, rec, goroutines)...)
			}
			all.measure(t, goroutines)
			for _, caller := range all {
				targets := ""
				if goroutines == 1 {
					targets = all.judge(t, c.name, caller)
				}
				s.row(c.name, strconv.Itoa(goroutines), caller.name, latency(caller.median(costCPU)), fmt.Sprintf("%.0f", caller.median(costAllocs)),
					fmt.Sprintf("%.1f KB", caller.median(costBytes)/1e3), perSecond(1e9/caller.median(costWall)), caller.to(all.named("SDK"), costCPU).String(),
					all.toSocket(caller), caller.to(all.named("SDK"), costWall).String(), targets)
			}
		}
	}
	s.print(t, fmt.Sprintf("medians of %d slices of 640 calls in turn", *sliceRounds))
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
