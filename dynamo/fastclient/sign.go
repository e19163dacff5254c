package fastclient

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// A signer makes the same signatures as the SDK's signer for DynamoDB's only kind of
// request: a POST to / without a query. It writes the text to sign into one reused
// buffer; the SDK's signer makes dozens of strings. It leaves every other request to
// the SDK's signer. It is safe for concurrent use; the zero value is not usable.
type signer struct {
	key     atomic.Pointer[signingKey] // of the last credentials, day, region and service
	buffers sync.Pool                  // of *signBuffer
}

var _ dynamodb.HTTPSignerV4 = (*signer)(nil)

const (
	signAlgorithm = "AWS4-HMAC-SHA256"
	signEnd       = "aws4_request"
	signTime      = "20060102T150405Z"
	signDay       = 8 // the length of the day at the beginning of a signTime

	authorizationHeader = "Authorization"
	amzDateHeader       = "X-Amz-Date"
	amzTokenHeader      = "X-Amz-Security-Token"
)

func newSigner() *signer {
	return &signer{buffers: sync.Pool{New: func() any { return new(signBuffer) }}}
}

// A signBuffer is the working memory for one signature.
type signBuffer struct {
	headers []signedHeader
	text    []byte
	sum     []byte
}

// A signedHeader is a header under its name in lower case.
type signedHeader struct {
	name   string
	values []string
}

// SignHTTP signs a request in place. payloadHash is the SHA-256 of the body in
// hexadecimal.
func (s *signer) SignHTTP(
	ctx context.Context, credentials aws.Credentials, r *http.Request, payloadHash, service, region string, at time.Time,
	optFns ...func(*v4.SignerOptions),
) error {
	b, _ := s.buffers.Get().(*signBuffer)
	defer s.buffers.Put(b)
	host, ok := b.gather(r, credentials.SessionToken, optFns)
	if !ok {
		// A new signer each time, because it keeps keys by the ID of credentials, not
		// by the secret.
		return v4.NewSigner().SignHTTP(ctx, credentials, r, payloadHash, service, region, at, optFns...)
	}
	date := at.UTC().Format(signTime)
	r.Header[amzDateHeader] = append(r.Header[amzDateHeader][:0], date)
	b.headers = append(b.headers, signedHeader{"x-amz-date", r.Header[amzDateHeader]})
	if credentials.SessionToken != "" {
		r.Header[amzTokenHeader] = append(r.Header[amzTokenHeader][:0], credentials.SessionToken)
		b.headers = append(b.headers, signedHeader{"x-amz-security-token", r.Header[amzTokenHeader]})
	}
	slices.SortFunc(b.headers, func(x, y signedHeader) int { return strings.Compare(x.name, y.name) })

	key := s.keyFor(credentials, date[:signDay], region, service)
	canonical := sha256.Sum256(b.canonical(r, host, payloadHash))
	text := append(b.text[:0], signAlgorithm+"\n"...)
	text = append(append(text, date...), '\n')
	text = append(append(text, key.scope...), '\n')
	text = hex.AppendEncode(text, canonical[:])
	b.sum = key.sum(b.sum[:0], text)

	text = append(text[:0], signAlgorithm+" Credential="...)
	text = append(append(text, credentials.AccessKeyID...), '/')
	text = append(append(text, key.scope...), ", SignedHeaders="...)
	text = b.appendNames(text)
	text = append(text, ", Signature="...)
	text = hex.AppendEncode(text, b.sum)
	b.text = text
	r.Header[authorizationHeader] = append(r.Header[authorizationHeader][:0], string(text))
	return nil
}

