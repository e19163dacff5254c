package result

import (
	"encoding/json"
	"fmt"
	"io"
)

// Read reads the JSON form of a result. It refuses another format, and anything that is not
// a result, with an error that says so.
func Read(r io.Reader) (*Result, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var is struct {
		Format   int    `json:"format"`
		Scenario string `json:"scenario"`
	}
	if err := json.Unmarshal(data, &is); err != nil {
		return nil, fmt.Errorf("this is no result of a load test: %w", err)
	}
	if is.Format != Format || is.Scenario == "" {
		return nil, fmt.Errorf("this is no result of a load test in format %d: give what `loadtest run --output json` writes", Format)
	}
	result := &Result{}
	if err := json.Unmarshal(data, result); err != nil {
		return nil, fmt.Errorf("this is no result of a load test: %w", err)
	}
	return result, nil
}
