package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A Key reads the name of an entity or a resource from a request. An error refuses the
// request: with the status of a [*RequestError], otherwise as [StatusOf] says.
//
// The name must be valid, see [limiter.Request]. [limiter.EncodeName] makes a valid entity
// of any name. The keys of this package encode what they read.
type Key func(*http.Request) (string, error)

var (
	// ErrNoKey says that a request has nothing that a [Key] could read. [FirstOf] then tries the
	// next key.
	ErrNoKey = errors.New("the request does not say who sends it")
	// ErrHeld says that the upstream has asked for a pause. See [HeldError].
	ErrHeld = errors.New("the upstream has asked for a pause")
)

// A RequestError is a request that a [Key] or Options.Cost does not accept.
type RequestError struct {
	// Status is the status code of the answer. Default 400.
	Status int
	// Reason is part of the answer. It is for whoever sent the request.
	Reason string
	// Missing says that the request lacks a key: the error is [ErrNoKey].
	Missing bool
}

// Error returns the reason.
func (e *RequestError) Error() string { return e.Reason }

// Is reports whether target is [ErrNoKey] and the request lacks a key.
func (e *RequestError) Is(target error) bool { return target == ErrNoKey && e.Missing }

// Constant is the same name for every request.
func Constant(name string) Key {
	return func(*http.Request) (string, error) { return name, nil }
}

// Header is the value of a header field, encoded. A request without it has no key, and is
// answered 400. So is a request with several lines of the field: one of them may be the
// client's.
//
// Use it for fields that a gateway in front of the server sets and strips from requests.
// Otherwise the client chooses whom its requests count against.
func Header(name string) Key {
	missing := &RequestError{Reason: "the header field " + name + " is missing", Missing: true}
	return func(r *http.Request) (string, error) {
		value, err := only(r, name)
		if err != nil {
			return "", err
		}
		if value == "" {
			return "", missing
		}
		return limiter.EncodeName(value), nil
	}
}

// only is the value of a header field that may have one line, "" if it has none. Of several
// lines, the server and whoever authenticated the request might read different ones.
func only(r *http.Request, name string) (value string, err error) {
	switch lines := r.Header.Values(name); len(lines) {
	case 0:
		return "", nil
	case 1:
		return lines[0], nil
	default:
		return "", &RequestError{Reason: "the header field " + name + " is given more than once"}
	}
}

// errNoAPIKey is answered 401.
var errNoAPIKey = &RequestError{
	Status: http.StatusUnauthorized, Missing: true,
	Reason: "no API key: send Authorization: Bearer KEY, or X-API-Key: KEY",
}

// APIKey is [KeyName] of the API key in "Authorization: Bearer KEY" or in "X-API-Key: KEY".
// A request without one has no key, and is answered 401. Several lines of one of these fields
// are answered 400.
//
// APIKey does not check the API key: authenticate first. Otherwise a client gets a new, full
// bucket with every key that it makes up. If a request has both fields, the bearer token
// counts: authenticate that one, or refuse such requests.
func APIKey() Key {
	return func(r *http.Request) (string, error) {
		authorization, err := only(r, "Authorization")
		if err != nil {
			return "", err
		}
		apiKey, err := only(r, "X-API-Key")
		if err != nil {
			return "", err
		}
		scheme, key, ok := strings.Cut(authorization, " ")
		if key = strings.TrimLeft(key, " "); ok && key != "" && strings.EqualFold(scheme, "Bearer") {
			return KeyName(key), nil
		}
		if apiKey != "" {
			return KeyName(apiKey), nil
		}
		return "", errNoAPIKey
	}
}

// KeyName is the entity of an API key: "key-" and the first 128 bits of the key's SHA-256 in
// hexadecimal digits. So neither tables nor logs have the key itself. Use KeyName to
// configure limits of one API key.
func KeyName(apiKey string) string {
	const prefix = "key-"
	sum := sha256.Sum256([]byte(apiKey))
	name := [len(prefix) + len(sum)]byte{} // half of the sum takes two digits a byte
	copy(name[:], prefix)
	hex.Encode(name[len(prefix):], sum[:len(sum)/2])
	return string(name[:])
}

// Claim is a claim of a token, encoded: "sub" for instance. The function verified returns
// the claims of the token that the server has verified for this request, and false if it
// has verified none. Usually it takes them from the request's context, where an
// authenticating middleware has put them. A request without the claim has no key, and is
// answered 401.
//
// This package parses no tokens. Anybody can write any claim into a token that nobody
// verifies.
func Claim(name string, verified func(*http.Request) (claims map[string]any, ok bool)) Key {
	missing := &RequestError{
		Status: http.StatusUnauthorized, Missing: true, Reason: "no verified token with the claim " + name,
	}
	return func(r *http.Request) (string, error) {
		claims, ok := verified(r)
		if !ok {
			return "", missing
		}
		value, ok := claims[name].(string)
		if !ok || value == "" {
			return "", missing
		}
		return limiter.EncodeName(value), nil
	}
}

// FirstOf is the first key that the request has. The last key decides about requests that
// have none of them.
func FirstOf(first Key, others ...Key) Key {
	return func(r *http.Request) (string, error) {
		name, err := first(r)
		for _, key := range others {
			if !errors.Is(err, ErrNoKey) {
				break
			}
			name, err = key(r)
		}
		return name, err
	}
}
