package docs_test

import (
	"encoding/json"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/internal/doctest"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// A user who copies JSON or YAML from a document gets what its reader accepts: manifests and
// scenarios by their own rules.
func TestTheDataOfTheDocumentsIsRead(t *testing.T) {
	t.Parallel()
	manifests, scenarios, others := 0, 0, 0
	for _, b := range doctest.Blocks(t, "..") {
		var err error
		switch {
		case b.Mark == "untested":
		case b.Language == "json":
			others++
			var value any
			err = json.Unmarshal([]byte(b.Text), &value)
		case b.Language == "yaml":
			var value map[string]any
			if err = yaml.Unmarshal([]byte(b.Text), &value); err != nil {
				break
			}
			switch {
			case value["load"] != nil:
				scenarios++
				_, err = scenario.Parse(b.Document, []byte(b.Text))
			case value["namespace"] != nil:
				manifests++
				_, err = manifest.Parse(b.Document, []byte(b.Text))
			default:
				others++
			}
		}
		if err != nil {
			t.Errorf("the block in line %d of %s: %v", b.Line, b.Document, err)
		}
	}
	if manifests == 0 || scenarios == 0 || others == 0 {
		t.Errorf("found %d manifests, %d scenarios and %d other blocks: does the pattern still fit the documents?", manifests, scenarios, others)
	}
}
