//go:build conformance

package permissions_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// A described is AWS's description of a type of resource, as far as it says which actions the
// making of one needs.
type described struct {
	TypeName string
	Handlers map[string]struct{ Permissions []string }
}

// schemas returns the descriptions that cfn-lint has.
func schemas(t *testing.T) (all []described) {
	t.Helper()
	packages := filepath.Join(filepath.Dir(filepath.Dir(peers.CFNLint(t))), "lib", "python3*", "site-packages")
	names, err := filepath.Glob(filepath.Join(packages, "cfnlint", "data", "schemas", "resources", "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%d schemas in %s, %v", len(names), packages, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var s described
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, s)
	}
	return all
}

// The recorded actions of the template's types are those of AWS's schemas. Stacks do not run
// a type's list handler.
func TestWhatCloudFormationDoes(t *testing.T) {
	t.Parallel()
	wanted := typesOfTemplate(t)
	got := permissions.Types{}
	for _, s := range schemas(t) {
		if !slices.Contains(wanted, s.TypeName) {
			continue
		}
		for _, handler := range []string{"create", "read", "update", "delete"} {
			got[s.TypeName] = append(got[s.TypeName], s.Handlers[handler].Permissions...)
		}
		slices.Sort(got[s.TypeName])
		got[s.TypeName] = slices.Compact(got[s.TypeName])
	}
	if *update {
		if err := got.Write(typesFile); err != nil {
			t.Fatal(err)
		}
	}
	want, err := permissions.ReadTypes(typesFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions of CloudFormation (-recorded +schemas):\n%s", diff)
	}
}
