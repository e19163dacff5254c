package differential_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// direct passes the requests of the SDK's client to a handler, with no socket between them.
type direct struct{ http.Handler }

// Do returns the handler's answer.
func (d direct) Do(r *http.Request) (*http.Response, error) {
	r.Host = r.URL.Host // the place where a server finds it; the signature covers it
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// httpEngine returns the SDK's standard client in front of a new database with all the fixed
// tables. Signatures are verified.
func httpEngine(t *testing.T) engine {
	t.Helper()
	const id, secret = "id", "secret"
	db := dynamolite.New(dynamolite.Options{})
	createTables(t, db)
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://dynamolite.invalid"),
		Credentials:  credentials.NewStaticCredentialsProvider(id, secret, ""),
		HTTPClient:   direct{dynamolite.NewHandler(db, dynamolite.HandlerOptions{Credentials: map[string]string{id: secret}})},
		Retryer:      aws.NopRetryer{},
	})
}

// TestLongGoldenOverHTTP compares the handler with the recorded answers too: no answer depends on how
// the request came.
func TestLongGoldenOverHTTP(t *testing.T) {
	t.Parallel()
	golden := readGolden(t)
	for _, c := range allCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if recorded, ok := golden[c.name]; ok { // otherwise TestGolden fails
				c.compare(t, recorded, httpEngine(t))
			}
		})
	}
}
