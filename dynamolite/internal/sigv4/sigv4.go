// Package sigv4 verifies requests that are signed with AWS Signature Version 4 in their
// Authorization header, as every SDK signs requests to DynamoDB.
//
// A signature covers the method, the path, the query, the body and the headers that the request
// lists as signed. The package demands that these include at least the host and every X-Amz-
// header. Otherwise they could be changed in transit: the operation is in X-Amz-Target.
//
// The existing Go verifiers belong to object stores, with their streaming and presigned forms, or
// are not maintained. The part that DynamoDB needs is short.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error codes, as in the API.
const (
	MissingAuthenticationToken = "MissingAuthenticationTokenException" // the request is not signed, or not as AWS signs
	IncompleteSignature        = "IncompleteSignatureException"        // the Authorization header is incomplete
	UnrecognizedClient         = "UnrecognizedClientException"         // the access key is unknown
	InvalidSignature           = "InvalidSignatureException"           // the signature does not match the request, or is too old
)

// Error is the reason that a request was refused: one of the codes above, and what to do about
// it.
type Error struct {
	Code    string
	Message string
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	timeFormat = "20060102T150405Z"
	dateDigits = len("20060102")
	// maxSkew is the largest difference between the time in a request and the verifier's time, in
	// either direction. It bounds for how long a request that someone has recorded can be sent
	// again.
	maxSkew = 15 * time.Minute
)

// Verifier holds the access keys that may sign. It is not changed after its first use.
type Verifier struct {
	Credentials map[string]string // secret access keys by access key ID
	Service     string            // the only service that signatures may name
	Region      string            // the only region that signatures may name; "" is any
}

// authorization is a parsed Authorization header, with the time at which the request was signed. It
// is what the client says: nothing in it is verified.
type authorization struct {
	at                               time.Time
	accessKey, date, region, service string
	signed                           []string // in lower case, as listed
	signature                        string
}

// Signed checks that a request has a signature in the form that AWS demands, of whatever key. Errors
// are of type [*Error].
//
// It is for a server without keys. A client that signs nothing would work there and fail on AWS, so
// it should fail at once.
func Signed(r *http.Request) error {
	_, err := parse(r)
	return err
}

// Claim is a signature that has passed every check that does not need the request's body.
//
// Checking is in two steps because of what the server has to hold in between. The naive design
// checks all at once, with the body in memory. Any stranger could then fill the memory with bodies:
//
//	header ──▶ Claim ──▶ refused: a stranger, an old signature, another region
//	             │
//	             ▼
//	           body, in bounded memory ──▶ its hash ──▶ Verify
//
// A Claim proves nothing yet: the access key is not secret. See "Bounds" in docs/engine.md for what
// a client with a claim may use.
type Claim struct {
	request       *http.Request
	authorization *authorization
	stamp, secret string
}

// Claim checks everything about a request's signature that does not need its body. There
// must be a signature of a known access key, for this service and region. It must be of
// the time now, and cover all headers that matter. A server can thus refuse a stranger
// before it reads a body. Errors are of type [*Error].
//
// The order is that of the errors: scope, time, signed headers, key. The key comes last, so a
// request that is wrong for every key says nothing about which keys exist.
func (v *Verifier) Claim(r *http.Request, now time.Time) (*Claim, error) {
	a, err := parse(r)
	if err != nil {
		return nil, err
	}
	stamp := a.at.Format(timeFormat)
	if err := v.checkScope(a, stamp); err != nil {
		return nil, err
	}
	if err := checkSkew(a.at, now); err != nil {
		return nil, err
	}
	if err := checkSigned(r, a.signed); err != nil {
		return nil, err
	}
	secret, ok := v.Credentials[a.accessKey]
	if !ok {
		return nil, &Error{UnrecognizedClient, "The security token included in the request is invalid."}
	}
	return &Claim{request: r, authorization: a, stamp: stamp, secret: secret}, nil
}

// Verify checks the signature itself, given the SHA-256 hash of the body. Errors are of type [*Error].
//
// hmac.Equal takes the same time wherever the two differ. A plain comparison ends at the first
// difference, and its time would tell a guesser how much of a guess is right. As on AWS, the error
// has the canonical request, which the client needs to find its mistake. It has nothing that the
// client did not send.
func (c *Claim) Verify(bodyHash []byte) error {
	canonical, err := canonicalRequest(c.request, c.authorization.signed, bodyHash)
	if err != nil {
		return err
	}
	want := sign(c.secret, c.authorization, c.stamp, canonical)
	if !hmac.Equal([]byte(want), []byte(c.authorization.signature)) {
		return &Error{InvalidSignature, mismatch + " The canonical string for this request should have been\n'" + canonical + "'"}
	}
	return nil
}

