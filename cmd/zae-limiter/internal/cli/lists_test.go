package cli_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// sample is a value of a type. Its pointers point to something, and its lists and maps have one
// element, down to a depth; below it, all are nil.
func sample(t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	switch t {
	case reflect.TypeFor[json.Number]():
		v.SetString("0")
		return v
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte("{}"))
		return v
	}
	switch t.Kind() {
	case reflect.Pointer:
		if depth >= 0 {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(sample(t.Elem(), depth-1))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			// A part that was not read has nothing else.
			if f := t.Field(i); f.IsExported() && (f.Name != "Problem" || !strings.HasPrefix(t.Name(), "Part[")) {
				v.Field(i).Set(sample(f.Type, depth))
			}
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.Append(v, sample(t.Elem(), depth-1)))
		}
	case reflect.Map:
		if depth > 0 {
			v.Set(reflect.MakeMap(t))
			v.SetMapIndex(sample(t.Key(), 0), sample(t.Elem(), depth-1))
		}
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(sample(t.Elem(), depth))
		}
	default:
	}
	return v
}

// nulls are the places where a document has null, but its schema says a list or an object.
func nulls(err error) (places []string) {
	wrong, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil
	}
	if of, ok := wrong.ErrorKind.(*kind.Type); ok && of.Got == "null" && !slices.Contains(of.Want, "string") {
		places = append(places, strings.Join(wrong.InstanceLocation, "."))
	}
	for _, cause := range wrong.Causes {
		places = append(places, nulls(cause)...)
	}
	return places
}

// No list of any output is null, however deep it lies and whoever encodes it.
func TestNoListIsNull(t *testing.T) {
	t.Parallel()
	const deepest = 8
	for command, types := range schemaTypes() {
		for _, of := range types {
			for depth := range deepest {
				var out strings.Builder
				a := &app.App{Stdout: &out, Flags: app.Flags{Output: app.OutputJSON}}
				if err := a.Print(sample(of, depth).Interface(), nil); err != nil {
					t.Fatalf("%s: %v: %v", command, of, err)
				}
				for _, place := range nulls(validate(command, []byte(out.String()))) {
					t.Errorf("%s: %s of %v is null", command, place, of)
				}
			}
		}
	}
}
