package wire

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The readers below are chosen by the type of a field, at any depth of an input. All but
// unmarshalNames are needed: the json package cannot know the union of attribute values, nor that
// times are numbers here. Names are matched with their case, and a name that appears twice is an
// error; both are defaults of the package, unlike in encoding/json.
var options = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(unmarshalItem),
	json.UnmarshalFromFunc(unmarshalValue),
	json.UnmarshalFromFunc(unmarshalNames),
	json.UnmarshalFromFunc(unmarshalTime),
))

// Decode reads the body of a request into an input. Input must point to the zero value of one of
// the SDK's input structures. The result does not refer to the body. Errors are of type [*Error].
//
// An error of a value can come before the end of the body has been read. AWS answers to a body that
// is not JSON as a whole before it looks at any value. So the body is read a second time then. Only
// failed requests pay for it.
func Decode(body []byte, input any) error {
	err := json.Unmarshal(body, input, options)
	if err == nil {
		return nil
	}
	if invalid, ok := errors.AsType[*Error](err); ok {
		// Report invalid JSON first: the rest of the body has not been checked yet.
		var ignored struct{}
		if err := json.Unmarshal(body, &ignored); err != nil {
			return malformed(err)
		}
		return invalid
	}
	if mismatch, ok := errors.AsType[*json.SemanticError](err); ok {
		return mismatched(mismatch)
	}
	return malformed(err)
}

// malformed returns the error for a body that is not JSON.
func malformed(err error) error {
	return &Error{SerializationException, "The body is not valid JSON: " + strings.TrimPrefix(err.Error(), "jsontext: ")}
}

// mismatched returns the error for a value of the wrong type for its member.
func mismatched(e *json.SemanticError) error {
	if e.GoType == nil {
		return &Error{SerializationException, e.Error()}
	}
	return mismatch(e.JSONKind, e.GoType.String(), string(e.JSONPointer))
}

// mismatch names the place as a JSON pointer, so that a client finds it in a large body.
func mismatch(got jsontext.Kind, want, at string) error {
	return &Error{SerializationException, strings.ToUpper(got.String()) + " value cannot be converted to " + want + " at " + at}
}

// unmarshalNames reads a map of strings without reflection, which costs the most in a request
// with expressions.
func unmarshalNames(d *jsontext.Decoder, into *map[string]string) error {
	names := map[string]string{}
	null, err := members(d, func(name string) error {
		value, present, err := readString(d)
		if present {
			names[name] = value
		}
		return err
	})
	if err != nil || null {
		return err
	}
	*into = names
	return nil
}

// unmarshalItem reads a member that is a map of attribute values. null leaves it nil, as if it were
// absent.
func unmarshalItem(d *jsontext.Decoder, into *map[string]types.AttributeValue) error {
	item, err := readItem(d, 0)
	*into = item
	return err
}

// unmarshalValue reads a member that is a single attribute value, or an element of a list of them.
func unmarshalValue(d *jsontext.Decoder, into *types.AttributeValue) error {
	v, err := readValue(d, 0)
	*into = v
	return err
}

// unmarshalTime reads seconds since 1970, to the millisecond. The limit on the year comes before
// the conversion: a float that is too large for an int64 converts to an arbitrary one.
func unmarshalTime(d *jsontext.Decoder, into *time.Time) error {
	const lastYear = 253_402_300_799 // the last second of the year 9999
	t, err := d.ReadToken()
	if err != nil {
		return err
	}
	if t.Kind() != '0' {
		return mismatch(t.Kind(), "a timestamp", string(d.StackPointer()))
	}
	seconds, err := t.Float()
	if err != nil || math.Abs(seconds) > lastYear {
		return mismatch(t.Kind(), "a timestamp", string(d.StackPointer()))
	}
	*into = time.UnixMilli(int64(math.Round(seconds * perSecond))).UTC()
	return nil
}

// members calls read for each member of an object, with the decoder before the member's value.
// For null it makes no calls.
//
// read must read exactly one value. Invalid JSON has no next kind, so the loop goes on to
// ReadToken, which returns the error.
func members(d *jsontext.Decoder, read func(name string) error) (null bool, err error) {
	if null, err = enter(d, '{'); null || err != nil {
		return null, err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return false, err
		}
		if err := read(name.String()); err != nil {
			return false, err
		}
	}
	_, err = d.ReadToken()
	return false, err
}

// elements calls read for each element of an array, with the decoder before it. For null it makes
// no calls.
func elements(d *jsontext.Decoder, read func() error) (null bool, err error) {
	if null, err = enter(d, '['); null || err != nil {
		return null, err
	}
	for d.PeekKind() != ']' {
		if err := read(); err != nil {
			return false, err
		}
	}
	_, err = d.ReadToken()
	return false, err
}

// enter reads the token that opens an object or an array, or null.
func enter(d *jsontext.Decoder, want jsontext.Kind) (null bool, err error) {
	t, err := d.ReadToken()
	if err != nil {
		return false, err
	}
	switch t.Kind() {
	case want:
		return false, nil
	case 'n':
		return true, nil
	default:
		name := "an object"
		if want == '[' {
			name = "an array"
		}
		return false, mismatch(t.Kind(), name, string(d.StackPointer()))
	}
}

// readString reads a string. null is not present.
func readString(d *jsontext.Decoder) (s string, present bool, err error) {
	t, err := d.ReadToken()
	if err != nil {
		return "", false, err
	}
	switch t.Kind() {
	case '"':
		return t.String(), true, nil
	case 'n':
		return "", false, nil
	default:
		return "", false, mismatch(t.Kind(), "a string", string(d.StackPointer()))
	}
}