// gather collects the headers to sign, except those that signing sets. It reports
// whether the request is of the plain kind. host is the host to which the request is
// sent; r.Header does not hold it.
func (b *signBuffer) gather(r *http.Request, token string, optFns []func(*v4.SignerOptions)) (host string, plain bool) {
	if host = r.Host; host == "" {
		host = r.URL.Host
	}
	if !plainOptions(optFns) || !plainURL(r.URL) || !tidy(token) || !tidy(host) ||
		strings.HasSuffix(host, ":80") || strings.HasSuffix(host, ":443") { // default ports are not signed
		return "", false
	}
	b.headers = append(b.headers[:0], signedHeader{name: "host"}) // canonical sets the value
	if r.ContentLength > 0 {
		b.headers = append(b.headers, signedHeader{name: "content-length"})
	}
	for name, values := range r.Header {
		switch name {
		case "Content-Length", amzDateHeader:
			continue // signed with another value
		case authorizationHeader, "User-Agent", "X-Amzn-Trace-Id", "Expect", "Transfer-Encoding":
			continue // not signed: proxies may change them
		case amzTokenHeader:
			if token != "" {
				continue // signed with another value
			}
		}
		lower, known := lowerNames[name]
		if !known {
			// The SDK merges the values of names that differ only in case.
			if lower = strings.ToLower(name); name != http.CanonicalHeaderKey(name) || lower == "host" {
				return "", false
			}
		}
		if slices.ContainsFunc(values, untidy) {
			return "", false
		}
		b.headers = append(b.headers, signedHeader{lower, values})
	}
	return host, true
}

// plainOptions reports whether options leave a signature unchanged.
func plainOptions(optFns []func(*v4.SignerOptions)) bool {
	if len(optFns) == 0 {
		return true
	}
	var o v4.SignerOptions
	for _, fn := range optFns {
		fn(&o)
	}
	return !o.LogSigning && !o.DisableSessionToken
}

func plainURL(u *url.URL) bool {
	return u.Path == "/" && (u.RawPath == "" || u.RawPath == "/") && u.RawQuery == "" && u.Opaque == ""
}

// lowerNames are the headers that the SDK sends with every request.
var lowerNames = map[string]string{
	"Accept-Encoding": "accept-encoding", "Amz-Sdk-Invocation-Id": "amz-sdk-invocation-id", "Amz-Sdk-Request": "amz-sdk-request",
	"Content-Type": "content-type", "X-Amz-Target": "x-amz-target",
}

// tidy reports whether a value is signed unchanged. Signing changes spaces around a
// value and runs of spaces inside.
func tidy(v string) bool {
	if v == "" {
		return true
	}
	first, last := v[0], v[len(v)-1]
	return first > ' ' && first < 0x7f && last > ' ' && last < 0x7f && !strings.Contains(v, "  ")
}

func untidy(v string) bool { return !tidy(v) }

// canonical is the request in the form that is signed. It is valid until the next call.
func (b *signBuffer) canonical(r *http.Request, host, payloadHash string) []byte {
	text := append(append(b.text[:0], r.Method...), "\n/\n\n"...)
	for _, h := range b.headers {
		text = append(append(text, h.name...), ':')
		switch h.name {
		case "host":
			text = append(text, host...)
		case "content-length":
			text = strconv.AppendInt(text, r.ContentLength, 10)
		}
		for i, v := range h.values {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, v...)
		}
		text = append(text, '\n')
	}
	text = append(b.appendNames(append(text, '\n')), '\n')
	b.text = append(text, payloadHash...)
	return b.text
}

// appendNames appends the names of the signed headers.
func (b *signBuffer) appendNames(text []byte) []byte {
	for i, h := range b.headers {
		if i > 0 {
			text = append(text, ';')
		}
		text = append(text, h.name...)
	}
	return text
}

// A signingKey signs for a day, a region and a service.
type signingKey struct {
	secret, day, region, service string
	scope                        string
	macs                         sync.Pool // of hash.Hash
}

// keyFor returns the last key if it still fits, else a new one. Rotated credentials
// have another secret; a client has one region and one service.
func (s *signer) keyFor(credentials aws.Credentials, day, region, service string) *signingKey {
	k := s.key.Load()
	if k != nil && k.day == day && k.secret == credentials.SecretAccessKey && k.region == region && k.service == service {
		return k
	}
	k = &signingKey{
		secret: credentials.SecretAccessKey, day: day, region: region, service: service,
		scope: day + "/" + region + "/" + service + "/" + signEnd,
	}
	key := []byte("AWS4" + credentials.SecretAccessKey)
	for _, part := range []string{day, region, service, signEnd} {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	k.macs.New = func() any { return hmac.New(sha256.New, key) }
	s.key.Store(k)
	return k
}

// sum appends the signature of a text.
func (k *signingKey) sum(to, text []byte) []byte {
	mac, _ := k.macs.Get().(hash.Hash)
	defer k.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write(text)
	return mac.Sum(to)
}
