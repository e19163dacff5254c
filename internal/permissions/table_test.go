package permissions_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/permissions"
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
