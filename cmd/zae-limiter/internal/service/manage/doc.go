// Package manage does what readers and operators ask of a namespace, and has the documents with which
// it is answered. The commands print these documents, and the service sends them (ADR 068), so both have
// one form, whose rules are in docs/json.md. The package knows neither flags nor HTTP.
package manage

import (
	stdjson "encoding/json"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Encode writes a document as JSON: as encoding/json does, but an empty list is [] and never null.
func Encode(w io.Writer, v any) error {
	return json.MarshalWrite(w, v, json.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), json.FormatNilSliceAsNull(false), json.FormatNilMapAsNull(false),
		json.WithMarshalers(json.MarshalFunc(func(n stdjson.Number) ([]byte, error) { return []byte(n), nil }))))
}

// orNull is nil for a zero value, which is not known or not there.
func orNull[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}
