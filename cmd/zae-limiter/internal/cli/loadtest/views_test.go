package loadtest_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/compare"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/resulttest"
)

// program runs a command of loadtest.
func program(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), cli.Options{
		Args: append([]string{"loadtest"}, args...), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs,
		Getenv: func(string) string { return "" },
	})
	return code, out.String(), errs.String()
}

// encode is a result as a file has it.
func encode(t *testing.T, r *result.Result) string {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// save writes a file into a folder of the test.
func save(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// oneSide is a run of one side.
func oneSide(seed uint64, slower float64) *result.Result {
	return resulttest.New(resulttest.Run{
		Seed: seed, Sides: []resulttest.Side{{Name: "limiter", Slower: slower}}, Classes: []resulttest.Class{{Name: "Users", Rate: 200}},
	})
}

func TestReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := save(t, dir, "hot.json", encode(t, oneSide(1, 1)))
	page := filepath.Join(dir, "hot.html")

	code, stdout, stderr := program(t, "", "report", file)
	if code != 0 || stdout != "The page is in "+page+"\n" || stderr != "" {
		t.Fatalf("exit code %d, output %q, errors %q", code, stdout, stderr)
	}
	first, err := os.ReadFile(page)
	if err != nil || !bytes.HasPrefix(first, []byte("<!DOCTYPE html>")) || !bytes.HasSuffix(first, []byte("</html>\n")) {
		t.Fatalf("the page has %d bytes: %v", len(first), err)
	}

	// The page is not replaced, except with --force.
	save(t, dir, "hot.html", "mine")
	code, _, stderr = program(t, "", "report", file)
	if code != 1 || !strings.Contains(stderr, "the file exists already: give --force to replace it") {
		t.Errorf("exit code %d, errors %q", code, stderr)
	}
	if text, _ := os.ReadFile(page); string(text) != "mine" {
		t.Error("the file was replaced")
	}
	if code, _, stderr = program(t, "", "report", file, "--force"); code != 0 {
		t.Errorf("exit code %d, errors %q", code, stderr)
	}
	if text, _ := os.ReadFile(page); !bytes.Equal(text, first) {
		t.Error("the page is not the same")
	}

	// From standard input to a named file, and JSON.
	other := filepath.Join(dir, "other.html")
	code, stdout, stderr = program(t, encode(t, oneSide(1, 1)), "report", "-", "--html", other, "--output", "json")
	if code != 0 || !strings.Contains(stdout, `{"html":"`) {
		t.Errorf("exit code %d, output %q, errors %q", code, stdout, stderr)
	}
	if text, _ := os.ReadFile(other); !bytes.Equal(text, first) {
		t.Error("the page is not the same")
	}
}

func TestReportRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := save(t, dir, "good.json", encode(t, oneSide(1, 1)))
	for _, tt := range []struct {
		name  string
		stdin string
		args  []string
		code  int
		want  string
	}{
		{"no file", "", []string{}, 2, "missing argument RESULT.json"},
		{"no name", "", []string{"-"}, 2, "missing --html"},
		{"onto itself", "", []string{good, "--html", good, "--force"}, 2, "it is the file of the result"},
		{"a missing file", "", []string{filepath.Join(dir, "missing.json")}, 2, "read a result: open "},
		{"no JSON", "hello", []string{"-", "--html", filepath.Join(dir, "x.html")}, 1, "read -: this is no result of a load test"},
		{"another format", `{"format":99,"scenario":"hot"}`, []string{"-", "--html", filepath.Join(dir, "x.html")}, 1, "no result of a load test in format 2"},
		{"a missing folder", "", []string{good, "--html", filepath.Join(dir, "no", "x.html")}, 1, "no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := program(t, tt.stdin, append([]string{"report"}, tt.args...)...)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, output %q, errors %q, want %d and %q", code, stdout, stderr, tt.code, tt.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "x.html")); err == nil {
				t.Error("a page was written")
			}
		})
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := save(t, dir, "a.json", encode(t, oneSide(1, 1)))
	same, slow := save(t, dir, "same.json", encode(t, oneSide(2, 1))), save(t, dir, "slow.json", encode(t, oneSide(3, 1.3)))
	short := save(t, dir, "short.json", encode(t, resulttest.New(resulttest.Run{Phases: []resulttest.Phase{{Name: "all", Seconds: 3}}})))
	for _, tt := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"no regression", []string{a, same}, 0, []string{"Scenario:  gateway", "A:         " + a + " (v1.2.3, started 2026-03-04T05:06:07Z)", "B/A", "No regression beyond 5%."}},
		{"a regression", []string{a, slow}, 1, []string{"Regression: Side limiter, phase all, class Users: latency p50 went from ", "worse\n"}},
		{"an improvement", []string{slow, a}, 0, []string{"better\n", "No regression beyond 5%."}},
		{"a wide threshold", []string{a, slow, "--threshold", "60%"}, 0, []string{"same\n", "No regression beyond 60%."}},
		{"undecided", []string{a, short}, 1, []string{"too short\n", "Warning: No figure is judged", "Undecided: no figure can be judged."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := program(t, "", append([]string{"compare"}, tt.args...)...)
			if code != tt.code || stderr != "" {
				t.Errorf("exit code %d, errors %q, want %d", code, stderr, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("no %q in\n%s", want, stdout)
				}
			}
		})
	}

	code, stdout, stderr := program(t, encode(t, oneSide(3, 1.3)), "compare", a, "-", "--output", "json")
	var c compare.Comparison
	if err := json.Unmarshal([]byte(stdout), &c); err != nil || code != 1 || stderr != "" || c.Verdict != compare.Regression || len(c.Rows) < 8 {
		t.Errorf("exit code %d, errors %q, output %s: %v", code, stderr, stdout, err)
	}
}

func TestCompareRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := save(t, dir, "a.json", encode(t, oneSide(1, 1)))
	other := oneSide(1, 1)
	other.Scenario = "other"
	b := save(t, dir, "b.json", encode(t, other))
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"one file", []string{a}, 2, "missing argument B.json"},
		{"three files", []string{a, b, a}, 2, "unexpected argument"},
		{"no threshold", []string{a, b, "--threshold", "0"}, 2, "invalid --threshold 0"},
		{"a large threshold", []string{a, b, "--threshold", "100%"}, 2, "--threshold"},
		{"standard input twice", []string{"-", "-"}, 2, "standard input (-) is given twice"},
		{"other scenarios", []string{a, b}, 1, `A is of scenario "gateway", and B of "other"`},
		{"a missing file", []string{a, filepath.Join(dir, "missing.json")}, 2, "read a result: open "},
		{"no result", []string{"-", a}, 1, "read -: this is no result of a load test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := program(t, "{}", append([]string{"compare"}, tt.args...)...)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, output %q, errors %q, want %d and %q", code, stdout, stderr, tt.code, tt.want)
			}
		})
	}
}
