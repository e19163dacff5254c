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

// Entries calls each for every key of a mapping. It reports a node of another kind, keys
// that are not names, and keys given twice.
func (r *Reader) Entries(p Place, each func(name string, key, value Place)) {
	if p.Node.Kind != yaml.MappingNode {
		r.Find(p, "give a mapping of names to values, not %s", p.Describe())
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(p.Node.Content) && !r.Stopped; i += 2 {
		key := at(p.Node.Content[i], p.Path)
		name := key.Node.Value
		switch line, twice := lines[name]; {
		case !key.IsScalar() || key.IsNull():
			r.Find(key, "give a name as the key, not %s", key.Describe())
		case key.Node.Tag == "!!merge":
			r.Find(key, "merge keys are not supported: write the keys out")
		case twice:
			r.Find(key, "the key %q is there twice, first in line %d: remove one", name, line)
		default:
			lines[name] = key.Node.Line
			key.Path = p.Below(name).Path
			each(name, key, at(p.Node.Content[i+1], key.Path))
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

// Text reads a string.
func (r *Reader) Text(p Place) (s string, ok bool) {
	if p.Node.Kind != yaml.ScalarNode || p.Node.Tag != "!!str" {
		r.Find(p, "give a string, not %s", p.Describe())
		return "", false
	}
	return p.Node.Value, true
}

// Bool reads true or false.
func (r *Reader) Bool(p Place) bool {
	if p.Node.Kind != yaml.ScalarNode || p.Node.Tag != "!!bool" {
		r.Find(p, "give true or false, not %s", p.Describe())
		return false
	}
	return strings.EqualFold(p.Node.Value, "true")
}

// Number reads a whole number from least to most; false if there is none. least is at
// least 0.
func (r *Reader) Number(p Place, least, most int64) (n int64, ok bool) {
	value := p.Node.Value
	isDigits := value != "" && strings.Trim(value, "0123456789") == ""
	switch {
	case p.IsScalar() && p.Node.Tag == "!!str" && isDigits:
		r.Find(p, "write the number %s without quotes", value)
		return 0, false
	case p.IsScalar() && isDigits && len(value) > 1 && value[0] == '0':
		r.Find(p, "write the number %s without zeros before it: some programs read it in base 8", value)
		return 0, false
	case p.IsScalar() && isDigits:
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= least && n <= most {
			return n, true
		}
	}
	r.Find(p, "give a whole number from %d to %d, not %s", least, most, p.Describe())
	return 0, false
}

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
