package documents_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
)

// A template is what the examples need of the stack's template.
type template struct {
	Parameters map[string]any `yaml:"Parameters"`
	Outputs    map[string]any `yaml:"Outputs"`
}

func deployed(t *testing.T) (*deploy.Spec, template) {
	t.Helper()
	options := deploy.Defaults()
	options.Name, options.Version = "limits", "0.1.0"
	spec, err := deploy.New(options)
	if err != nil {
		t.Fatal(err)
	}
	var made template
	if err := yaml.Unmarshal(spec.Template(), &made); err != nil {
		t.Fatal(err)
	}
	return spec, made
}

// The example for OpenTofu is HCL. It sets parameters and reads outputs that the template has, and
// gives the stack the tags by which the commands find it.
func TestTheExampleForOpenTofuFitsTheTemplate(t *testing.T) {
	t.Parallel()
	parser := hclparse.NewParser()
	file, diagnostics := parser.ParseHCLFile(filepath.Join("..", "..", "..", "..", "..", "examples", "opentofu", "main.tf"))
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		t.Fatal("the file is not in the native syntax")
	}
	spec, made := deployed(t)
	var tags []string
	for _, tag := range spec.Tags() {
		tags = append(tags, tag.Key)
	}
	found := map[string]int{}
	for _, block := range body.Blocks {
		if block.Type != "resource" || block.Labels[0] != "aws_cloudformation_stack" {
			continue
		}
		for _, key := range objectKeys(block.Body.Attributes["parameters"]) {
			found["parameters"]++
			if made.Parameters[key] == nil {
				t.Errorf("the template has no parameter %s", key)
			}
		}
		for _, key := range objectKeys(block.Body.Attributes["tags"]) {
			found["tags"]++
			if !slices.Contains(tags, key) {
				t.Errorf("the stack has no tag %s", key)
			}
		}
	}
	for _, block := range body.Blocks {
		if block.Type != "output" {
			continue
		}
		for _, traversal := range block.Body.Attributes["value"].Expr.Variables() {
			found["outputs"]++
			index, ok := traversal[len(traversal)-1].(hcl.TraverseIndex)
			if !ok || made.Outputs[index.Key.AsString()] == nil {
				t.Errorf("the template has no output for %s", block.Labels[0])
			}
		}
	}
	if found["parameters"] < 3 || found["tags"] < 3 || found["outputs"] < 1 {
		t.Errorf("found %v: does the test still fit the example?", found)
	}
}

// objectKeys are the literal keys of the objects in an attribute.
func objectKeys(a *hclsyntax.Attribute) (keys []string) {
	_ = hclsyntax.VisitAll(a.Expr, func(n hclsyntax.Node) hcl.Diagnostics { // the function reports nothing
		if object, ok := n.(*hclsyntax.ObjectConsExpr); ok {
			for _, item := range object.Items {
				if key, diagnostics := item.KeyExpr.Value(nil); !diagnostics.HasErrors() {
					keys = append(keys, key.AsString())
				}
			}
		}
		return nil
	})
	return keys
}

var (
	// included matches the parameters that the example for the CDK gives to the template.
	included = regexp.MustCompile(`(?s)parameters: \{(.*?)\}`)
	property = regexp.MustCompile(`(?m)^\s*(\w+):`)
)

// The example for the CDK sets parameters that the template has.
func TestTheExampleForTheCDKFitsTheTemplate(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "examples", "cdk", "app.ts"))
	if err != nil {
		t.Fatal(err)
	}
	parameters := included.FindSubmatch(text)
	if parameters == nil {
		t.Fatal("the example gives the template no parameters: does the pattern still fit?")
	}
	_, made := deployed(t)
	for _, m := range property.FindAllSubmatch(parameters[1], -1) {
		if made.Parameters[string(m[1])] == nil {
			t.Errorf("the template has no parameter %s", m[1])
		}
	}
}
