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

// The page names the types of the template's resources, which CloudFormation makes with the
// rights of the caller.
func TestThePageNamesTheTypesOfTheTemplate(t *testing.T) {
	t.Parallel()
	template, err := os.ReadFile("../../deploy/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	types := func(text []byte, pattern string) (all []string) {
		for _, found := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			all = append(all, string(found[1]))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	if diff := cmp.Diff(types(template, `Type: AWS::(\w+::\w+)`), types(page, "`(\\w+::\\w+)`")); diff != "" {
		t.Errorf("types (-template +page):\n%s", diff)
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
	table := (&permissions.Table{Library: library, Commands: commands, Verdicts: v}).Markdown()
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
