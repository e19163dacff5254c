package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/store"
)

// maxFindings is how many findings one report has. Aliases can repeat a mistake far more
// often than the file is long.
const maxFindings = 100

// A reader walks the nodes of a file and collects what is wrong with them.
type reader struct {
	findings []Finding
	// stopped reports that the rest of the file is not worth reading: it can only lead to
	// more findings than a report has, or to more levels than a manifest.
	stopped bool
}

// A place is a node with the path that leads to it.
type place struct {
	node *yaml.Node
	path string
}

func at(n *yaml.Node, path string) place {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return place{n, path}
}

func (r *reader) find(p place, format string, args ...any) {
	if r.stopped {
		return
	}
	if len(r.findings) == maxFindings {
		r.stopped = true
		format, args = "there are more than %d findings: correct these first", []any{maxFindings}
	}
	r.findings = append(r.findings, Finding{p.node.Line, p.node.Column, p.path, fmt.Sprintf(format, args...)})
}

// invalid adds why a value is invalid, without repeating its name.
func (r *reader) invalid(p place, err error) {
	if wrong, ok := errors.AsType[*store.ValidationError](err); ok {
		r.find(p, "invalid %s %q: %s", wrong.Field, wrong.Value, wrong.Reason)
	}
}

// entries calls each for every key of a mapping. It reports a node of another kind, keys
// that are not names, and keys given twice.
func (r *reader) entries(p place, each func(name string, key, value place)) {
	if p.node.Kind != yaml.MappingNode {
		r.find(p, "give a mapping of names to values, not %s", describe(p.node))
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(p.node.Content) && !r.stopped; i += 2 {
		key := at(p.node.Content[i], p.path)
		name := key.node.Value
		switch line, twice := lines[name]; {
		case key.node.Kind != yaml.ScalarNode || key.node.Tag == "!!null":
			r.find(key, "give a name as the key, not %s", describe(key.node))
		case key.node.Tag == "!!merge":
			r.find(key, "merge keys are not supported: write the keys out")
		case twice:
			r.find(key, "the key %q is there twice, first in line %d: remove one", name, line)
		default:
			lines[name] = key.node.Line
			path := strings.TrimPrefix(p.path+"."+name, ".")
			key.path = path
			each(name, key, at(p.node.Content[i+1], path))
		}
	}
}

// fields calls the function of each key of a mapping. It reports keys that have none.
func (r *reader) fields(p place, known map[string]func(place)) {
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	r.entries(p, func(name string, key, value place) {
		read, ok := known[name]
		switch {
		case ok:
			read(value)
		case slices.Contains(unsupported, name):
			r.find(key, "%q is not supported by this version: remove it, or manage this level with a client that supports it", name)
		default:
			r.find(key, "unknown key: use %s", names)
		}
	})
}

// text reads a string.
func (r *reader) text(p place) (s string, ok bool) {
	if p.node.Kind != yaml.ScalarNode || p.node.Tag != "!!str" {
		r.find(p, "give a string, not %s", describe(p.node))
		return "", false
	}
	return p.node.Value, true
}

// number reads a whole number from 1 to most, 0 if there is none.
func (r *reader) number(p place, most int64) int64 {
	value := p.node.Value
	isDigits := value != "" && strings.Trim(value, "0123456789") == ""
	switch {
	case p.node.Kind == yaml.ScalarNode && p.node.Tag == "!!str" && isDigits:
		r.find(p, "write the number %s without quotes", value)
		return 0
	case p.node.Kind == yaml.ScalarNode && isDigits:
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 1 && n <= most {
			return n
		}
	}
	r.find(p, "give a whole number from 1 to %d, not %s", most, describe(p.node))
	return 0
}

// isNull reports whether a value is left out, as under a key whose content is commented
// out.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe says what a node is, for messages.
func describe(n *yaml.Node) string {
	const most = 40
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	}
	value := []rune(n.Value)
	if len(value) > most {
		value = append(value[:most], '…')
	}
	return strconv.Quote(string(value))
}
