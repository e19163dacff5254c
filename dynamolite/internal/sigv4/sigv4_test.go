package sigv4_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/sigv4"
)

const (
	accessKey = "AKIDEXAMPLE"
	secret    = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

var signedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func verifier() *sigv4.Verifier {
	return &sigv4.Verifier{Credentials: map[string]string{accessKey: secret}, Service: "dynamodb"}
}

// verify checks a request as a server does: what it claims first, and then its body.
func verify(v *sigv4.Verifier, r *http.Request, body []byte, now time.Time) error {
	claim, err := v.Claim(r, now)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(body)
	return claim.Verify(hash[:])
}

// newRequest returns a request as a server receives it.
func newRequest(tb testing.TB, method, url, body string, header ...string) *http.Request {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), method, url, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// Requests that botocore 1.43.117 has signed.
func TestBotocore(t *testing.T) {
	t.Parallel()
	const scope = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/"
	for _, tt := range []struct {
		name string
		r    *http.Request
		body string
	}{
		{"post", newRequest(t, http.MethodPost, "http://localhost:8000/", `{"TableName": "t"}`,
			"X-Amz-Target", "DynamoDB_20120810.GetItem", "Content-Type", "application/x-amz-json-1.0", "User-Agent", "Boto3",
			"X-Amz-Date", "20260102T030405Z",
			"Authorization", scope+"eu-west-1/dynamodb/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, "+
				"Signature=9d898b19a41dbb5b2115e64af3be9a493aa9d7af272b310c2aee6d4d3360b057",
		), `{"TableName": "t"}`},
		{"token and spaces", newRequest(t, http.MethodPost, "https://dynamodb.us-east-1.amazonaws.com/", `{}`,
			"X-Amz-Target", "DynamoDB_20120810.ListTables", "Content-Type", "application/x-amz-json-1.0", "Spaced", "  a   b ",
			"X-Amz-Date", "20260102T030405Z", "X-Amz-Security-Token", "TOKEN//",
			"Authorization", scope+"us-east-1/dynamodb/aws4_request, SignedHeaders=content-type;host;spaced;x-amz-date;x-amz-security-token;x-amz-target, "+
				"Signature=700f35409759a463f96f516521199895af518cbdd40671d52edf1b44ba71b047",
		), `{}`},
		{"query", newRequest(t, http.MethodGet, "http://localhost/_dynamolite/ledger?b=2&a=%20x&b=1", ``,
			"X-Amz-Date", "20260102T030405Z",
			"Authorization", scope+"us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, "+
				"Signature=0541557d36d769a7e6a4ef540b8486da7079b4cdc8a702079258a4ba5f9ecc6c",
		), ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := verify(verifier(), tt.r, []byte(tt.body), signedAt); err != nil {
				t.Error(err)
			}
			wantCode(t, verify(verifier(), tt.r, []byte(tt.body+" "), signedAt), sigv4.InvalidSignature, "does not match")
		})
	}
}

