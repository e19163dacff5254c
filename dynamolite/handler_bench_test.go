package dynamolite_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// sink is a ResponseWriter without cost.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkHandler is UpdateItem through the handler without a socket. The difference to
// BenchmarkUpdateItemWarm is the cost of the protocol.
func BenchmarkHandler(b *testing.B) {
	for _, bm := range []struct {
		name    string
		options dynamolite.HandlerOptions
	}{
		{"unverified", dynamolite.HandlerOptions{}},
		{"verified", dynamolite.HandlerOptions{Credentials: map[string]string{testKey: testSecret}}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			db, in := warmUpdate(b)
			h := dynamolite.NewHandler(db, bm.options)
			text := wireForm(b, in)
			body := bytes.NewReader(text)
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost/", body)
			r.Header.Set("X-Amz-Target", "DynamoDB_20120810.UpdateItem")
			r.Header.Set("Content-Type", "application/x-amz-json-1.0")
			signRequest(b, r, text)
			w := &sink{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(text)
				r.Body = io.NopCloser(body)
				h.ServeHTTP(w, r)
			}
			if w.status != http.StatusOK {
				b.Errorf("status %d", w.status)
			}
		})
	}
}

// BenchmarkLoopback is UpdateItem with the SDK's client over a socket, including the client's
// work. It reports how many requests had to open a connection. "kept" uses an HTTP client that
// hides the WriteTo of the SDK's request bodies: see the package benchmarks.
func BenchmarkLoopback(b *testing.B) {
	for _, kept := range []bool{false, true} {
		for _, clients := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("kept=%v/clients=%d", kept, clients), func(b *testing.B) {
				db, in := warmUpdate(b)
				url := listen(b, dynamolite.NewHandler(db, dynamolite.HandlerOptions{}))
				var dials atomic.Int64
				httpClient := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
					dial := t.DialContext
					t.MaxIdleConnsPerHost = clients
					t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
						dials.Add(1)
						return dial(ctx, network, address)
					}
				})
				o := dynamodb.Options{
					HTTPClient: httpClient, Region: "us-east-1", BaseEndpoint: &url,
					Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider(testKey, testSecret, "")),
				}
				if kept {
					o.HTTPClient = bodyHider{httpClient}
				}
				client := dynamodb.New(o)
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ReportAllocs()
				b.ResetTimer()
				var wg sync.WaitGroup
				for range clients {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if _, err := client.UpdateItem(b.Context(), in); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
				b.ReportMetric(float64(dials.Load())/float64(b.N), "dials/request")
			})
		}
	}
}

type bodyHider struct{ *awshttp.BuildableClient }

func (h bodyHider) Do(r *http.Request) (*http.Response, error) {
	r.Body = struct{ io.ReadCloser }{r.Body}
	return h.BuildableClient.Do(r)
}
