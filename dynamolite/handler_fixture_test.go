package dynamolite_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

const (
	testKey    = "AKIDEXAMPLE"
	testSecret = "secret/of/the/test"
)

// listen serves a handler until the test ends and returns its URL.
func listen(tb testing.TB, h *dynamolite.Handler) string {
	tb.Helper()
	var config net.ListenConfig
	l, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, l) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// clientOf returns the SDK's client of the tables at a URL. It does not retry.
func clientOf(url string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &url, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider(testKey, testSecret, ""),
	})
}

// streamsClientOf returns the SDK's client of the streams at a URL. It does not retry.
func streamsClientOf(url string) *dynamodbstreams.Client {
	return dynamodbstreams.New(dynamodbstreams.Options{
		Region: "us-east-1", BaseEndpoint: &url, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider(testKey, testSecret, ""),
	})
}

// signRequest signs a request as the SDK does, now.
func signRequest(tb testing.TB, r *http.Request, body []byte) {
	tb.Helper()
	hash := sha256.Sum256(body)
	creds := aws.Credentials{AccessKeyID: testKey, SecretAccessKey: testSecret}
	if err := v4.NewSigner().SignHTTP(tb.Context(), creds, r, hex.EncodeToString(hash[:]), "dynamodb", "us-east-1", time.Now()); err != nil {
		tb.Fatal(err)
	}
}

// wellFormed is a signature in the right form. A handler with credentials refuses it.
var wellFormed = "AWS4-HMAC-SHA256 Credential=any/20260102/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + strings.Repeat("0", 64)

// newPost returns a request for an operation, with a signature that is not verified.
func newPost(tb testing.TB, target, body string) *http.Request {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "http://localhost:8000/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Date", "20260102T030405Z")
	r.Header.Set("Authorization", wellFormed)
	return r
}

// reply is the answer of a handler.
type reply struct {
	status  int
	kind    string // of an error
	message string
	body    []byte
}

// post sends a body to an operation.
func post(tb testing.TB, h http.Handler, target, body string) reply {
	tb.Helper()
	return exchange(tb, h, newPost(tb, target, body))
}

// exchange sends a request and checks the properties that every answer must have.
func exchange(tb testing.TB, h http.Handler, r *http.Request) reply {
	tb.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body := w.Body.Bytes()
	if id := w.Header().Get("X-Amzn-Requestid"); len(id) != 52 || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		tb.Errorf("the request id is %q", id)
	}
	if got, want := w.Header().Get("X-Amz-Crc32"), strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10); got != want {
		tb.Errorf("the checksum is %s, want %s", got, want)
	}
	if got := w.Header().Get("Content-Length"); got != strconv.Itoa(len(body)) {
		tb.Errorf("the content length is %s, want %d", got, len(body))
	}
	out := reply{status: w.Code, body: body}
	if w.Header().Get("Content-Type") != "application/x-amz-json-1.0" {
		return out
	}
	var members struct {
		Type    string `json:"__type"`
		Message string // in upper or lower case
	}
	if err := json.Unmarshal(body, &members); err != nil {
		tb.Errorf("%s: %v", body, err)
	}
	if (out.status == http.StatusOK) != (members.Type == "") {
		tb.Errorf("status %d of %s", out.status, body)
	}
	out.kind, out.message = members.Type, members.Message
	return out
}
