package logs

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonLine finds fields of a JSON object. A column is a key, or the path to one.
type jsonLine struct {
	root    *field
	plain   plainLine
	r       *bytes.Reader
	d       *jsontext.Decoder
	pass    int64  // of the line under way
	unquote []byte // memory of the strings with escapes, and of the lists, of one line
}

// A field is a wanted field, or one that has wanted fields in it.
type field struct {
	name   string
	to     []destination
	fields []*field
	seen   int64 // the pass in which it was met last
}

func newJSON(columns []string) *jsonLine {
	j := &jsonLine{root: &field{}, r: bytes.NewReader(nil)}
	for place, column := range columns {
		to := destination{place: place}
		j.root.add(column, &to)
		if list, n, ok := indexed(column); ok {
			to.part = item(n)
			j.root.add(list, &to)
		}
	}
	j.d = jsontext.NewDecoder(j.r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return j
}

// add adds all fields that a path may mean, since a key may have dots: the longest keys
// first, which get the lowest ranks.
func (f *field) add(path string, to *destination) {
	to.rank++
	leaf := f.child(path)
	leaf.to = append(leaf.to, *to)
	for i := strings.LastIndexByte(path, '.'); i >= 0; i = strings.LastIndexByte(path[:i], '.') {
		f.child(path[:i]).add(path[i+1:], to)
	}
}

func (f *field) child(name string) *field {
	if i := slices.IndexFunc(f.fields, func(c *field) bool { return c.name == name }); i >= 0 {
		return f.fields[i]
	}
	c := &field{name: name}
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

// isTwice reports whether f was met in this pass already, and notes that it was.
func (f *field) isTwice(pass int64) bool {
	if f == nil {
		return false
	}
	met := f.seen == pass
	f.seen = pass
	return met
}

var (
	errNoObject = &lineError{problem: "it is not a JSON object"}
	errAfter    = &lineError{problem: "there is text after the JSON object"}
)

func (j *jsonLine) split(line []byte, values []value) error {
	j.pass++
	if j.plain.split(j.root, j.pass, line, values) {
		return nil
	}
	clear(values)
	return j.decode(line, values)
}

// decode reads any line.
func (j *jsonLine) decode(line []byte, values []value) error {
	j.pass++
	j.r.Reset(line)
	j.d.Reset(j.r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	j.unquote = j.unquote[:0]
	if j.d.PeekKind() != '{' {
		return errNoObject
	}
	if err := j.object(j.root, line, values); err != nil {
		if twice, ok := errors.AsType[*lineError](err); ok {
			return twice
		}
		return &lineError{problem: "it is not JSON", detail: err.Error()}
	}
	if len(bytes.TrimSpace(line[j.d.InputOffset():])) > 0 {
		return errAfter
	}
	return nil
}

// object reads an object and notes its wanted fields.
func (j *jsonLine) object(f *field, line []byte, values []value) error {
	if _, err := j.d.ReadToken(); err != nil {
		return err
	}
	for j.d.PeekKind() != '}' {
		name, err := j.d.ReadValue()
		if err != nil {
			return err
		}
		wanted := f.find(name)
		if wanted.isTwice(j.pass) {
			return &lineError{problem: "the key " + wanted.name + " is there twice"}
		}
		switch {
		case wanted == nil:
			err = j.d.SkipValue()
		case len(wanted.fields) > 0 && j.d.PeekKind() == '{':
			wanted.refuse(values, "an object")
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
func (j *jsonLine) value(f *field, line []byte, values []value) error {
	raw, err := j.d.ReadValue()
	if err != nil || len(f.to) == 0 {
		return err
	}
	end := int(j.d.InputOffset())
	text := line[end-len(raw) : end] // the decoder's own memory does not last
	switch kind := text[0]; kind {
	case 'n':
	case 't', 'f':
		f.refuse(values, string(text))
	case '{':
		f.refuse(values, "an object")
	case '[':
		return j.list(f, text, values)
	default:
		text, err = j.text(text)
		f.put(values, text)
	}
	return err
}

// text is the text of a string, or a number as it is written.
func (j *jsonLine) text(raw []byte) ([]byte, error) {
	if raw[0] != '"' {
		return raw, nil
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	from := len(j.unquote)
	var err error
	j.unquote, err = jsontext.AppendUnquote(j.unquote, raw)
	return j.unquote[from:], err
}

// list notes the value of an array with one, or one of several values.
func (j *jsonLine) list(f *field, raw []byte, values []value) error {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	var joined []byte
	n := 0
	for ; d.PeekKind() != ']'; n++ {
		one, err := d.ReadValue()
		if err != nil {
			return err
		}
		if kind := one.Kind(); kind != '"' && kind != '0' {
			f.refuse(values, "an array with other than texts and numbers")
			return nil
		}
		text, err := j.text(bytes.Clone(one))
		if err != nil {
			return err
		}
		if n > 0 {
			joined = append(joined, ',')
		}
		joined = append(joined, text...)
	}
	for i := range f.to {
		switch to := &f.to[i]; {
		case n == 1 || n > 1 && to.part != nil:
			to.put(values, joined)
		case n > 1:
			to.refuse(values, "an array of several values; name one with [0] behind the column")
		}
	}
	return nil
}

// put notes a text as what the field has.
func (f *field) put(values []value, text []byte) {
	for i := range f.to {
		f.to[i].put(values, text)
	}
}

// refuse notes that the field has something else than a text or a number.
func (f *field) refuse(values []value, other string) {
	for i := range f.to {
		f.to[i].refuse(values, other)
	}
}
