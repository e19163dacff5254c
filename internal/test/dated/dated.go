// Package dated is a test server whose answers carry a Date header. It has no network: the
// SDK's client calls the handler of an engine directly. So a test may run it in a
// testing/synctest bubble, where the dates are virtual too.
package dated

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

// A Server answers the requests of the SDK's client. A nil Latency takes no time.
type Server struct {
	Handler http.Handler
	// Date is the time in the header of an answer with that status, if it is sent now. The
	// header drops fractions of a second. A zero time omits it.
	Date func(status int) time.Time
	// Latency is the time that a request or an answer travels.
	Latency func() time.Duration
}

// Do carries one request out. [dynamodb.Options] take a Server as HTTPClient.
func (s *Server) Do(r *http.Request) (*http.Response, error) {
	if err := s.travel(r.Context()); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	received := r.Clone(r.Context())
	if received.Host == "" {
		received.Host = r.URL.Host // as a server sees it
	}
	s.Handler.ServeHTTP(w, received)
	answer := w.Result()
	if date := s.Date(answer.StatusCode); !date.IsZero() {
		answer.Header.Set("Date", date.UTC().Format(http.TimeFormat))
	}
	if err := s.travel(r.Context()); err != nil {
		return nil, err
	}
	return answer, nil
}

func (s *Server) travel(ctx context.Context) error {
	if s.Latency == nil {
		return nil
	}
	return calls.Sleep(ctx, nil, s.Latency())
}

// Client is the SDK's client of the server, with any credentials.
func (s *Server) Client() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://localhost"), HTTPClient: s,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	})
}

// Metadata is the metadata of an answer with a date, as the SDK's client makes it.
func Metadata(ctx context.Context, date time.Time) (middleware.Metadata, error) {
	s := Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("{}")) }),
		Date:    func(int) time.Time { return date },
	}
	out, err := s.Client().ListTables(ctx, nil)
	if err != nil {
		return middleware.Metadata{}, err
	}
	return out.ResultMetadata, nil
}
