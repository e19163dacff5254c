package deploy_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const page = "../docs/kubernetes.md"

var update = flag.Bool("update", false, "write the table of docs/kubernetes.md")

// A property is what the table uses of the schema.
type property struct {
	Type        string              `json:"type"`
	Description string              `json:"description"`
	Enum        []string            `json:"enum"`
	Properties  map[string]property `json:"properties"`
}

// rows returns a row of the table for each value, and checks that schema and values have the same.
func rows(t *testing.T, schema map[string]property, values map[string]any, prefix string) (all []string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(schema)) {
		p, path := schema[name], prefix+name
		value, found := values[name]
		delete(values, name)
		if path == "global" {
			continue
		}
		if !found {
			t.Errorf("values.yaml has no %s", path)
			continue
		}
		if len(p.Properties) > 0 {
			below, _ := value.(map[string]any)
			all = append(all, rows(t, p.Properties, below, path+".")...)
			continue
		}
		if p.Description == "" {
			t.Errorf("the schema does not say what %s is", path)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		description := p.Description
		if len(p.Enum) > 0 {
			description += ": `" + strings.Trim(strings.Join(p.Enum, "`, `"), ",` ") + "`"
		}
		all = append(all, fmt.Sprintf("| `%s` | %s | `%s` |", path, description, text))
	}
	for name := range values {
		t.Errorf("the schema has no %s%s", prefix, name)
	}
	return all
}

// The values that docs/kubernetes.md shows are installed, as the API server would.
func TestTheValuesOfThePage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		values, _, _ := strings.Cut(block, "```")
		checkReferences(t, install(t, values, "zae-limiter"))
		count++
	}
	if count != 3 {
		t.Errorf("the page has %d blocks of values, want 3", count)
	}
}

// The table of docs/kubernetes.md has every value, with its default. This test writes it with -update.
func TestTheTableOfValues(t *testing.T) {
	t.Parallel()
	var schema property
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if err := json.Unmarshal(read(filepath.Join(chartFolder, "values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(read(filepath.Join(chartFolder, "values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	const begin, end = "| value | is | default |\n|---|---|---|\n", "\n\n"
	table := strings.Join(rows(t, schema.Properties, values, ""), "\n")
	text := string(read(page))
	before, rest, found := strings.Cut(text, begin)
	old, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no table of values", page)
	}
	if old == table {
		return
	}
	if !*update {
		t.Fatalf("%s has another table of values: run go test -C deploy -run TestTheTableOfValues . -update", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