const mismatch = "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method."

// parse parses the Authorization header and the date of a request. DynamoDB takes a header that
// does not begin like a signature for none.
//
// Parts are separated by commas, with or without a space. An unknown part is ignored. All that is
// missing is reported at once, as on AWS.
func parse(r *http.Request) (*authorization, error) {
	header := r.Header.Get("Authorization")
	presigned := strings.Contains(r.URL.RawQuery, "X-Amz-Algorithm") || strings.Contains(r.URL.RawQuery, "X-Amz-Signature")
	kind, rest, _ := strings.Cut(header, " ")
	switch {
	case header != "" && presigned:
		return nil, invalid("Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.")
	case presigned:
		return nil, incomplete("Presigned requests are not supported: sign the request in its Authorization header")
	case !strings.HasPrefix(header, "AWS4-"):
		return nil, &Error{MissingAuthenticationToken, "Request must contain either a valid (registered) AWS access key ID or X.509 certificate."}
	case kind != algorithm:
		return nil, incomplete("Unsupported AWS 'algorithm': '" + kind + "', want " + algorithm + ".")
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = value
	}
	var lacks []string
	for _, name := range []string{"Credential", "Signature", "SignedHeaders"} {
		if parts[name] == "" {
			lacks = append(lacks, "Authorization header requires '"+name+"' parameter.")
		}
	}
	if r.Header.Get("X-Amz-Date") == "" && r.Header.Get("Date") == "" {
		lacks = append(lacks, "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")
	}
	if lacks != nil {
		return nil, incomplete(strings.Join(lacks, " ") + " Authorization=" + header)
	}
	return parseParts(r, parts)
}

// parseParts parses the parts of an Authorization header that has all of them.
//
// A signature of the wrong length cannot match. It is refused before the server reads a body for
// it.
func parseParts(r *http.Request, parts map[string]string) (*authorization, error) {
	at, err := requestTime(r)
	if err != nil {
		return nil, err
	}
	scope := strings.Split(parts["Credential"], "/")
	const scopeParts = 5
	if len(scope) != scopeParts || slices.Contains(scope, "") {
		return nil, incomplete("Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '" + parts["Credential"] + "'")
	}
	if scope[scopeParts-1] != terminator {
		return nil, invalid("Credential should be scoped with a valid terminator: '" + terminator + "', not '" + scope[scopeParts-1] + "'.")
	}
	if sum, err := hex.DecodeString(parts["Signature"]); err != nil || len(sum) != sha256.Size {
		return nil, invalid(mismatch)
	}
	return &authorization{
		at: at, accessKey: scope[0], date: scope[1], region: scope[2], service: scope[3],
		signed:    strings.Split(strings.ToLower(parts["SignedHeaders"]), ";"),
		signature: parts["Signature"],
	}, nil
}

func incomplete(message string) error { return &Error{IncompleteSignature, message} }
func invalid(message string) error    { return &Error{InvalidSignature, message} }

// requestTime returns the time at which the request was signed. X-Amz-Date has precedence over
// Date: browsers and proxies may set the latter.
func requestTime(r *http.Request) (time.Time, error) {
	if stamp := r.Header.Get("X-Amz-Date"); stamp != "" {
		at, err := time.Parse(timeFormat, stamp)
		if err != nil {
			return at, incomplete("Date must be in ISO-8601 'basic format'. Got '" + stamp + "'.")
		}
		return at, nil
	}
	at, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		return at, incomplete("Date must be in ISO-8601 'basic format'. Got '" + r.Header.Get("Date") + "'.")
	}
	return at.UTC(), nil
}

// checkScope compares the scope that the client names with the server's. The day in it must be that
// of the request's time. The key for signing is derived from the day, and must not sign for another
// one.
func (v *Verifier) checkScope(a *authorization, stamp string) error {
	switch {
	case a.date != stamp[:dateDigits]:
		return invalid("Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '" + a.date + "' != '" + stamp[:dateDigits] + "'.")
	case v.Region != "" && a.region != v.Region:
		return invalid("Credential should be scoped to a valid region, not '" + a.region + "'.")
	case a.service != v.Service:
		return invalid("Credential should be scoped to correct service: '" + v.Service + "'.")
	}
	return nil
}

