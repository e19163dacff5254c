// Package s3test is an in-memory S3 server for tests, with the part of the HTTP protocol
// that package archive uses. The SDK's own client talks to it. Conformance tests run the
// same tests against moto's S3 server.
package s3test

import (
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Region is the region where clients look for buckets. The buckets are there too, unless
// [Server.Elsewhere] moves them.
const Region = "us-east-1"

// A Server is a running S3 server.
type Server struct {
	URL string // its endpoint

	mu      sync.Mutex
	buckets map[string]map[string]Object
	fail    func(*http.Request) (status int, code string)
	asked   []string
	region  string
}

// An Object is a stored object.
type Object struct {
	Body                         []byte
	ContentType, ContentEncoding string
}

// New starts a server that ends with the test.
func New(tb testing.TB, buckets ...string) *Server {
	tb.Helper()
	s := &Server{buckets: map[string]map[string]Object{}, region: Region}
	for _, name := range buckets {
		s.buckets[name] = map[string]Object{}
	}
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Client is a client of the server without retries.
func (s *Server) Client() *s3.Client { return Client(s.URL) }

// Client is a client of an S3 server at a URL, without retries.
func Client(url string) *s3.Client {
	return s3.New(s3.Options{
		Region: Region, BaseEndpoint: aws.String(url), UsePathStyle: true, Retryer: aws.NopRetryer{},
		Credentials:                credentials.NewStaticCredentialsProvider("key", "secret", ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
}

// Fail makes requests fail if f returns a status other than 0; with nil, none fails.
func (s *Server) Fail(f func(*http.Request) (status int, code string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// Elsewhere moves all buckets to a region: a request that is signed for another region is
// redirected there.
func (s *Server) Elsewhere(region string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.region = region
}

// Asked returns the requests since the last call, such as "GET /bucket/key".
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// Objects returns the objects of a bucket.
func (s *Server) Objects(bucket string) map[string]Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.buckets[bucket])
}

// ServeHTTP answers a request to /BUCKET or /BUCKET/KEY.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	asked := r.Method + " " + r.URL.Path
	if prefix := query.Get("prefix"); prefix != "" {
		asked += "?" + prefix
	}
	s.asked = append(s.asked, asked)
	if s.fail != nil {
		if status, code := s.fail(r); status != 0 {
			refuse(w, status, code)
			return
		}
	}
	bucket, ok := s.buckets[name]
	switch {
	case !strings.Contains(r.Header.Get("Authorization"), "/"+s.region+"/s3/"):
		w.Header().Set("X-Amz-Bucket-Region", s.region)
		refuse(w, http.StatusMovedPermanently, "PermanentRedirect")
	case !ok:
		refuse(w, http.StatusNotFound, "NoSuchBucket")
	case key == "" && r.Method == http.MethodHead:
	case key == "" && r.Method == http.MethodGet && query.Get("list-type") == "2":
		list(w, bucket, query.Get("prefix"))
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
			refuse(w, http.StatusNotImplemented, "NotImplemented")
			return
		}
		bucket[key] = Object{body, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding")}
	case r.Method == http.MethodGet:
		o, ok := bucket[key]
		if !ok {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("Content-Type", o.ContentType)
		w.Header().Set("Content-Encoding", o.ContentEncoding)
		_, _ = w.Write(o.Body)
	default:
		refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>no</Message></Error>")
}

// list answers with the keys that have a prefix.
func list(w http.ResponseWriter, bucket map[string]Object, prefix string) {
	type entry struct{ Key string }
	var out struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []entry
	}
	for _, key := range slices.Sorted(maps.Keys(bucket)) {
		if strings.HasPrefix(key, prefix) {
			out.Contents = append(out.Contents, entry{key})
		}
	}
	body, err := xml.Marshal(out)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}
