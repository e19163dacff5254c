//go:build unix

package dynamo_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/child"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

const (
	// lossyVariable makes the test binary a process that asks the table at a URL.
	lossyVariable = "DYNAMO_LOSSY_TABLE"
	lossyCallers  = 4
	lossyCalls    = 2000 // of each caller
	// lossyPart is the part of the writes whose request or answer is lost: three in a hundred.
	lossyPart = 0.03
)

var lossyRequest = limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1}}

// A lossyProxy stands between clients and a table. It cuts connections: before a write reaches the table, or
// before its answer reaches the client. It repeats some writes seconds later, and holds some answers back.
type lossyProxy struct {
	table http.Handler
	late  sync.WaitGroup
	lost  atomic.Int64
}

// ServeHTTP passes on a request, or loses it.
func (p *lossyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	target := r.Header.Get("X-Amz-Target")
	isWrite := strings.HasSuffix(target, ".UpdateItem") || strings.HasSuffix(target, ".PutItem")
	if !isWrite || rand.Float64() >= lossyPart {
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.table.ServeHTTP(w, r)
		return
	}
	p.lost.Add(1)
	ctx := context.WithoutCancel(r.Context())
	arrives := func() {
		copied := r.Clone(ctx)
		copied.Body = io.NopCloser(bytes.NewReader(body))
		p.table.ServeHTTP(httptest.NewRecorder(), copied)
	}
	later := func() {
		p.late.Go(func() {
			time.Sleep(rand.N(5 * time.Second))
			arrives()
		})
	}
	switch rand.IntN(5) {
	case 0:
	case 1:
		arrives()
	case 2:
		arrives()
		later()
	case 3:
		later()
	case 4: // the client gives up
		arrives()
		<-r.Context().Done()
	}
	panic(http.ErrAbortHandler) // cuts the connection
}

// Processes whose answers a proxy loses, and of which two are killed, debit what they were granted: no more, and
// nothing twice.
func TestLongProcessesBehindALossyProxy(t *testing.T) {
	if url := os.Getenv(lossyVariable); url != "" {
		askBehindAProxy(t, url)
		return
	}
	t.Parallel()
	w := testbed.New(t, testbed.Options{})
	w.System(limiter.PerDay("rpd", 50_000_000))
	proxy := &lossyProxy{table: dynamolite.NewHandler(w.Engine, dynamolite.HandlerOptions{})}
	server := httptest.NewServer(proxy)
	defer server.Close()
	const processes, kills = 3, 2
	var all []*asking
	for range processes {
		all = append(all, startAsking(t, server.URL))
	}
	for range kills {
		time.Sleep(time.Second)
		killed := startAsking(t, server.URL)
		all = append(all, killed)
		time.Sleep(time.Second)
		killed.Kill()
	}
	var granted, failed int64
	for _, a := range all {
		a.End()
		granted, failed = granted+a.granted, failed+a.failed
	}
	proxy.late.Wait()
	debited := debitedOf(t, w.Engine)
	t.Logf("%d granted, %d failed, %d debited, %d lost", granted, failed, debited, proxy.lost.Load())
	if debited < granted || debited > granted+failed+kills*lossyCallers {
		t.Errorf("%d were debited, and %d granted", debited, granted)
	}
	if least := int64(processes * lossyCallers * lossyCalls); granted < least-least/1000 || failed > least/1000 || proxy.lost.Load() < 50 {
		t.Errorf("%d of %d were granted, and %d failed", granted, least, failed)
	}
}

// An asking is a process that asks.
type asking struct {
	*child.Process

	granted, failed int64
}

func startAsking(t *testing.T, url string) *asking {
	t.Helper()
	a := &asking{}
	a.Process = child.Start(t, lossyVariable, url, a.hear, "-test.run=^TestLongProcessesBehindALossyProxy$", "-test.timeout=0")
	return a
}

// hear takes in a line: what became of a request.
func (a *asking) hear(line string) {
	switch line {
	case "granted":
		a.granted++
	case "failed":
		a.failed++
	}
}

// askBehindAProxy asks for one token, again and again, and says what becomes of it.
func askBehindAProxy(t *testing.T, url string) {
	t.Helper()
	client := fastclient.New(aws.Config{Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")})
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: client, Table: testbed.Table})
	if err != nil {
		t.Fatal(err)
	}
	l, err := limiter.New(s, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range lossyCallers {
		wg.Go(func() {
			for range lossyCalls {
				_, err := l.Acquire(t.Context(), lossyRequest)
				said := "granted"
				if err != nil {
					said = "failed"
				}
				_, _ = os.Stdout.WriteString(said + "\n") // at once: the process may be killed
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// debitedOf is how many tokens all buckets of a table have debited.
func debitedOf(t *testing.T, db *dynamolite.DB) (debited int64) {
	t.Helper()
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(testbed.Table)})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range out.Items {
		if milli, ok := it["b_rpd_tc"].(*types.AttributeValueMemberN); ok {
			n, err := strconv.ParseInt(milli.Value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			debited += n / 1000
		}
	}
	return debited
}
