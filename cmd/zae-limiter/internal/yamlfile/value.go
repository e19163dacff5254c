package yamlfile

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Entries calls each for every key of a mapping. It reports a node of another kind, and
// keys that are not names.
func (r *Reader) Entries(p Place, each func(name string, key, value Place)) {
	if p.Node.Kind != yaml.MappingNode {
		r.Find(p, "give a mapping of names to values, not %s", p.Describe())
		return
	}
	for key, value := range p.Pairs() {
		switch name := key.Node.Value; {
		case r.Stopped:
			return
		case !key.IsScalar() || key.IsNull():
			key.Path = p.Path
			r.Find(key, "give a name as the key, not %s", key.Describe())
		case key.Node.Tag != "!!str" && (key.Node.Tag != "!!int" || !isCanonical(name)):
			r.Find(key, "YAML 1.1 reads %s as %s: write the name in quotes", name, kinds[key.Node.Tag])
		default:
			each(name, key, value)
		}
	}
}

// Fields calls the function of each key of a mapping. It reports keys that have none.
func (r *Reader) Fields(p Place, known map[string]func(Place)) {
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	r.Entries(p, func(name string, key, value Place) {
		read, ok := known[name]
		if ok {
			read(value)
			return
		}
		reason := ""
		if r.form.Unknown != nil {
			reason = r.form.Unknown(name)
		}
		if reason == "" {
			reason = "unknown key: use " + names
		}
		r.Find(key, "%s", reason)
	})
}

// Items calls each for every item of a list. It reports a node of another kind.
func (r *Reader) Items(p Place, each func(i int, item Place)) {
	if p.Node.Kind != yaml.SequenceNode {
		r.Find(p, "give a list, not %s", p.Describe())
		return
	}
	for i, n := range p.Node.Content {
		if r.Stopped {
			return
		}
		each(i, at(n, fmt.Sprintf("%s[%d]", p.Path, i)))
	}
}

// kinds say what scalars are that are not strings, by their tags.
var kinds = map[string]string{
	"!!bool": "true or false", "!!int": "a number", "!!float": "a number", "!!timestamp": "a time", "!!merge": "a merge key",
}

// Text reads a string.
func (r *Reader) Text(p Place) (s string, ok bool) {
	if p.IsString() {
		return p.Node.Value, true
	}
	if kind := kinds[p.Node.Tag]; kind != "" && p.IsScalar() {
		r.Find(p, "give a string: YAML 1.1 reads %s as %s, so write it in quotes", p.Node.Value, kind)
	} else {
		r.Find(p, "give a string, not %s", p.Describe())
	}
	return "", false
}

// Bool reads true or false.
func (r *Reader) Bool(p Place) bool {
	switch value := strings.ToLower(p.Node.Value); {
	case p.Node.Kind != yaml.ScalarNode || p.Node.Tag != "!!bool":
	case value == "true" || value == "yes" || value == "on":
		return true
	case value == "false" || value == "no" || value == "off":
		return false
	}
	r.Find(p, "give true or false, not %s", p.Describe())
	return false
}

// Number reads a whole number from least to most; false if there is none. least is at
// least 0. The number may have "_" between its digits. It may not be in another base than
// ten, nor have a zero before it, which YAML 1.1 reads in base 8 and YAML 1.2 does not.
func (r *Reader) Number(p Place, least, most int64) (n int64, ok bool) {
	value := strings.ReplaceAll(strings.TrimPrefix(p.Node.Value, "+"), "_", "")
	isInt := p.IsScalar() && p.Node.Tag == "!!int"
	switch {
	case p.IsScalar() && len(value) > 1 && value[0] == '0' && isDigits(value):
		r.Find(p, "write the number %s without zeros before it: some programs read it in base 8", value)
		return 0, false
	case p.IsString() && isDigits(p.Node.Value):
		r.Find(p, "write the number %s without quotes", value)
		return 0, false
	case isInt && isCanonical(value):
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= least && n <= most {
			return n, true
		}
	case isInt && tagOf(p.Node.Value) == "!!int" && !isCanonical(strings.TrimPrefix(value, "-")):
		r.Find(p, "write the number in decimal digits: YAML 1.1 reads %s in base 2, 16 or 60", p.Node.Value)
		return 0, false
	}
	r.Find(p, "give a whole number from %d to %d, not %s", least, most, p.Describe())
	return 0, false
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isCanonical reports whether a number is written as programs write it.
func isCanonical(s string) bool { return isDigits(s) && (s[0] != '0' || s == "0") }

// IsString reports whether the value is a string.
func (p Place) IsString() bool { return p.IsScalar() && p.Node.Tag == "!!str" }

// IsScalar reports whether the value is neither a mapping nor a list.
func (p Place) IsScalar() bool { return p.Node.Kind == yaml.ScalarNode }

// IsMapping reports whether the value is a mapping.
func (p Place) IsMapping() bool { return p.Node.Kind == yaml.MappingNode }

// IsList reports whether the value is a list.
func (p Place) IsList() bool { return p.Node.Kind == yaml.SequenceNode }

// IsNull reports whether a value is left out, as under a key whose content is commented
// out.
func (p Place) IsNull() bool { return p.IsScalar() && p.Node.Tag == "!!null" }

// Len is the number of keys of a mapping or of items of a list.
func (p Place) Len() int {
	if p.IsMapping() {
		return len(p.Node.Content) / 2
	}
	return len(p.Node.Content)
}

// Describe says what a value is, for messages.
func (p Place) Describe() string {
	const most = 40
	switch {
	case p.IsMapping():
		return "a mapping"
	case p.IsList():
		return "a list"
	case p.IsNull():
		return "nothing"
	}
	value := []rune(p.Node.Value)
	if len(value) > most {
		value = append(value[:most], '…')
	}
	return strconv.Quote(string(value))
}

// Pairs are the keys and values of a mapping, whatever is wrong with them. Both have the
// path of the value.
func (p Place) Pairs() iter.Seq2[Place, Place] {
	return func(yield func(key, value Place) bool) {
		for i := 0; p.IsMapping() && i+1 < len(p.Node.Content); i += 2 {
			key := at(p.Node.Content[i], p.Path)
			key.Path = p.Below(key.Node.Value).Path
			if !yield(key, at(p.Node.Content[i+1], key.Path)) {
				return
			}
		}
	}
}

// Below is the place of a mapping with the path of one of its keys.
func (p Place) Below(key string) Place {
	return Place{p.Node, strings.TrimPrefix(p.Path+"."+key, ".")}
}

// Has reports whether a mapping has a key.
func (p Place) Has(key string) bool {
	for k := range p.Pairs() {
		if k.Node.Value == key {
			return true
		}
	}
	return false
}