// checkSkew demands that the request was signed about now. A signature from the future would be
// valid for longer than one from now.
func checkSkew(at, now time.Time) error {
	stamp := at.Format(timeFormat)
	switch skew := now.Sub(at); {
	case skew > maxSkew:
		return invalid("Signature expired: " + stamp + " is now earlier than " + now.Add(-maxSkew).UTC().Format(timeFormat) + ". Check the clock of the client.")
	case skew < -maxSkew:
		return invalid("Signature not yet current: " + stamp + " is still later than " + now.Add(maxSkew).UTC().Format(timeFormat) + ". Check the clock of the client.")
	}
	return nil
}

// checkSigned demands that the host, the date and every X-Amz- header are signed. Date counts only
// if it is the time of the request.
func checkSigned(r *http.Request, signed []string) error {
	if !slices.Contains(signed, "host") {
		return invalid("'Host' must be a 'SignedHeader' in the AWS Authorization.")
	}
	for name := range r.Header {
		must := strings.HasPrefix(name, "X-Amz-") || name == "Date" && r.Header.Get("X-Amz-Date") == ""
		if must && !slices.Contains(signed, strings.ToLower(name)) {
			return invalid("'" + name + "' must be a 'SignedHeader' in the AWS Authorization.")
		}
	}
	return nil
}

// canonicalRequest returns the text that is signed.
//
// The client computed the same text, so each detail must be as AWS specifies it ("Create a signed
// AWS API request"). The path is escaped a second time, as for every service but S3. Headers come
// in the order in which the client lists them: sorting is the client's duty, and another order
// gives another signature.
//
//	method
//	path
//	query
//	name:value        for each signed header
//
//	names;of;them
//	hash of the body
func canonicalRequest(r *http.Request, signed []string, bodyHash []byte) (string, error) {
	query, err := canonicalQuery(r.URL.RawQuery)
	if err != nil {
		return "", err
	}
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	var b strings.Builder
	b.WriteString(r.Method + "\n" + escape(path, true) + "\n" + query + "\n")
	for _, name := range signed {
		b.WriteString(name + ":" + canonicalHeader(r, name) + "\n")
	}
	b.WriteString("\n" + strings.Join(signed, ";") + "\n" + hex.EncodeToString(bodyHash))
	return b.String(), nil
}

// canonicalHeader returns the value of a header, with each run of spaces as one. The standard
// library removes the host from the headers.
//
// A client may sign content-length, which the library also keeps apart. Several values of one
// header are joined by commas.
func canonicalHeader(r *http.Request, name string) string {
	values := r.Header[http.CanonicalHeaderKey(name)]
	switch {
	case name == "host":
		values = []string{r.Host}
	case name == "content-length" && len(values) == 0:
		values = []string{strconv.FormatInt(r.ContentLength, 10)}
	}
	tidy := make([]string, len(values))
	for i, v := range values {
		tidy[i] = strings.Join(strings.Fields(v), " ")
	}
	return strings.Join(tidy, ",")
}

// canonicalQuery sorts the parameters by name and then by value, both in escaped form. A map has no
// order, so sorting also makes the text the same at every call.
func canonicalQuery(raw string) (string, error) {
	if raw == "" {
		return "", nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return "", invalid("The query string cannot be read: " + err.Error())
	}
	var parameters []string
	for name, vs := range values {
		for _, v := range vs {
			parameters = append(parameters, escape(name, false)+"="+escape(v, false))
		}
	}
	slices.Sort(parameters)
	return strings.Join(parameters, "&"), nil
}

// escape escapes all but the unreserved characters of RFC 3986. It keeps slashes if keepSlash is
// set. url.QueryEscape would write a space as "+", and url.PathEscape leaves characters that AWS
// escapes.
func escape(s string, keepSlash bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~', keepSlash && c == '/':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&0xf]})
		}
	}
	return b.String()
}

// sign returns the expected signature of the request, in hexadecimal. The key is derived step by
// step from the secret and the scope. So a derived key that leaks signs for one day, one region and
// one service only.
func sign(secret string, a *authorization, stamp, canonical string) string {
	scope := strings.Join([]string{a.date, a.region, a.service, terminator}, "/")
	hash := sha256.Sum256([]byte(canonical))
	key := []byte("AWS4" + secret)
	for _, part := range []string{a.date, a.region, a.service, terminator} {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, algorithm+"\n"+stamp+"\n"+scope+"\n"+hex.EncodeToString(hash[:])))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
