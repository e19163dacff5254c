package permissions

import (
	"encoding/json"
	"fmt"
	"os"
)

// readFile reads a value that writeFile wrote.
func readFile[T any](file string) (value T, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, fmt.Errorf("read %s: %w", file, err)
	}
	return value, nil
}

// writeFile writes a value as JSON with a line for each field, so that a change shows as
// lines.
func writeFile(file string, value any) error {
	text, err := json.MarshalIndent(value, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o600)
}
