package fastclient_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// parrot gives every request the same answer, of now, without allocations.
func parrot(tb testing.TB, status int, body string) (endpoint string) {
	tb.Helper()
	return parrots(tb, status, map[string]string{"": body})
}

// parrots is parrot with an answer for all requests that have a text in them, each with one text.
func parrots(tb testing.TB, status int, bodies map[string]string) (endpoint string) {
	tb.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	answers := make(map[string][]byte)
	for text, body := range bodies {
		answers[text] = []byte(strings.Replace(response(status, "", body), answerDate, time.Now().UTC().Format(http.TimeFormat), 1))
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				in := make([]byte, 64<<10) // a request comes in one write, and is smaller
				for {
					n, err := conn.Read(in)
					if err != nil {
						_ = conn.Close()
						return
					}
					for text, answer := range answers {
						if bytes.Contains(in[:n], []byte(text)) {
							_, _ = conn.Write(answer)
						}
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// bucket is the image of a bucket with two limits, about as the limiter has them.
const bucket = `{"Attributes":{"PK":{"S":"ns/BUCKET#entity#gpt-4#0"},"SK":{"S":"#STATE"},"b_rpm_tk":{"N":"59000"},"b_rpm_cp":{"N":"60000"},` +
	`"b_rpm_ra":{"N":"60000"},"b_rpm_rp":{"N":"60000"},"b_rpm_tc":{"N":"1000"},"b_tpm_tk":{"N":"9000000"},"b_tpm_cp":{"N":"9000000"},` +
	`"b_tpm_ra":{"N":"9000000"},"b_tpm_rp":{"N":"60000"},"b_tpm_tc":{"N":"1000"},"rf":{"N":"1764151200000"},"entity_id":{"S":"entity"},` +
	`"resource":{"S":"gpt-4"},"ttl":{"N":"1764752400"},"cascade":{"BOOL":false}}}`

func bucketWrite() *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: schema.Key{PK: "ns/BUCKET#entity#gpt-4#0", SK: "#STATE"}.Item(),
		UpdateExpression:          aws.String("SET #A0=#A0-:a0,#A1=#A1-:a1 ADD #E0 :a0"),
		ConditionExpression:       aws.String("#A0 >= :a0 AND #A1 >= :a1 AND attribute_exists(PK)"),
		ExpressionAttributeNames:  map[string]string{"#A0": "b_rpm_tk", "#A1": "b_tpm_tk", "#E0": "b_rpm_tc"},
		ExpressionAttributeValues: schema.Item{":a0": schema.N(1000), ":a1": schema.N(4000)},
		ReturnValues:              types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// A call makes few allocations, beside those for its input.
func TestClientAllocates(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	batch := `{"Responses":{"limits":[` + strings.TrimSuffix(strings.TrimPrefix(bucket, `{"Attributes":`), "}") + `]},"UnprocessedKeys":{}}`
	in := bucketWrite()
	get := &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: {Keys: []schema.Item{in.Key}}}}
	update := func(api dynamo.API) error { _, err := api.UpdateItem(t.Context(), in, conn.BucketWrite); return err }
	refusal := strings.Replace(bucket, `{"Attributes":`, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"no","Item":`, 1)
	for name, c := range map[string]struct {
		status int
		body   string
		call   func(dynamo.API) error
		want   float64 // the SDK makes 410
	}{
		"UpdateItem":   {http.StatusOK, bucket, update, 14},
		"BatchGetItem": {http.StatusOK, batch, func(api dynamo.API) error { _, err := api.BatchGetItem(t.Context(), get, once); return err }, 18},
		"a refusal":    {http.StatusBadRequest, refusal, update, 44},
	} {
		api := fastclient.New(clientConfig(parrot(t, c.status, c.body)))
		checkAllocations(t, name, c.want, func() {
			if err := c.call(api); (err != nil) != (c.status != http.StatusOK) {
				t.Fatal(err)
			}
		})
	}
}

// checkAllocations checks that a call makes as many allocations.
func checkAllocations(t *testing.T, name string, want float64, call func()) {
	t.Helper()
	call()
	if n := testing.AllocsPerRun(500, call); n < want || n > want+raceAllocations {
		t.Errorf("%s makes %v allocations, want %v", name, n, want)
	}
}

// lastAnswers are a handler that keeps the last answers to UpdateItem, by entity.
type lastAnswers struct {
	http.Handler
	bodies map[string]*atomic.Pointer[string]
}

func (l *lastAnswers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(request))
	answer := httptest.NewRecorder()
	l.Handler.ServeHTTP(answer, r)
	body := answer.Body.String()
	for entity, last := range l.bodies {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "UpdateItem") && bytes.Contains(request, []byte(entity)) {
			last.Store(&body)
		}
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = io.WriteString(w, body)
}

// A warm acquire makes as many allocations, from the limiter to the socket. It acquires
// from an engine until all is warm, and then from a server that repeats the last answer.
func TestWarmAcquireAllocates(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	warmAcquireAllocates(t, 17, limiter.Entity{ID: "key-1"})
}

// A warm acquire that debits a parent, too, allocates a few more for each side, and nothing for
// other goroutines.
func TestWarmCascadeAllocates(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	warmAcquireAllocates(t, 35, limiter.Entity{ID: "project"}, limiter.Entity{ID: "key-1", Parent: "project", Cascade: true})
}

// warmAcquireAllocates checks the allocations of an acquire for the last of the entities.
func warmAcquireAllocates(t *testing.T, want float64, entities ...limiter.Entity) {
	t.Helper()
	last := &lastAnswers{Handler: dynamolite.NewHandler(newTable(t), dynamolite.HandlerOptions{}), bodies: make(map[string]*atomic.Pointer[string])}
	for _, e := range entities {
		last.bodies[e.ID] = new(atomic.Pointer[string])
	}
	engine := newDesk(t, last).started()
	var parrotAt atomic.Pointer[string]
	cfg := clientConfig(engine.URL)
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
		tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if at := parrotAt.Load(); at != nil {
				address = *at
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: fastclient.New(cfg), Table: table})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entities {
		if _, err := s.CreateEntity(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	limits := []limiter.Limit{limiter.PerHour("rpm", 1_000_000_000), limiter.PerHour("tpm", 1_000_000_000)}
	if err := s.SetLimits(t.Context(), limiter.ConfigKey{Resource: "gpt-4"}, limits); err != nil {
		t.Fatal(err)
	}
	l, err := limiter.New(s, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	request := limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpm": 1, "tpm": 1500}}
	acquire := func() {
		lease, err := l.Acquire(t.Context(), request)
		if err == nil {
			err = lease.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	half := limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpm": 500_000_000, "tpm": 500_000_000}}
	if _, err := l.Acquire(t.Context(), half); err != nil { // so that each write is a take
		t.Fatal(err)
	}
	for range 3 {
		acquire()
	}
	bodies := make(map[string]string)
	for entity, body := range last.bodies {
		bodies["BUCKET#"+entity] = *body.Load()
	}
	at := strings.TrimPrefix(parrots(t, http.StatusOK, bodies), "http://")
	parrotAt.Store(&at)
	engine.CloseClientConnections()
	checkAllocations(t, "an acquire", want, acquire)
}
