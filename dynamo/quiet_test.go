package dynamo_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/store"
)

// A refusal writes nothing to the log of the SDK's client, which is standard error by
// default, although the endpoint sends no checksum.
func TestARefusalIsQuiet(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = db.Close() })
	h := dynamolite.NewHandler(db, dynamolite.HandlerOptions{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&unsummed{w}, r)
	}))
	t.Cleanup(server.Close)
	checkQuiet(t, server.URL)
}

// checkQuiet checks on a server without the table that refusals write nothing.
func checkQuiet(t *testing.T, endpoint string) {
	t.Helper()
	cfg := aws.Config{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("quiet", "secret", "")}
	for name, newClient := range map[string]func(aws.Config) dynamo.API{
		"the SDK's client": func(cfg aws.Config) dynamo.API { return dynamodb.NewFromConfig(cfg) },
		"the fast client":  func(cfg aws.Config) dynamo.API { return fastclient.New(cfg) },
	} {
		t.Run(name, func(t *testing.T) {
			var log logBook
			cfg := cfg
			cfg.Logger = logging.NewStandardLogger(&log)
			refusals(t, newClient(cfg))
			if text := log.text(); text != "" {
				t.Errorf("the client wrote %q", text)
			}
		})
	}
}

// refusals makes every kind of refused request: a bucket write, a transaction, and a
// request to a table that does not exist.
func refusals(t *testing.T, api dynamo.API) {
	t.Helper()
	ctx := t.Context()
	const name = "quiet"
	if err := dynamo.CreateTable(ctx, api, dynamo.TableOptions{Name: name}); err != nil {
		t.Fatal(err)
	}
	s, err := dynamo.Open(ctx, dynamo.Options{API: api, Table: name, Principal: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	take := &store.Take{
		Bucket: store.Bucket{Entity: "key", Resource: "gpt-4"}, Now: 1,
		Debits: []store.Debit{{Amount: store.Amount{Limit: "rpm", Milli: store.Milli}, AtMost: store.Milli}},
	}
	if out, err := s.Take(ctx, take); err != nil || out.Applied {
		t.Errorf("a take without a bucket: %+v, %v", out, err)
	}
	if _, err := s.CreateEntity(ctx, store.Entity{ID: "key", Parent: "nobody"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an entity without its parent: %v", err)
	}
	if _, err := dynamo.Open(ctx, dynamo.Options{API: api, Table: "missing"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a table that does not exist: %v", err)
	}
}

// unsummed sends answers without their checksum.
type unsummed struct{ http.ResponseWriter }

// WriteHeader drops the checksum.
func (u *unsummed) WriteHeader(status int) {
	u.Header().Del("X-Amz-Crc32")
	u.ResponseWriter.WriteHeader(status)
}

// Write sends the header first.
func (u *unsummed) Write(data []byte) (int, error) {
	u.Header().Del("X-Amz-Crc32")
	return u.ResponseWriter.Write(data)
}

// A logBook is what was written to a log.
type logBook struct {
	mu   sync.Mutex
	book bytes.Buffer
}

func (l *logBook) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.Write(data)
}

func (l *logBook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.String()
}
