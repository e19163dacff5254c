package dynamolite_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

const (
	putTarget      = "DynamoDB_20120810.PutItem"
	coralService   = "com.amazon.coral.service#"
	coralValidate  = "com.amazon.coral.validate#"
	dynamoDBPrefix = "com.amazonaws.dynamodb.v20120810#"
)

func TestProtocol(t *testing.T) {
	t.Parallel()
	h := dynamolite.NewHandler(newFixture(t).db, dynamolite.HandlerOptions{MaxBodyBytes: 1000})
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	nothing := func(*http.Request) {}
	for _, tt := range []struct {
		name, body string
		change     func(*http.Request)
		status     int
		kind       string
	}{
		{"fine", `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"b"}}}`, nothing, http.StatusOK, ""},
		{"charset", `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"b"}}}`, set("Content-Type", "application/x-amz-json-1.0; charset=UTF-8"), http.StatusOK, ""},
		{"any path", `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"b"}}}`, func(r *http.Request) { r.URL.Path = "/x" }, http.StatusOK, ""},
		{"plain JSON", `{}`, set("Content-Type", "application/json"), http.StatusBadRequest, coralValidate + "ValidationException"},
		{"empty input", `{}`, nothing, http.StatusBadRequest, coralValidate + "ValidationException"},
		{"unknown table", `{"TableName":"none","Item":{"pk":{"S":"a"}}}`, nothing, http.StatusBadRequest, dynamoDBPrefix + "ResourceNotFoundException"},
		{"failed condition", `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"z"}},"ConditionExpression":"attribute_exists(pk)"}`, nothing, http.StatusBadRequest, dynamoDBPrefix + "ConditionalCheckFailedException"},
		{"no value", `{"TableName":"main","Item":{"pk":{}}}`, nothing, http.StatusBadRequest, coralValidate + "ValidationException"},
		{"two values", `{"TableName":"main","Item":{"pk":{"S":"a","N":"1"}}}`, nothing, http.StatusBadRequest, coralValidate + "ValidationException"},
		{"no body", ``, nothing, http.StatusBadRequest, coralService + "SerializationException"},
		{"no JSON", `<xml/>`, nothing, http.StatusBadRequest, coralService + "SerializationException"},
		{"an array", `[]`, nothing, http.StatusBadRequest, coralService + "SerializationException"},
		{"a wrong type", `{"TableName":7}`, nothing, http.StatusBadRequest, coralService + "SerializationException"},
		{"no target", `{}`, func(r *http.Request) { r.Header.Del("X-Amz-Target") }, http.StatusBadRequest, coralService + "UnknownOperationException"},
		{"unknown operation", `{}`, set("X-Amz-Target", "DynamoDB_20120810.ExecuteStatement"), http.StatusBadRequest, coralService + "UnknownOperationException"},
		{"another version", `{}`, set("X-Amz-Target", "DynamoDB_20111205.PutItem"), http.StatusBadRequest, coralService + "UnknownOperationException"},
		{"another service", `{}`, set("X-Amz-Target", "DynamoDBStreams_20120810.PutItem"), http.StatusBadRequest, coralService + "UnknownOperationException"},
		{"no operation", `{}`, set("X-Amz-Target", "DynamoDB_20120810."), http.StatusBadRequest, coralService + "UnknownOperationException"},
		{"a form", `a=b`, set("Content-Type", "application/x-www-form-urlencoded"), http.StatusNotFound, coralService + "UnknownOperationException"},
		{"no content type", `{}`, func(r *http.Request) { r.Header.Del("Content-Type") }, http.StatusNotFound, coralService + "UnknownOperationException"},
		{"PUT", `{}`, func(r *http.Request) { r.Method = http.MethodPut }, http.StatusNotFound, coralService + "UnknownOperationException"},
		{"OPTIONS", ``, func(r *http.Request) { r.Method = http.MethodOptions }, http.StatusNotFound, coralService + "UnknownOperationException"},
		{"GET elsewhere", ``, func(r *http.Request) { r.Method, r.URL.Path = http.MethodGet, "/x" }, http.StatusNotFound, coralService + "UnknownOperationException"},
		{"unsigned", `{}`, func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusBadRequest, coralService + "MissingAuthenticationTokenException"},
		{"unsigned no JSON", `{`, func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusBadRequest, coralService + "MissingAuthenticationTokenException"},
		{"presigned", `{}`, func(r *http.Request) {
			r.Header.Del("Authorization")
			r.URL.RawQuery = "X-Amz-Signature=00"
		}, http.StatusBadRequest, coralService + "IncompleteSignatureException"},
		{"too large", `{"TableName":"` + strings.Repeat("x", 1000) + `"}`, nothing, http.StatusRequestEntityTooLarge, coralService + "RequestEntityTooLargeException"},
		{"too large in chunks", `{"TableName":"` + strings.Repeat("x", 1000) + `"}`, func(r *http.Request) { r.ContentLength = -1 }, http.StatusRequestEntityTooLarge, coralService + "RequestEntityTooLargeException"},
		{"cut off", ``, func(r *http.Request) { r.Body = io.NopCloser(failingReader{}) }, http.StatusBadRequest, coralService + "SerializationException"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newPost(t, putTarget, tt.body)
			tt.change(r)
			got := exchange(t, h, r)
			if got.status != tt.status || got.kind != tt.kind || (tt.kind != "" && got.message == "") {
				t.Errorf("answered %d %s, want %d %s and a message", got.status, got.body, tt.status, tt.kind)
			}
		})
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A body of exactly the limit is accepted.
func TestLargestBody(t *testing.T) {
	t.Parallel()
	body := `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"` + strings.Repeat("x", 1000) + `"}}}`
	h := dynamolite.NewHandler(newFixture(t).db, dynamolite.HandlerOptions{MaxBodyBytes: int64(len(body))})
	for range 2 {
		if got := post(t, h, putTarget, body); got.status != http.StatusOK {
			t.Errorf("answered %d %s", got.status, got.body)
		}
		if got := post(t, h, putTarget, body+" "); got.status != http.StatusRequestEntityTooLarge {
			t.Errorf("answered %d %s to one byte more", got.status, got.body)
		}
	}
}

// No data of a large request remains in the answers to small ones.
func TestBuffersAreReset(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := dynamolite.NewHandler(f.db, dynamolite.HandlerOptions{})
	large := `{"TableName":"main","ReturnValues":"ALL_OLD","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"x":{"S":"` + strings.Repeat("x", 100_000) + `"}}}`
	for range 3 {
		if got := post(t, h, putTarget, large); got.status != http.StatusOK {
			t.Errorf("answered %d", got.status)
		}
		if got := post(t, h, putTarget, `{"TableName":"main","Item":{"pk":{"S":"c"},"sk":{"S":"b"}}}`); string(got.body) != "{}" {
			t.Errorf("got %s, want {}", got.body)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	h := dynamolite.NewHandler(dynamolite.New(dynamolite.Options{}), dynamolite.HandlerOptions{Credentials: map[string]string{testKey: testSecret}})
	got := exchange(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://somewhere:8000/", http.NoBody))
	if got.status != http.StatusOK || string(got.body) != "healthy: somewhere:8000\n" {
		t.Errorf("answered %d %s", got.status, got.body)
	}
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	credentials := map[string]string{testKey: testSecret}
	for _, tt := range []struct {
		name    string
		options dynamolite.HandlerOptions
		kind    string // of the error, without its namespace
	}{
		{"right", dynamolite.HandlerOptions{Credentials: credentials}, ""},
		{"right region", dynamolite.HandlerOptions{Credentials: credentials, Region: "us-east-1"}, ""},
		{"wrong region", dynamolite.HandlerOptions{Credentials: credentials, Region: "us-east-2"}, "InvalidSignatureException"},
		{"wrong secret", dynamolite.HandlerOptions{Credentials: map[string]string{testKey: "other"}}, "InvalidSignatureException"},
		{"unknown key", dynamolite.HandlerOptions{Credentials: map[string]string{"other": testSecret}}, "UnrecognizedClientException"},
		{"nobody", dynamolite.HandlerOptions{Credentials: map[string]string{}}, "UnrecognizedClientException"},
		{"expired", dynamolite.HandlerOptions{Credentials: credentials, Now: func() time.Time { return time.Now().Add(16 * time.Minute) }}, "InvalidSignatureException"},
		{"early", dynamolite.HandlerOptions{Credentials: credentials, Now: func() time.Time { return time.Now().Add(-16 * time.Minute) }}, "InvalidSignatureException"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := dynamolite.NewHandler(f.db, tt.options)
			wantKind := ""
			if tt.kind != "" {
				wantKind = coralService + tt.kind
			}
			body := `{"TableName":"main"}`
			r := newPost(t, "DynamoDB_20120810.DescribeTable", body)
			signRequest(t, r, []byte(body))
			if got := exchange(t, h, r); got.kind != wantKind {
				t.Errorf("answered %s, want %q", got.body, tt.kind)
			}
			ledger := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_dynamolite/ledger", http.NoBody)
			signRequest(t, ledger, nil)
			if got := exchange(t, h, ledger); got.kind != wantKind {
				t.Errorf("the ledger is %s, want %q", got.body, tt.kind)
			}
			unsigned := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_dynamolite/ledger", http.NoBody)
			if got := exchange(t, h, unsigned); got.kind != coralService+"MissingAuthenticationTokenException" {
				t.Errorf("unsigned, the ledger is %s", got.body)
			}
		})
	}
}

// The handler accepts the signatures of the SDK's clients, and keeps its own copy of the
// credentials.
func TestSignedClients(t *testing.T) {
	t.Parallel()
	credentials := map[string]string{testKey: testSecret}
	h := dynamolite.NewHandler(newFixture(t).db, dynamolite.HandlerOptions{Credentials: credentials, Region: "us-east-1"})
	clear(credentials)
	url := listen(t, h)
	if _, err := clientOf(url).ListTables(t.Context(), &dynamodb.ListTablesInput{}); err != nil {
		t.Error(err)
	}
	if _, err := streamsClientOf(url).ListStreams(t.Context(), &dynamodbstreams.ListStreamsInput{}); err != nil {
		t.Error(err)
	}
}

// A panic is answered and logged, and does not affect the next request.
func TestPanic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := dynamolite.NewHandler(nil, dynamolite.HandlerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 2 {
		got := post(t, h, putTarget, `{"TableName":"main"}`)
		if got.status != http.StatusInternalServerError || got.kind != dynamoDBPrefix+"InternalServerError" || strings.Contains(string(got.body), "nil pointer") {
			t.Errorf("answered %d %s", got.status, got.body)
		}
		if got := log.String(); !strings.Contains(got, putTarget) || !strings.Contains(got, "nil pointer") || !strings.Contains(got, "handler.go") {
			t.Errorf("logged %s", got)
		}
		log.Reset()
	}
	if got := post(t, h, putTarget, `{`); got.status != http.StatusBadRequest || log.Len() > 0 {
		t.Errorf("answered %d %s and logged %s", got.status, got.body, &log)
	}
}

// FuzzHandler: no input of a client causes a panic, and the answer is JSON with its checksum, its
// length and a request id.
func FuzzHandler(f *testing.F) {
	targets := []string{"", "DynamoDB_20120810.", "DynamoDB_20120810.Unknown"}
	for _, op := range []string{
		"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan", "BatchGetItem", "BatchWriteItem", "TransactGetItems",
		"TransactWriteItems", "CreateTable", "DescribeTable", "DeleteTable", "ListTables", "UpdateTable", "UpdateTimeToLive", "DescribeTimeToLive",
		"TagResource", "UntagResource", "ListTagsOfResource", "DescribeLimits", "DescribeEndpoints",
	} {
		targets = append(targets, "DynamoDB_20120810."+op)
	}
	for _, op := range []string{"ListStreams", "DescribeStream", "GetShardIterator", "GetRecords"} {
		targets = append(targets, "DynamoDBStreams_20120810."+op)
	}
	for i, target := range targets {
		f.Add(uint8(i), []byte(`{}`))
		for _, in := range steps() {
			if strings.HasSuffix(target, "."+operationOf(in)) {
				f.Add(uint8(i), wireForm(f, in))
			}
		}
	}
	f.Add(uint8(3), []byte(`{"TableName":"main","Key":{"pk":{"S":null}}}`))
	f.Add(uint8(4), []byte(`{"TableName":"main","Item":{"":{"L":[{"M":{"":null}}]}}}`))
	f.Fuzz(func(t *testing.T, target uint8, body []byte) {
		var log bytes.Buffer
		h := dynamolite.NewHandler(newFixture(t).db, dynamolite.HandlerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		name := targets[int(target)%len(targets)]
		got := post(t, h, name, string(body))
		if got.status >= http.StatusInternalServerError || log.Len() > 0 {
			t.Errorf("%s %q: answered %d %s and logged %s", name, body, got.status, got.body, &log)
		}
	})
}
