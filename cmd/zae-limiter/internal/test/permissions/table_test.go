package permissions_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
)

const (
	commandsFile = "recorded/commands.json"
	policiesFile = "recorded/policies.json"
	verdictsFile = "recorded/verdicts.json"
	typesFile    = "recorded/cloudformation.json"
	document     = root + "/docs/permissions.md"
	// generated stands before the part of the document that a test writes.
	generated = "<!-- The rest is generated: make permissions. -->\n\n"
)

func recorded(tb testing.TB) (library, commands permissions.Recorded) {
	tb.Helper()
	library, err := permissions.Read(libraryFile)
	if err != nil {
		tb.Fatal(err)
	}
	commands, err = permissions.Read(commandsFile)
	if err != nil {
		tb.Fatal(err)
	}
	return library, commands
}

// Every recorded access was judged, by the policies of the template.
func TestTheVerdictsAreUpToDate(t *testing.T) {
	t.Parallel()
	v, err := permissions.ReadVerdicts(verdictsFile)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := permissions.Checksum(policiesFile)
	if err != nil {
		t.Fatal(err)
	}
	if v.Policies != sum {
		t.Error("the policies have changed since they were judged: run make permissions")
	}
	if diff := cmp.Diff(permissions.Accesses(recorded(t)), slices.Sorted(maps.Keys(v.Allowed))); diff != "" {
		t.Errorf("other accesses were judged than are recorded: run make permissions (-recorded +judged):\n%s", diff)
	}
}

// typesOfTemplate returns the types of the template's resources, in order.
func typesOfTemplate(t *testing.T) (types []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`Type: (AWS::\w+::\w+)`).FindAllStringSubmatch(string(text), -1) {
		types = append(types, found[1])
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// The document has what CloudFormation does for each type of the template, and for no other.
func TestTheTypesAreThoseOfTheTemplate(t *testing.T) {
	t.Parallel()
	types, err := permissions.ReadTypes(typesFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(typesOfTemplate(t), slices.Sorted(maps.Keys(types))); diff != "" {
		t.Errorf("run make permissions (-template +recorded):\n%s", diff)
	}
	for name, actions := range types {
		if len(actions) == 0 {
			t.Errorf("%s has no actions", name)
		}
	}
}

// The document shows the verdicts.
func TestTheDocumentIsUpToDate(t *testing.T) {
	t.Parallel()
	v, err := permissions.ReadVerdicts(verdictsFile)
	if err != nil {
		t.Fatal(err)
	}
	library, commands := recorded(t)
	types, err := permissions.ReadTypes(typesFile)
	if err != nil {
		t.Fatal(err)
	}
	table := (&permissions.Table{Library: library, Commands: commands, Types: types, Verdicts: v}).Markdown()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	introduction, have, ok := strings.Cut(string(text), generated)
	if !ok {
		t.Fatalf("%s has no line %s", document, generated)
	}
	if *update {
		have = table
		if err := os.WriteFile(document, []byte(introduction+generated+table), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(table, have); diff != "" {
		t.Errorf("%s is out of date: run make permissions (-want +got):\n%s", document, diff)
	}
}
