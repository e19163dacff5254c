//go:build conformance

package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// pyYAML reads each text as the Python package reads a manifest, and writes it as the JSON
// that the package sends; null is a text that it refuses.
const pyYAML = `
import json, sys, yaml
def read(text):
    try:
        return json.dumps(yaml.safe_load(text))
    except Exception:
        return None
json.dump([read(text) for text in json.load(sys.stdin)], sys.stdout)
`

// scalars are values whose meaning depends on the version of YAML, or on the program.
var scalars = []string{
	"7", "0", "00", "1_000", "1_", "1__0", "_1", "+5", "-5", "-1_0", "017", "08", "0_1", "0o17", "0O17", "0x1F", "0x", "0x_1F", "+0x1f", "0b11", "0b1_0", "1:30", "1:90", "1_0:30", "190:20:30", "1:30.5",
	"1e3", "1.5e3", "1.5e+3", "1e+3", "1.", ".5", "5.0", "1_000.0", ".inf", "-.INF", ".nan", "1,000", "yes", "no", "on", "off", "Yes", "OFF", "y", "n", "true", "True", "TRUE", "tRue", "~", "null", "Null", "nULL", "",
	"2024-01-02", "2024-1-2", "2024-01-02 03:04:05", "2024-01-02T03:04:05Z", "=", "<<", "!!int 5", "!!int '5'", "!!int 1_0", "!!int x", "!!str 5", "!!str yes", "!!float 5", "!!bool yes", "!!null x", "! 5", "'5'", `"yes"`, "&a 5", "*a",
	"{a: 1}", "[5]", "|\n        5", ">-\n        yes", "5 # five", "5#five", "a: b", "'it''s'", "\"\\x35\"", "@5", "`5`", "%5", "\t5", "5\t", "- 5",
}

// texts are manifests with each of the scalars in each place, and with merge keys.
func texts() []string {
	all := []string{
		"\ufeffnamespace: a\n", "%YAML 1.1\n---\nnamespace: a\n", "%YAML 1.2\n---\nnamespace: a\nentities: {on: {resources: }}\n", "---\nnamespace: a\n...\n", "namespace: a\n---\n", "namespace: a\n---\nnamespace: b\n",
		"namespace: a\nnamespace: b\n", "namespace: a\r\nsystem:\r\n  limits: {rpm: {capacity: 5}}\r\n", "namespace: a\nsystem:\n\tlimits: {}\n", "{\"namespace\": \"a\", \"system\": {\"limits\": {\"rpm\": {\"capacity\": 1e3}}}}",
		"? namespace\n: a\n", "namespace: &n a\nx-1: *n\n", "x-1: 1\n", "namespace: a\nx-1: &x {system: {limits: {rpm: {capacity: 1}}}}\n<<: *x\n",
	}
	for _, s := range scalars {
		all = append(all,
			"namespace: "+s+"\n",
			"namespace: x\nsystem:\n  on_unavailable: "+s+"\n",
			"namespace: x\nsystem:\n  limits:\n    rpm:\n      capacity: "+s+"\n",
			"namespace: x\nentities:\n  "+s+": {resources: {r: {limits: {rpm: {capacity: 1}}}}}\n",
			"namespace: x\nx-t: &t {rpm: {capacity: 1}}\nsystem:\n  limits:\n    <<: "+s+"\n    tpm: {capacity: 2}\n",
		)
	}
	sources := []string{"*a", "*b", "[*a, *b]", "[*b, *a]", "*l", "[*c, *a]", "{tpm: {capacity: 9}}", "[*a, *l]", "[]"}
	for _, one := range sources {
		all = append(all, merged(one, ""), merged(one, "tpm: {capacity: 20}"), merged("{<<: "+one+", rpd: {capacity: 30}}", ""))
		for _, two := range sources {
			all = append(all, merged(one, "<<: "+two))
		}
	}
	return all
}

// merged is a manifest whose limits have a merge key.
func merged(source, rest string) string {
	return fmt.Sprintf(`namespace: x
x-a: &a {rpm: {capacity: 1}, tpm: {capacity: 2}}
x-b: &b {tpm: {capacity: 3}, rpd: {capacity: 4}}
x-c: &c {<<: *b, rpm: {capacity: 5}}
x-l: &l [*a, *b]
system:
  limits:
    <<: %s
    %s
`, source, rest)
}

// A manifest that both programs read means the same.
func TestManifestsMeanWhatPyYAMLReads(t *testing.T) {
	t.Parallel()
	all := texts()
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), peers.Python(t), "-c", pyYAML)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var read []*string
	if err := json.Unmarshal(out, &read); err != nil {
		t.Fatal(err)
	}
	same := 0
	for i, text := range all {
		ours, err := manifest.Parse("ours", []byte(text))
		if err != nil || read[i] == nil {
			continue
		}
		theirs, err := manifest.Parse("theirs", []byte(*read[i]))
		if err != nil {
			t.Errorf("%s\nPyYAML reads %s, which is refused: %v", text, *read[i], err)
			continue
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("%s\n(-PyYAML +we):\n%s", text, diff)
		}
		same++
	}
	const least = 60
	if same < least {
		t.Errorf("only %d of %d texts are read by both", same, len(all))
	}
	t.Logf("%d of %d texts mean the same, and one program refuses the others", same, len(all))
}
