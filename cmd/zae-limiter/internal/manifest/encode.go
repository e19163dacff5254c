package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v4"
)

// YAML is the manifest as a file, with keys in order.
func (m *Manifest) YAML() ([]byte, error) {
	var b bytes.Buffer
	const indent = 2
	e := yaml.NewEncoder(&b)
	e.SetIndent(indent)
	if err := e.Encode(m.document()); err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	return b.Bytes(), nil
}

// MarshalJSON writes the manifest in the form of a file.
func (m *Manifest) MarshalJSON() ([]byte, error) { return json.Marshal(m.document()) }
