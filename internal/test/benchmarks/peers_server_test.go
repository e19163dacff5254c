package benchmarks_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A canner is a server on which clients of different kinds can warm up, and which then
// costs almost nothing. It passes requests to an engine until it is told to can some
// operations. From then on it answers those with its last answer. The times and balances in
// such an answer are old, but none of the compared clients depends on them.
type canner struct {
	engine   http.Handler
	requests atomic.Int64
	cans     atomic.Pointer[cans]

	mu   sync.Mutex
	last map[string]string // body of the last answer, by operation
}

// cans are the canned answers, by operation.
type cans struct {
	operations map[string]string
	handler    http.Handler
}

const targetPrefix = "DynamoDB_20120810."

// ServeHTTP answers a request.
func (c *canner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.requests.Add(1)
	operation := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	if cans := c.cans.Load(); cans != nil && cans.operations[operation] != "" {
		cans.handler.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	c.engine.ServeHTTP(answer, r)
	if answer.Code == http.StatusOK {
		c.mu.Lock()
		c.last[operation] = answer.Body.String()
		c.mu.Unlock()
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // fails if the client has gone
}

// can cans operations.
func (c *canner) can(operations []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	canning := &cans{operations: make(map[string]string)}
	for _, operation := range operations {
		if canning.operations[operation] = c.last[operation]; canning.operations[operation] == "" {
			return errors.New("no answer to can: nobody has called " + operation)
		}
	}
	canning.handler = canned(canning.operations)
	c.cans.Store(canning)
	return nil
}

// serveCanner starts a canner on an engine in memory, until ctx ends.
func (s *servant) serveCanner(ctx context.Context) (string, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.db = dynamolite.New(dynamolite.Options{})
	s.canner = &canner{engine: dynamolite.NewHandler(s.db, dynamolite.HandlerOptions{}), last: make(map[string]string)}
	server := &http.Server{Handler: s.canner, ReadHeaderTimeout: time.Minute}
	s.served = make(chan error, 1)
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.served <- err
		}
		close(s.served)
	}()
	return "http://" + l.Addr().String(), nil
}

// TestCanner checks that canned operations repeat their answer, and that the engine answers
// all others.
func TestCanner(t *testing.T) {
	ctx := t.Context()
	server := startProcess(t, "canner")
	client := engineClient(ask[string](t, server, orders{Canner: true}), 1)
	if err := fill(ctx, client, small, 2, false); err != nil {
		t.Fatal(err)
	}
	update := func(i int) (tokens string) {
		out, err := client.UpdateItem(ctx, hotUpdate(i))
		if err != nil {
			t.Fatal(err)
		}
		return out.Attributes["tk"].(*types.AttributeValueMemberN).Value
	}
	before := update(0)
	requests := ask[int64](t, server, orders{Can: []string{"UpdateItem"}})
	for i := range 3 {
		if got := update(i); got != before { // there is no third item
			t.Errorf("item %d has %s tokens, want %s as was answered last", i, got, before)
		}
	}
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(table), Key: keyOf(0)})
	if err != nil || out.Item["tk"].(*types.AttributeValueMemberN).Value != before {
		t.Errorf("the engine has the item %v, %v; want %s tokens", out, err, before)
	}
	if got := ask[int64](t, server, orders{Count: true}) - requests; got != 4 {
		t.Errorf("%d requests were counted, want 4", got)
	}
	if err := (&canner{}).can([]string{"Query"}); err == nil {
		t.Error("an operation was canned that nobody had called")
	}
}
