package yamlfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"
)

// tags are what values are without a tag, and so with one of these.
var tags = map[yaml.Kind][]string{
	yaml.MappingNode:  {"!!map"},
	yaml.SequenceNode: {"!!seq"},
	yaml.ScalarNode:   {"!!str", "!!int", "!!float", "!!bool", "!!null", "!!merge", "!!timestamp"},
}

// words are the scalars that YAML 1.1 reads as true or false, as nothing, or as a merge key.
var words = func() map[string]string {
	all := map[string]string{"": "!!null", "~": "!!null", "<<": "!!merge"}
	for word, tag := range map[string]string{
		"yes": "!!bool", "no": "!!bool", "true": "!!bool", "false": "!!bool", "on": "!!bool", "off": "!!bool", "null": "!!null",
	} {
		all[word], all[strings.ToUpper(word[:1])+word[1:]], all[strings.ToUpper(word)] = tag, tag, tag
	}
	return all
}()

// numbers are the other scalars that YAML 1.1 does not read as strings, as PyYAML knows
// them. It knows fewer of them as numbers than YAML 1.2 does: 1e3 and 0o17 are strings.
var numbers = sync.OnceValue(func() []number {
	return []number{
		{"!!int", regexp.MustCompile(`^[-+]?(0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(:[0-5]?[0-9])+)$`)},
		{"!!float", regexp.MustCompile(`^([-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?|` +
			`[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)},
		{"!!timestamp", regexp.MustCompile(`^(\d{4}-\d\d-\d\d|\d{4}-\d\d?-\d\d?([Tt]|[ \t]+)\d\d?:\d\d:\d\d(\.\d*)?([ \t]*(Z|[-+]\d\d?(:\d\d)?))?)$`)},
	}
})

// A number is a form of plain scalars that stands for a number or an instant.
type number struct {
	tag  string
	form *regexp.Regexp
}

// tagOf is the tag of a scalar without quotes, by YAML 1.1.
func tagOf(value string) string {
	if tag, ok := words[value]; ok {
		return tag
	}
	if strings.Trim(value[:1], "+-.0123456789") == "" {
		for _, n := range numbers() {
			if n.form.MatchString(value) {
				return n.tag
			}
		}
	}
	return "!!str"
}

// explicit are the styles of scalars whose tag does not come from their text.
const explicit = yaml.TaggedStyle | yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// resolve gives a value and all values in it the meaning that YAML 1.1 gives them: it sets
// their tags, and replaces merge keys by what they merge. It reports tags that give a
// value another meaning, and keys that a mapping has twice.
func (r *Reader) resolve(p Place) {
	n := p.Node
	if known := tags[n.Kind]; known != nil && !slices.Contains(known, n.Tag) {
		r.Find(p, "the tag %s has no meaning here: remove it", n.Tag)
		n.Style &^= yaml.TaggedStyle
	}
	r.open[n] = true
	defer delete(r.open, n)
	switch {
	case p.IsScalar() && n.Style&explicit == 0:
		n.Tag = tagOf(n.Value)
	case p.IsList():
		for i, item := range n.Content {
			r.resolve(Place{item, fmt.Sprintf("%s[%d]", p.Path, i)})
		}
	case p.IsMapping():
		for i := 0; i+1 < len(n.Content) && !r.Stopped; i += 2 {
			r.resolve(Place{n.Content[i], p.Path})
			r.resolve(Place{n.Content[i+1], p.Below(at(n.Content[i], "").Node.Value).Path})
		}
		r.merge(p)
	}
}

// maxMerged bounds the keys that merge keys bring in. A short file can mean far more of
// them than it has bytes.
const maxMerged = 1 << 20

// merge replaces the merge key of a mapping by the keys of the mappings that it names. A
// key of the mapping itself wins over those. Which of two mappings wins over the other
// differs between versions of PyYAML, so it reports a key that two of them have.
func (r *Reader) merge(p Place) {
	content, mergeKey, sources := r.ownKeys(p)
	from := map[string]*yaml.Node{}
	for i := 0; i < len(content); i += 2 {
		from[content[i].Value] = nil
	}
	for _, source := range sources {
		for key, value := range source.Pairs() {
			name := key.Node.Value
			other, there := from[name]
			switch {
			case !there || !key.IsScalar():
				from[name] = value.Node
				content = append(content, key.Node, value.Node)
				r.merged++
			case other != nil && other != value.Node:
				r.Find(mergeKey, "versions of PyYAML differ in which %s of two merged mappings they take: write it here, too", strconv.Quote(name))
			}
		}
	}
	if r.merged > maxMerged && !r.Stopped {
		r.Find(p, "merge keys of the file bring in more than %d keys: use fewer of them", maxMerged)
		r.Stopped = true
	}
	p.Node.Content = content
}

// ownKeys are the keys and values of a mapping itself, and its merge key with the
// mappings that it names. It reports a key that is there twice, and leaves it out.
func (r *Reader) ownKeys(p Place) (content []*yaml.Node, mergeKey Place, sources []Place) {
	lines := map[string]int{}
	for i := 0; i+1 < len(p.Node.Content); i += 2 {
		key, value := at(p.Node.Content[i], p.Path), at(p.Node.Content[i+1], p.Path)
		name := key.Node.Value
		isMerge := key.IsScalar() && key.Node.Tag == "!!merge"
		switch line, twice := lines[name]; {
		case twice && isMerge:
			r.Find(key, "the merge key is there twice, first in line %d: give it one list, [*a, *b]", line)
			continue
		case twice && key.IsScalar():
			r.Find(key, "the key %q is there twice, first in line %d: remove one", name, line)
			continue
		case isMerge:
			mergeKey, sources = key, r.sources(key, value)
		default:
			content = append(content, key.Node, value.Node)
		}
		if key.IsScalar() {
			lines[name] = key.Node.Line
		}
	}
	return content, mergeKey, sources
}

// sources are the mappings that a merge key names: one, or a list of them.
func (r *Reader) sources(key, value Place) []Place {
	all := []Place{value}
	if value.IsList() {
		all = nil
		for _, item := range value.Node.Content {
			all = append(all, at(item, value.Path))
		}
	}
	return slices.DeleteFunc(all, func(source Place) bool {
		switch {
		case !source.IsMapping():
			r.Find(key, "a merge key takes a mapping or a list of mappings, not %s", source.Describe())
		case r.open[source.Node]:
			r.Find(key, "a mapping cannot merge itself: name another one")
		default:
			return false
		}
		return true
	})
}

// template begins the keys of the file itself whose values are not read, except through
// aliases.
const template = "x-"

// withoutTemplates removes the templates of a file.
func withoutTemplates(root Place) {
	var kept []*yaml.Node
	for key, value := range root.Pairs() {
		if !key.IsScalar() || !strings.HasPrefix(key.Node.Value, template) {
			kept = append(kept, key.Node, value.Node)
		}
	}
	if root.IsMapping() {
		root.Node.Content = kept
	}
}
