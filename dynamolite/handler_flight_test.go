package dynamolite_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

const throttling = dynamoDBPrefix + "ThrottlingException"

// occupied is a handler whose budget a client has used up but for some bytes: it sends a body and
// does not end it. Free ends the body.
func occupied(t *testing.T, db *dynamolite.DB, budget, bytes int) (h *dynamolite.Handler, free func()) {
	t.Helper()
	h = dynamolite.NewHandler(db, dynamolite.HandlerOptions{MaxBodyBytes: int64(budget), MaxInFlightBytes: int64(budget)})
	body := &stalled{bytes, make(chan struct{}), make(chan struct{})}
	r := newPost(t, putTarget, "")
	r.Body = io.NopCloser(body)
	var other sync.WaitGroup
	other.Go(func() { h.ServeHTTP(httptest.NewRecorder(), r) })
	<-body.sent
	return h, sync.OnceFunc(func() {
		close(body.release)
		other.Wait()
	})
}

// Items that an operation reads for its answer count before the answer is written: many small requests
// cannot fill the memory with answers.
func TestAnswersInFlight(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeNewImage)
	var keys, gets []string
	for i := range 3 {
		f.put(with(keyed("a", strconv.Itoa(i)), attrs{"x": blob(300 << 10)}))
		keys = append(keys, `{"pk":{"S":"a"},"sk":{"S":"`+strconv.Itoa(i)+`"}}`)
		gets = append(gets, `{"Get":{"TableName":"main","Key":`+keys[i]+`}}`)
	}
	records := `{"ShardIterator":"` + *f.from(f.shardOfA(), trimHorizon) + `"}`
	const tables, streams = "DynamoDB_20120810.", "DynamoDBStreams_20120810."

	for _, tt := range []struct{ name, target, body string }{
		{"GetItem", tables + "GetItem", `{"TableName":"main","Key":` + keys[0] + `}`},
		{"Scan", tables + "Scan", `{"TableName":"main"}`},
		{"Query", tables + "Query", `{"TableName":"main","KeyConditionExpression":"pk=:a","ExpressionAttributeValues":{":a":{"S":"a"}}}`},
		{"BatchGetItem", tables + "BatchGetItem", `{"RequestItems":{"main":{"Keys":[` + strings.Join(keys, ",") + `]}}}`},
		{"TransactGetItems", tables + "TransactGetItems", `{"TransactItems":[` + strings.Join(gets, ",") + `]}`},
		{"GetRecords", streams + "GetRecords", records},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// A body of 600 KiB has a buffer of 1 MiB, of which 64 KiB do not count. The rest
			// holds no item.
			h, free := occupied(t, f.db, 1100<<10, 600<<10)
			defer free()
			if got := post(t, h, tt.target, tt.body); got.kind != throttling {
				t.Errorf("answered %d %.200s", got.status, got.body)
			}
			free()
			if got := post(t, h, tt.target, tt.body); got.status != http.StatusOK || strings.Contains(string(got.body), `"UnprocessedKeys":{"`) {
				t.Errorf("alone, answered %d %.200s", got.status, got.body)
			}
		})
	}
	t.Run("a part of a batch", func(t *testing.T) {
		t.Parallel()
		h, free := occupied(t, f.db, 1300<<10, 600<<10)
		defer free()
		got := post(t, h, tables+"BatchGetItem", `{"RequestItems":{"main":{"Keys":[`+strings.Join(keys, ",")+`]}}}`)
		var answer struct {
			Responses       map[string][]any
			UnprocessedKeys map[string]struct{ Keys []any }
		}
		if err := json.Unmarshal(got.body, &answer); err != nil {
			t.Fatal(err)
		}
		if read, left := len(answer.Responses["main"]), len(answer.UnprocessedKeys["main"].Keys); read != 1 || left != 2 {
			t.Errorf("read %d items and left %d, want 1 and 2: %.200s", read, left, got.body)
		}
	})
}

// A request is executed only if there is room when its body has ended: its client may have held
// back the end until others used up the budget.
func TestBodyThatEndsLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := dynamolite.NewHandler(f.db, dynamolite.HandlerOptions{MaxBodyBytes: 1 << 20, MaxInFlightBytes: 1 << 20})
	text := `{"TableName":"main","Item":{"pk":{"S":"late"},"sk":{"S":"b"}}}`
	late := &stalled{0, make(chan struct{}), make(chan struct{})}
	r := newPost(t, putTarget, "")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(text), late))
	answer := httptest.NewRecorder()
	var bodies sync.WaitGroup
	bodies.Go(func() { h.ServeHTTP(answer, r) })
	<-late.sent
	other := &stalled{1 << 20, make(chan struct{}), make(chan struct{})}
	full := newPost(t, putTarget, "")
	full.Body = io.NopCloser(other)
	var filling sync.WaitGroup
	filling.Go(func() { h.ServeHTTP(httptest.NewRecorder(), full) })
	<-other.sent
	close(late.release)
	bodies.Wait()
	if !strings.Contains(answer.Body.String(), "ThrottlingException") {
		t.Errorf("answered %d %s", answer.Code, answer.Body)
	}
	close(other.release)
	filling.Wait()
	if got := post(t, h, putTarget, text); got.status != http.StatusOK {
		t.Errorf("answered %d %s after the other was gone", got.status, got.body)
	}
}

// A body of many small values takes far more memory once it is decoded, so it is decoded only if
// there is room. Alone it always is.
func TestManySmallValues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const budget = 2 << 20
	dense := `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"x":{"L":[` + strings.Repeat(`{"M":{}},`, 50<<10) + `{"M":{}}]}}}`
	h, free := occupied(t, f.db, budget, 100<<10)
	defer free()
	if got := post(t, h, putTarget, dense); got.kind != throttling {
		t.Errorf("answered %d %.200s", got.status, got.body)
	}
	plain := `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"x":{"S":"` + strings.Repeat("x", 300<<10) + `"}}}`
	if got := post(t, h, putTarget, plain); got.status != http.StatusOK {
		t.Errorf("a body of one large value: answered %d %.200s", got.status, got.body)
	}
	free()
	for range 2 {
		if got := post(t, h, putTarget, dense); got.status != http.StatusOK {
			t.Errorf("alone, answered %d %.200s", got.status, got.body)
		}
	}
}
