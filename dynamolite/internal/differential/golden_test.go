package differential_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goldenDir holds, for each area, the answers of DynamoDB Local.
const goldenDir = "testdata"

// allCases returns all cases, the written ones and the generated.
var allCases = sync.OnceValue(func() []testCase {
	var all []testCase
	for _, area := range [][]testCase{
		updateCases(), conditionCases(), itemCases(), queryCases(), batchCases(), transactCases(), tableCases(), capacityCases(),
		scanCases(), localCases(), updateTableCases(), settingsCases(), tokenAndReasonCases(),
		generated(0, recordedSeeds),
	} {
		all = append(all, area...)
	}
	for _, c := range all {
		for _, request := range c.requests {
			bill(request)
		}
	}
	return all
})

// TestGolden compares the engine with the recorded answers of DynamoDB Local, as corrected by the
// known deviations.
func TestGolden(t *testing.T) {
	t.Parallel()
	golden := readGolden(t)
	for _, c := range allCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			recorded, ok := golden[c.name]
			if !ok || recorded.Input != c.fingerprint() {
				t.Fatal("the case is new or changed since it was recorded; run make golden")
			}
			c.compare(t, recorded, liteEngine(t))
		})
	}
	if len(golden) != len(allCases()) {
		t.Errorf("%d cases are recorded, there are %d; run make golden", len(golden), len(allCases()))
	}
}

// compare runs the case on an engine of ours and compares the outcome with that of DynamoDB
// Local.
func (c *testCase) compare(t *testing.T, local outcome, ours engine) {
	t.Helper()
	want := expected(t, c.name, local)
	got := reread(c.run(t, ours))
	if diff := difference(want, got); diff != "" {
		for i, request := range c.requests {
			if k, ok := request.(kind); ok {
				request = k.sends()
			}
			t.Logf("request %d: %.2000s", i, marshal(encode(request)))
		}
		t.Errorf("(-DynamoDB +dynamolite)\n%s", diff)
	}
}

// difference compares by the canonical text: go-cmp takes time exponential in the nesting of a
// tree.
func difference(want, got outcome) string {
	if bytes.Equal(marshal(want), marshal(got)) {
		return ""
	}
	return cmp.Diff(indent(want), indent(got))
}

func indent(o outcome) string {
	var buf bytes.Buffer
	if err := json.Indent(&buf, marshal(o), "", " "); err != nil {
		panic(err) // marshal wrote it
	}
	return buf.String()
}

// TestCasesAreMany checks the suite's size and that it leaves out no operation. It also checks
// that case names are unique, and that the names in deviations exist.
func TestCasesAreMany(t *testing.T) {
	t.Parallel()
	seen, sent := map[string]bool{}, map[string]int{}
	for _, c := range allCases() {
		if seen[c.name] {
			t.Errorf("two cases are called %s", c.name)
		}
		seen[c.name] = true
		operations := map[string]bool{}
		for _, request := range c.requests {
			if k, ok := request.(kind); ok {
				request = k.sends()
			}
			operations[strings.TrimSuffix(reflect.TypeOf(request).Elem().Name(), "Input")] = true
		}
		for operation := range operations {
			sent[operation]++
		}
	}
	if len(seen) < 2000 {
		t.Errorf("%d cases, want 2,000 at least", len(seen))
	}
	for method := range reflect.TypeFor[engine]().Methods() {
		if t.Logf("%s: %d cases", method.Name, sent[method.Name]); sent[method.Name] == 0 {
			t.Errorf("no case sends a %s", method.Name)
		}
	}
	for _, d := range deviations {
		for name := range d.cases {
			if !seen[name] {
				t.Errorf("a deviation names the case %s, which does not exist", name)
			}
		}
	}
}

func area(name string) string {
	head, _, _ := strings.Cut(name, "/")
	return head
}

func readGolden(t *testing.T) map[string]outcome {
	t.Helper()
	all := map[string]outcome{}
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(content, &all); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return all
}

// writeGolden writes one file for each area, one line for each case.
func writeGolden(t *testing.T, outcomes map[string]outcome) {
	t.Helper()
	if err := os.RemoveAll(goldenDir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(goldenDir, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]*bytes.Buffer{}
	for _, c := range allCases() {
		name := area(c.name)
		if files[name] == nil {
			files[name] = bytes.NewBufferString("{")
		} else {
			files[name].WriteString(",")
		}
		fmt.Fprintf(files[name], "\n%s:%s", marshal(c.name), marshal(outcomes[c.name]))
	}
	for name, content := range files {
		content.WriteString("\n}\n")
		if err := os.WriteFile(filepath.Join(goldenDir, name+".json"), content.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