// sdkSigned returns a request that the SDK has signed.
func sdkSigned(t *testing.T, path string) *http.Request {
	t.Helper()
	const body = `{}`
	r := newRequest(t, http.MethodPost, "http://localhost:8000"+path, body,
		"X-Amz-Target", "DynamoDB_20120810.GetItem", "Content-Type", "application/x-amz-json-1.0", "Accept-Encoding", "identity")
	hash := sha256.Sum256([]byte(body))
	creds := aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secret, SessionToken: "session"}
	if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hex.EncodeToString(hash[:]), "dynamodb", "us-west-2", signedAt); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSDK(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/a%20b/ü~*", "/?z=1&a=b+c&a=%2F&empty=", "/?a=1&A=2"} {
		r := sdkSigned(t, path)
		if err := verify(verifier(), r, []byte(`{}`), signedAt); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	replaced := func(from, to string) func(*http.Request, *sigv4.Verifier) {
		return func(r *http.Request, _ *sigv4.Verifier) {
			h := r.Header.Get("Authorization")
			changed := strings.ReplaceAll(h, from, to)
			if changed == h {
				panic("the header holds no " + from)
			}
			r.Header.Set("Authorization", changed)
		}
	}
	set := func(name, value string) func(*http.Request, *sigv4.Verifier) {
		return func(r *http.Request, _ *sigv4.Verifier) { r.Header.Set(name, value) }
	}
	for _, tt := range []struct {
		name          string
		change        func(*http.Request, *sigv4.Verifier)
		code, mention string
	}{
		{"no header", func(r *http.Request, _ *sigv4.Verifier) { r.Header.Del("Authorization") }, sigv4.MissingAuthenticationToken, "access key ID"},
		{"presigned", func(r *http.Request, _ *sigv4.Verifier) {
			r.Header.Del("Authorization")
			r.URL.RawQuery = "X-Amz-Algorithm=AWS4-HMAC-SHA256"
		}, sigv4.IncompleteSignature, "Presigned"},
		{"basic", set("Authorization", "Basic YTpi"), sigv4.MissingAuthenticationToken, "access key ID"},
		{"another algorithm", replaced("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), sigv4.IncompleteSignature, "AWS4-ECDSA"},
		{"no parameters", set("Authorization", "AWS4-HMAC-SHA256"), sigv4.IncompleteSignature, "Credential"},
		{"no credential", replaced("Credential", "Creds"), sigv4.IncompleteSignature, "Credential"},
		{"no signature", replaced("Signature", "Sig"), sigv4.IncompleteSignature, "Signature"},
		{"no signed headers", replaced("SignedHeaders", "Headers"), sigv4.IncompleteSignature, "SignedHeaders"},
		{"short credential", replaced("/aws4_request", ""), sigv4.IncompleteSignature, "exactly 5"},
		{"long credential", replaced("/aws4_request", "/aws4_request/x"), sigv4.IncompleteSignature, "exactly 5"},
		{"credential without a key", replaced(accessKey, ""), sigv4.IncompleteSignature, "exactly 5"},
		{"another terminator", replaced("aws4_request", "aws5_request"), sigv4.InvalidSignature, "aws4_request"},
		{"signed twice", func(r *http.Request, _ *sigv4.Verifier) { r.URL.RawQuery = "X-Amz-Algorithm=AWS4-HMAC-SHA256" }, sigv4.InvalidSignature, "Found both"},
		{"signature without digits", replaced("Signature=", "Signature=x"), sigv4.InvalidSignature, "does not match"},
		{"no date", func(r *http.Request, _ *sigv4.Verifier) { r.Header.Del("X-Amz-Date") }, sigv4.IncompleteSignature, "X-Amz-Date"},
		{"malformed date", set("X-Amz-Date", "2026-01-02T03:04:05Z"), sigv4.IncompleteSignature, "ISO-8601"},
		{"another day", replaced("20260102", "20260103"), sigv4.InvalidSignature, "Date in Credential scope"},
		{"another service", replaced("/dynamodb/", "/s3/"), sigv4.InvalidSignature, "'dynamodb'"},
		{"another region", replaced("us-west-2", "us-west-1"), sigv4.InvalidSignature, "does not match"},
		{"foreign region", func(_ *http.Request, v *sigv4.Verifier) { v.Region = "eu-west-1" }, sigv4.InvalidSignature, "valid region"},
		{"unknown key", replaced(accessKey, "AKIDOTHER"), sigv4.UnrecognizedClient, "security token"},
		{"wrong secret", func(_ *http.Request, v *sigv4.Verifier) { v.Credentials[accessKey] += "x" }, sigv4.InvalidSignature, "does not match"},
		{"wrong signature", replaced("Signature=", "Signature=0"), sigv4.InvalidSignature, "does not match"},
		{"another method", func(r *http.Request, _ *sigv4.Verifier) { r.Method = http.MethodPut }, sigv4.InvalidSignature, "PUT"},
		{"another path", func(r *http.Request, _ *sigv4.Verifier) { r.URL.Path = "/other" }, sigv4.InvalidSignature, "/other"},
		{"another query", func(r *http.Request, _ *sigv4.Verifier) { r.URL.RawQuery = "a=b" }, sigv4.InvalidSignature, "a=b"},
		{"malformed query", func(r *http.Request, _ *sigv4.Verifier) { r.URL.RawQuery = "a=%zz" }, sigv4.InvalidSignature, "query"},
		{"another target", set("X-Amz-Target", "DynamoDB_20120810.DeleteTable"), sigv4.InvalidSignature, "DeleteTable"},
		{"another host", func(r *http.Request, _ *sigv4.Verifier) { r.Host = "elsewhere" }, sigv4.InvalidSignature, "elsewhere"},
		{"unsigned host", replaced("host;", ""), sigv4.InvalidSignature, "'Host'"},
		{"unsigned target", replaced(";x-amz-target", ""), sigv4.InvalidSignature, "'X-Amz-Target'"},
		{"added header", set("X-Amz-Other", "1"), sigv4.InvalidSignature, "'X-Amz-Other'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, r := verifier(), sdkSigned(t, "/")
			tt.change(r, v)
			wantCode(t, verify(v, r, []byte(`{}`), signedAt), tt.code, tt.mention)
		})
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	r := sdkSigned(t, "/")
	for _, tt := range []struct {
		after   time.Duration
		mention string // "" means accepted
	}{
		{0, ""},
		{15 * time.Minute, ""},
		{-15 * time.Minute, ""},
		{15*time.Minute + time.Second, "expired"},
		{-15*time.Minute - time.Second, "not yet current"},
		{365 * 24 * time.Hour, "expired"},
	} {
		err := verify(verifier(), r, []byte(`{}`), signedAt.Add(tt.after).In(time.FixedZone("", 3600)))
		if tt.mention == "" {
			if err != nil {
				t.Errorf("after %v: %v", tt.after, err)
			}
			continue
		}
		wantCode(t, err, sigv4.InvalidSignature, tt.mention)
	}
}

// A Date header replaces a missing X-Amz-Date, and must then be signed.
func TestDateHeader(t *testing.T) {
	t.Parallel()
	r := sdkSigned(t, "/")
	r.Header.Del("X-Amz-Date")
	r.Header.Set("Date", signedAt.Format(http.TimeFormat))
	wantCode(t, verify(verifier(), r, []byte(`{}`), signedAt), sigv4.InvalidSignature, "'Date'")
	r.Header.Set("Authorization", strings.ReplaceAll(r.Header.Get("Authorization"), "x-amz-date", "date"))
	wantCode(t, verify(verifier(), r, []byte(`{}`), signedAt), sigv4.InvalidSignature, "date:Fri, 02 Jan 2026 03:04:05 GMT")
}

func wantCode(tb testing.TB, err error, code, mention string) {
	tb.Helper()
	if e, ok := errors.AsType[*sigv4.Error](err); !ok || e.Code != code || !strings.Contains(e.Message, mention) {
		tb.Errorf("got %v, want %s that mentions %q", err, code, mention)
	}
}

// FuzzVerify: no request causes a panic, and only the signed one is accepted.
func FuzzVerify(f *testing.F) {
	f.Add("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00", "a=b", []byte("{}"))
	f.Add("AWS4-HMAC-SHA256 Credential=////,SignedHeaders=;,Signature=", "%", []byte(nil))
	f.Fuzz(func(t *testing.T, authorization, query string, body []byte) {
		r := newRequest(t, http.MethodPost, "/", "", "Authorization", authorization, "X-Amz-Date", "20260102T030405Z")
		r.URL.RawQuery = query
		if err := verify(verifier(), r, bytes.Clone(body), signedAt); err == nil {
			t.Error("accepted")
		} else if _, ok := errors.AsType[*sigv4.Error](err); !ok {
			t.Errorf("refused with a %T", err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1000)
	r := newRequest(b, http.MethodPost, "http://localhost:8000/", string(body), "X-Amz-Target", "DynamoDB_20120810.GetItem")
	hash := sha256.Sum256(body)
	creds := aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secret}
	if err := v4.NewSigner().SignHTTP(b.Context(), creds, r, hex.EncodeToString(hash[:]), "dynamodb", "us-west-2", signedAt); err != nil {
		b.Fatal(err)
	}
	v := verifier()
	b.ReportAllocs()
	for b.Loop() {
		if err := verify(v, r, body, signedAt); err != nil {
			b.Fatal(err)
		}
	}
}
