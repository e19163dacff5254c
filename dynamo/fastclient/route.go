package fastclient

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient/internal/exchange"
	"github.com/zeroae/zae-limiter-go/internal/calls"
)

// A route is what requests with the same credentials have in common: where they go, and
// most of their header. The SDK itself says it: see [Client.trace]. It is immutable, but
// for the key.
type route struct {
	credentials aws.Credentials
	plain       bool // false: the SDK sends requests with these credentials
	sample      *http.Request
	peer        exchange.Peer
	host        string
	contentType string
	encoding    string
	head        string // request line and headers that do not change
	scope       string // what follows the day in the scope of a signature
	region      string
	service     string
	key         atomic.Pointer[signingKey] // of the last day
}

// answersAtOnce reports whether a provider takes no time if its context has ended.
func answersAtOnce(p aws.CredentialsProvider) bool {
	switch p.(type) {
	case *aws.CredentialsCache, credentials.StaticCredentialsProvider, *credentials.StaticCredentialsProvider:
		return true
	}
	return false
}

// ended is a context that has ended. With it, a cache returns what it has, or fails.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// routeFor returns the route for the present credentials, nil if the SDK should make the
// call. An error is that of the credentials, and then the outcome of the first attempt.
func (c *Client) routeFor(ctx context.Context) (*route, error) { //nolint:contextcheck // see ended
	if calls.MustLeave(ctx) {
		if !answersAtOnce(c.options.Credentials) {
			return nil, nil
		}
		ctx = ended
	}
	who, err := c.options.Credentials.Retrieve(ctx)
	if err != nil || !who.HasKeys() {
		return nil, err // the SDK says why
	}
	r := c.route.Load()
	if r == nil || r.credentials != who {
		if r = c.trace(ctx, who); r == nil {
			return nil, nil
		}
		c.route.Store(r)
	}
	if !r.plain {
		return nil, nil
	}
	return r, nil
}

// Fixed credentials are the value that a provider gave.
type fixed struct {
	aws.CredentialsProvider
	value aws.Credentials
}

// Retrieve returns the value.
func (f *fixed) Retrieve(context.Context) (aws.Credentials, error) { return f.value, nil }

// ProviderSources returns the provider's, for the user agent.
func (f *fixed) ProviderSources() []aws.CredentialSource {
	if p, ok := f.CredentialsProvider.(aws.CredentialProviderSource); ok {
		return p.ProviderSources()
	}
	return nil
}

// withoutCredentials returns the options of a call whose credentials could not be had. Without
// them, the SDK would ask for its first attempt again, and wait again.
func withoutCredentials(optFns []func(*dynamodb.Options), err error) []func(*dynamodb.Options) {
	return append(slices.Clip(optFns), func(o *dynamodb.Options) {
		o.Credentials = &missing{fixed: fixed{CredentialsProvider: o.Credentials}, err: err}
	})
}

// Missing credentials are a provider that has failed: it returns the error to the first
// attempt, and asks for the others.
type missing struct {
	fixed
	err  error
	told bool
}

// Retrieve returns the error once.
func (m *missing) Retrieve(ctx context.Context) (aws.Credentials, error) {
	if m.told {
		return m.CredentialsProvider.Retrieve(ctx)
	}
	m.told = true
	return aws.Credentials{}, m.err
}

// A tracer records a request instead of sending it.
type tracer struct{ request *http.Request }

// Do records the request.
func (t *tracer) Do(r *http.Request) (*http.Response, error) {
	t.request = r
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// trace finds the route for credentials: it lets the SDK make a request and keeps it from
// being sent. So endpoints of accounts, dual stack, FIPS and the user agent are as the SDK
// makes them. It returns nil if the SDK made no request.
func (c *Client) trace(ctx context.Context, who aws.Credentials) *route {
	var t tracer
	in := &dynamodb.GetItemInput{TableName: aws.String("-"), Key: map[string]types.AttributeValue{}}
	_, _ = c.Client.GetItem(ctx, in, func(o *dynamodb.Options) {
		o.HTTPClient, o.Credentials = &t, &fixed{o.Credentials, who}
	})
	if t.request == nil {
		return nil
	}
	r := &route{credentials: who}
	r.plain = r.learn(t.request)
	return r
}

// learn takes over a request of the SDK. It reports whether the requests that a Client
// makes are like it.
func (r *route) learn(sample *http.Request) bool {
	h, u := sample.Header, sample.URL
	if sample.Method != http.MethodPost || u.Path != "/" || u.RawQuery != "" || u.Opaque != "" || u.User != nil {
		return false
	}
	for name, values := range h {
		switch name {
		case "Accept-Encoding", "Content-Type", "User-Agent", "X-Amz-Target", amzDateHeader, amzTokenHeader, authorizationHeader,
			"Content-Length", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request":
		default:
			return false
		}
		if len(values) != 1 || !tidy(values[0]) {
			return false
		}
	}
	if r.host = sample.Host; r.host == "" {
		r.host = u.Host
	}
	rest, ok := strings.CutPrefix(h.Get(authorizationHeader), signAlgorithm+" Credential="+r.credentials.AccessKeyID+"/")
	scope, _, signed := strings.Cut(rest, ", ")
	parts := strings.Split(scope, "/")
	if !ok || !signed || len(parts) != 4 || parts[3] != signEnd || !tidy(r.host) || h.Get(amzTokenHeader) != r.credentials.SessionToken {
		return false
	}
	_, r.scope, _ = strings.Cut(scope, "/")
	r.region, r.service = parts[1], parts[2]
	r.encoding, r.contentType = h.Get("Accept-Encoding"), h.Get("Content-Type")
	r.peer = exchange.Peer{Scheme: u.Scheme, Host: u.Host}
	r.head = "POST / HTTP/1.1\r\nHost: " + r.host + "\r\nUser-Agent: " + h.Get("User-Agent") +
		"\r\nAccept-Encoding: " + r.encoding + "\r\nContent-Type: " + r.contentType + "\r\n"
	if token := r.credentials.SessionToken; token != "" {
		r.head += amzTokenHeader + ": " + token + "\r\n"
	}
	// Not the SDK's request itself: that holds the context of the first call.
	r.sample = &http.Request{Method: sample.Method, URL: u, Header: http.Header{}, ContentLength: 1, Host: sample.Host}
	return r.encoding != "" && r.contentType != "" && h.Get("User-Agent") != ""
}

// tidy reports whether a header can be signed and sent unchanged. Signing changes spaces
// around a value and runs of spaces inside.
func tidy(v string) bool {
	for i := range len(v) {
		if v[i] < ' ' || v[i] >= 0x7f {
			return false
		}
	}
	return strings.TrimSpace(v) == v && !strings.Contains(v, "  ")
}
