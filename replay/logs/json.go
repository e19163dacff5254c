package logs

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonLine finds fields of a JSON object. A column is the path of a field.
type jsonLine struct {
	root    *field
	plain   plainLine
	r       *bytes.Reader
	d       *jsontext.Decoder
	unquote []byte // memory of the strings with escapes of one line
}

// A field is a wanted field, or one that has wanted fields in it.
type field struct {
	name   string
	place  int // among the values, or -1
	fields []*field
}

func newJSON(columns []string) *jsonLine {
	j := &jsonLine{root: &field{place: -1}, r: bytes.NewReader(nil)}
	for i, column := range columns {
		f := j.root
		for name := range strings.SplitSeq(column, ".") {
			f = f.child(name)
		}
		f.place = i
	}
	j.d = jsontext.NewDecoder(j.r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return j
}

func (f *field) child(name string) *field {
	if i := slices.IndexFunc(f.fields, func(c *field) bool { return c.name == name }); i >= 0 {
		return f.fields[i]
	}
	c := &field{name: name, place: -1}
	f.fields = append(f.fields, c)
	return c
}

// find finds a field by the name as it is written, quotes included.
func (f *field) find(quoted []byte) *field {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, quoted) // the decoder has checked it
	}
	return f.named(name)
}

// named is the wanted field of a name, nil if there is none.
func (f *field) named(name []byte) *field {
	if f == nil {
		return nil
	}
	for _, c := range f.fields {
		if c.name == string(name) {
			return c
		}
	}
	return nil
}

var errNoObject = &lineError{"it is not a JSON object"}

func (j *jsonLine) split(line []byte, values [][]byte) error {
	if j.plain.split(j.root, line, values) {
		return nil
	}
	clear(values)
	return j.decode(line, values)
}

// decode reads any line.
func (j *jsonLine) decode(line []byte, values [][]byte) error {
	j.r.Reset(line)
	j.d.Reset(j.r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	j.unquote = j.unquote[:0]
	if j.d.PeekKind() != '{' {
		return errNoObject
	}
	if err := j.object(j.root, line, values); err != nil {
		return &lineError{"it is not JSON: " + err.Error()}
	}
	if len(bytes.TrimSpace(line[j.d.InputOffset():])) > 0 {
		return &lineError{"there is text after the JSON object"}
	}
	return nil
}

// object reads an object and notes its wanted fields.
func (j *jsonLine) object(f *field, line []byte, values [][]byte) error {
	if _, err := j.d.ReadToken(); err != nil {
		return err
	}
	for j.d.PeekKind() != '}' {
		name, err := j.d.ReadValue()
		if err != nil {
			return err
		}
		wanted := f.find(name)
		switch {
		case wanted == nil:
			err = j.d.SkipValue()
		case len(wanted.fields) > 0 && j.d.PeekKind() == '{':
			err = j.object(wanted, line, values)
		default:
			err = j.value(wanted, line, values)
		}
		if err != nil {
			return err
		}
	}
	_, err := j.d.ReadToken()
	return err
}

// value notes the text of a string, or a number as it is written. It leaves out null, as
// if there were no field.
func (j *jsonLine) value(f *field, line []byte, values [][]byte) error {
	raw, err := j.d.ReadValue()
	if err != nil || f.place < 0 || raw[0] == 'n' {
		return err
	}
	end := int(j.d.InputOffset())
	text := line[end-len(raw) : end] // the decoder's own memory does not last
	if text[0] != '"' {
		values[f.place] = text
		return nil
	}
	if bytes.IndexByte(text, '\\') < 0 {
		values[f.place] = text[1 : len(text)-1]
		return nil
	}
	from := len(j.unquote)
	j.unquote, err = jsontext.AppendUnquote(j.unquote, text)
	values[f.place] = j.unquote[from:]
	return err
}
