package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// raw is JSON that is decoded later.
type raw = jsontext.Value

// read reads the body of a call. It returns a problem if the call is not one.
//
// The media type must be that of JSON: a page of another site can make a browser send a form or a
// plain text, but no JSON without asking first.
//
// An idempotency key is refused, and not ignored: a client that relies on one would be charged
// twice. To keep it, an acquire would have to be a transaction with the record of the key, which
// costs four write units where a take costs one (ADR 056). A lease is such a record: calls about one
// are answered as the first time, whatever the key.
func (h *handler) read(w http.ResponseWriter, r *http.Request, most int64, into any) *Problem {
	if form, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || form != "application/json" {
		return problem(http.StatusUnsupportedMediaType, "send application/json, and say so in Content-Type")
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return problem(http.StatusUnsupportedMediaType, "send the body without a content coding")
	}
	if len(r.Header.Values("Idempotency-Key")) > 0 && !strings.HasPrefix(r.URL.Path, leases) && !strings.HasPrefix(r.URL.Path, adminPath) {
		p := problem(http.StatusBadRequest, "Idempotency-Key is not supported: leave it out, and take a call that is sent twice for two calls")
		p.Field = "Idempotency-Key"
		return p
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return unread(err, most)
	}
	return decode(body, into)
}

// unread is the problem of a body that could not be read.
func unread(err error, most int64) *Problem {
	tooLarge := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &tooLarge):
		return problem(http.StatusRequestEntityTooLarge, "send at most "+strconv.FormatInt(most, 10)+" bytes")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem(http.StatusRequestTimeout, "send the body within "+BodyTime.String())
	}
	return problem(http.StatusBadRequest, "the body ended early")
}

// decode decodes a JSON text. Members that the type does not have, and names that an object has
// twice, are mistakes: a client that misspells consume must not be admitted for nothing.
func decode(text []byte, into any) *Problem {
	err := json.Unmarshal(text, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	semantic, syntactic := (*json.SemanticError)(nil), (*jsontext.SyntacticError)(nil)
	p := problem(http.StatusBadRequest, "the body is not JSON")
	switch {
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		p.Field, p.Detail = nameOf(semantic.JSONPointer), "there is no such field: GET /v1/openapi.json has all"
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntactic):
		p.Field, p.Detail = nameOf(syntactic.JSONPointer), "the field is there twice: give it once"
	case errors.As(err, &semantic):
		p.Field, p.Detail = nameOf(semantic.JSONPointer), "the field does not take this JSON "+semantic.JSONKind.String()+": GET /v1/openapi.json has its type"
	case errors.As(err, &syntactic):
		p.Detail = "the body is not JSON after byte " + strconv.FormatInt(syntactic.ByteOffset, 10) + ": send one JSON object in UTF-8"
	}
	return p
}

// nameOf is how a problem names a field. A client has chosen the names: each is cut where no valid one is as long,
// so that none is a lease, and so are all of them together.
func nameOf(at jsontext.Pointer) string {
	const longest, longestOfAll = 64, 100
	cut := func(name string, most int) string {
		if len(name) > most {
			return strings.ToValidUTF8(name[:most], "") + "…"
		}
		return name
	}
	var names []string
	for name := range at.Tokens() {
		names = append(names, cut(name, longest))
	}
	return cut(strings.Join(names, "."), longestOfAll)
}
