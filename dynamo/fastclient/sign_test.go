package fastclient_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
)

const bodyHash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // of {}

func plainRequest() *http.Request {
	return &http.Request{
		Method: http.MethodPost, ContentLength: 2, URL: &url.URL{Scheme: "https", Host: "dynamodb.us-east-1.amazonaws.com", Path: "/"},
		Header: http.Header{
			"Accept-Encoding": {"identity"}, "Amz-Sdk-Invocation-Id": {"6e8c3d6a"}, "Amz-Sdk-Request": {"attempt=1; max=3"},
			"Content-Type": {"application/x-amz-json-1.0"}, "User-Agent": {"aws-sdk-go-v2/1.47.7"}, "X-Amz-Target": {"DynamoDB_20120810.UpdateItem"},
		},
	}
}

// The signer signs every request as the SDK does, whatever it signed before.
func TestSignerIsTheSDKs(t *testing.T) {
	t.Parallel()
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	requests := map[string]func(*http.Request){
		"plain":              func(*http.Request) {},
		"no body":            func(r *http.Request) { r.ContentLength = 0 },
		"unknown length":     func(r *http.Request) { r.ContentLength = -1 },
		"another host":       func(r *http.Request) { r.Host = "localhost:8000" },
		"a default port":     func(r *http.Request) { r.Host = "localhost:443" },
		"a port like it":     func(r *http.Request) { r.URL.Scheme, r.Host = "http", "localhost:443" },
		"IPv6":               func(r *http.Request) { r.URL.Host = "[::1]:8000" },
		"a path":             func(r *http.Request) { r.URL.Path = "/a b/ü" },
		"no path":            func(r *http.Request) { r.URL.Path = "" },
		"an escaped path":    func(r *http.Request) { r.URL.RawPath = "%2F" },
		"a query":            func(r *http.Request) { r.URL.RawQuery = "b=1&a=x y" },
		"opaque":             func(r *http.Request) { r.URL.Opaque = "//host/path" },
		"another method":     func(r *http.Request) { r.Method = http.MethodGet },
		"a header more":      header("X-Custom", "1"),
		"two values":         header("X-Custom", "1", "2"),
		"no value":           header("X-Custom"),
		"an empty value":     header("X-Custom", ""),
		"spaces inside":      header("X-Custom", "a   b"),
		"spaces around":      header("X-Custom", " a "),
		"tabs around":        header("X-Custom", "\ta"),
		"a wide space":       header("X-Custom", "a\u00a0"),
		"a name in two ways": func(r *http.Request) { r.Header["x-Custom"], r.Header["X-Custom"] = []string{"1"}, nil },
		"a host header":      header("Host", "elsewhere"),
		"a content length":   header("Content-Length", "7"),
		"unsigned headers":   func(r *http.Request) { header("X-Amzn-Trace-Id", "Root=1")(r); header("Expect", "x")(r) },
		"signed before":      func(r *http.Request) { header("Authorization", "old")(r); header("X-Amz-Date", "old")(r) },
		"a token before":     header("X-Amz-Security-Token", "old"),
		"no headers":         func(r *http.Request) { r.Header = http.Header{} },
	}
	people := []aws.Credentials{
		{AccessKeyID: "AKID", SecretAccessKey: "secret"},
		{AccessKeyID: "AKID", SecretAccessKey: "rotated"},
		{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "token"},
		{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "to  ken "},
	}
	day := time.Date(2026, 7, 31, 23, 59, 59, 999, time.UTC)
	ours := fastclient.NewSigner()
	for name, change := range requests {
		for _, region := range []string{"us-east-1", "eu-west-1"} {
			for _, at := range []time.Time{day, day.Add(time.Second), day.In(time.FixedZone("", 7200))} {
				for _, who := range people {
					for _, options := range [][]func(*v4.SignerOptions){nil, {func(o *v4.SignerOptions) { o.DisableSessionToken = true }}} {
						theirs, got := plainRequest(), plainRequest()
						change(theirs)
						change(got)
						sign(t, v4.NewSigner(), theirs, who, region, at, options...)
						sign(t, ours, got, who, region, at, options...)
						if diff := cmp.Diff(theirs.Header, got.Header); diff != "" || theirs.Host != got.Host || *theirs.URL != *got.URL {
							t.Errorf("%s, %+v, %s, %v: the SDK's request and ours differ: %s", name, who, region, at, diff)
						}
					}
				}
			}
		}
	}
}

type httpSigner interface {
	SignHTTP(context.Context, aws.Credentials, *http.Request, string, string, string, time.Time, ...func(*v4.SignerOptions)) error
}

func sign(t *testing.T, s httpSigner, r *http.Request, who aws.Credentials, region string, at time.Time, options ...func(*v4.SignerOptions)) {
	t.Helper()
	if err := s.SignHTTP(t.Context(), who, r, bodyHash, "dynamodb", region, at, options...); err != nil {
		t.Fatal(err)
	}
}

// The signer signs any headers as the SDK does.
func FuzzSigner(f *testing.F) {
	f.Add("X-Custom", "value", "localhost:8000", "token")
	f.Add("host", "a  b", "", "")
	f.Add("X-Amz-Date", "\u0085", "a:80", " ")
	ours := fastclient.NewSigner()
	f.Fuzz(func(t *testing.T, name, value, host, token string) {
		for _, sent := range []string{"Accept-Encoding", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request", "Content-Type", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Target"} {
			if strings.EqualFold(name, sent) && name != sent {
				return // if a header appears under both names, the SDK signs the values in map order
			}
		}
		who := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: token}
		at := time.Date(2026, 7, 31, 12, 0, 0, 0, time.UTC)
		theirs, got := plainRequest(), plainRequest()
		for _, r := range []*http.Request{theirs, got} {
			r.Header[name], r.Host = []string{value}, host
		}
		sign(t, v4.NewSigner(), theirs, who, "us-east-1", at)
		sign(t, ours, got, who, "us-east-1", at)
		if diff := cmp.Diff(theirs.Header, got.Header); diff != "" {
			t.Errorf("the SDK's headers and ours differ: %s", diff)
		}
	})
}

// A signature takes a fraction of the SDK's allocations.
func TestSignerAllocates(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	at := time.Date(2026, 7, 31, 12, 0, 0, 0, time.UTC)
	who := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "token"}
	count := func(s httpSigner) float64 {
		r := plainRequest()
		return testing.AllocsPerRun(100, func() { sign(t, s, r, who, "us-east-1", at) })
	}
	// 3 against 45; the race detector drops pooled objects and so adds to our 3.
	if ours, theirs := count(fastclient.NewSigner()), count(v4.NewSigner()); ours > theirs/4 {
		t.Errorf("a signature takes %v allocations, the SDK's %v", ours, theirs)
	}
}
