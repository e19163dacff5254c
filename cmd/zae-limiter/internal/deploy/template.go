package deploy

import (
	"bytes"
	_ "embed"
	"fmt"
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
)

// MaxTemplateBytes is the most that CloudFormation takes as the body of a template.
const MaxTemplateBytes = 51200

//go:embed template.yaml
var source string

// Source returns the template with its comments, to be read and checked. It is longer than
// CloudFormation takes.
func (s *Spec) Source() string {
	if !s.o.DeleteData {
		return source
	}
	// The table and the archive are the only resources with these attributes.
	return strings.NewReplacer("Policy: RetainExceptOnCreate\n", "Policy: Delete\n", "Policy: Retain\n", "Policy: Delete\n").Replace(source)
}

// Template returns the template as CloudFormation receives it, of at most
// [MaxTemplateBytes]: [Spec.Source] with a line for each entry of a section. It lacks what
// is for people and linters: comments, the Metadata of resources, and of parameters the
// Description and the bounds, which [New] has checked.
func (s *Spec) Template() []byte {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(s.Source()), &document); err != nil {
		panic(fmt.Sprintf("deploy: the embedded template is no YAML: %v", err)) // a test reads it
	}
	var w bytes.Buffer
	for key, section := range pairs(document.Content[0]) {
		w.WriteString(key.Value + ":")
		if section.Kind != yaml.MappingNode {
			w.WriteByte(' ')
			emit(&w, section)
			w.WriteByte('\n')
			continue
		}
		w.WriteByte('\n')
		if key.Value == "Parameters" {
			shorten(section)
		}
		for name, entry := range pairs(section) {
			w.WriteString(" " + name.Value + ": ")
			emit(&w, entry)
			w.WriteByte('\n')
		}
	}
	return w.Bytes()
}

// pairs iterates over the keys and values of a mapping, without Metadata.
func pairs(mapping *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if key := mapping.Content[i]; key.Value != "Metadata" && !yield(key, mapping.Content[i+1]) {
				return
			}
		}
	}
}

// shorten removes from each parameter what [New] has checked and AWS checks again: the
// description, and bounds but for the words of a text.
func shorten(section *yaml.Node) {
	for _, entry := range pairs(section) {
		var kept []*yaml.Node
		words := !slices.ContainsFunc(entry.Content, func(n *yaml.Node) bool { return n.Value == "Number" })
		for key, value := range pairs(entry) {
			if slices.Contains([]string{"Type", "Default"}, key.Value) || key.Value == "AllowedValues" && words {
				kept = append(kept, key, value)
			}
		}
		entry.Content = kept
	}
}

// emit writes a node on one line. The encoder of the library writes a space after each
// comma and more quotes, which would be 3 KB too many.
func emit(w *bytes.Buffer, n *yaml.Node) {
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		w.WriteString(n.Tag + " ")
	}
	switch n.Kind {
	case yaml.MappingNode:
		separator := "{"
		for key, value := range pairs(n) {
			w.WriteString(separator)
			emit(w, key)
			w.WriteString(": ")
			emit(w, value)
			separator = ","
		}
		w.WriteByte('}')
	case yaml.SequenceNode:
		w.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				w.WriteByte(',')
			}
			emit(w, item)
		}
		w.WriteByte(']')
	case yaml.ScalarNode:
		emitScalar(w, n)
	default: // the template has no other nodes
	}
}

// plain matches scalars that need no quotes between brackets.
var plain = option.Pattern(`\A[\w/][\w./()-]*((::?| )[\w./*-]+)*\z`)

func emitScalar(w *bytes.Buffer, n *yaml.Node) {
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	text := n.Value
	if n.Style&yaml.LiteralStyle != 0 { // the dashboard: JSON, where line breaks mean nothing
		text = joinLines(text)
	}
	if plain().MatchString(text) && (!quoted || !resolves(text)) {
		w.WriteString(text)
		return
	}
	w.WriteString("'" + strings.ReplaceAll(text, "'", "''") + "'")
}

// resolves reports whether YAML reads a plain scalar as something other than a string.
func resolves(text string) bool {
	var v any
	err := yaml.Unmarshal([]byte(text), &v)
	_, isText := v.(string)
	return err != nil || !isText
}

// joinLines joins lines without their indentation.
func joinLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "")
}
