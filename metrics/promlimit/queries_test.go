package promlimit_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/metrics/promlimit"
)

var (
	metricName = regexp.MustCompile(`zae_limiter_[a-z0-9_]+`)
	selector   = regexp.MustCompile(`(zae_limiter_[a-z0-9_]+)\{([^}]*)\}`)
	matched    = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)`)
	grouped    = regexp.MustCompile(`by \(([^)]*)\)`)
)

// target are the labels that a scrape adds, and le is that of a histogram's buckets.
var target = []string{"job", "instance", "le"}

// checkQuery fails if a query names a metric or label that the collector does not have.
func checkQuery(t *testing.T, where, query string) (names []string) {
	t.Helper()
	known := map[string]*promlimit.Family{}
	for _, f := range promlimit.Families {
		known[f.Name] = f
		if f.Type == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				known[f.Name+suffix] = f
			}
		}
	}
	all := slices.Clone(target)
	for _, name := range metricName.FindAllString(query, -1) {
		f := known[name]
		if f == nil {
			t.Errorf("%s queries %s, which does not exist", where, name)
			continue
		}
		all, names = append(all, f.Labels...), append(names, f.Name)
	}
	for _, s := range selector.FindAllStringSubmatch(query, -1) {
		for _, m := range matched.FindAllStringSubmatch(s[2], -1) {
			if f := known[s[1]]; f != nil && !slices.Contains(f.Labels, m[1]) && !slices.Contains(target, m[1]) {
				t.Errorf("%s selects %s by %s, which that metric does not have", where, s[1], m[1])
			}
		}
	}
	for _, g := range grouped.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(g[1], ", ") {
			if !slices.Contains(all, label) {
				t.Errorf("%s groups by %s, which its metrics do not have", where, label)
			}
		}
	}
	return names
}

// The dashboard queries metrics and labels that exist, and each metric somewhere. Panels
// do not overlap.
func TestTheDashboardQueriesWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("grafana/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Templating struct {
			List []struct{ Query any }
		}
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	shown, ids, cells := map[string]bool{}, map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		if ids[p.ID] || len(p.Targets) == 0 {
			t.Errorf("%s: the number is taken, or it has no query", p.Title)
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			for _, name := range checkQuery(t, p.Title, q.Expr) {
				shown[name] = true
			}
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x > 23 {
					t.Fatalf("%s overlaps %s, or is too wide", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
	}
	for _, v := range board.Templating.List {
		checkQuery(t, "a variable", fmt.Sprint(v.Query))
	}
	for _, f := range promlimit.Families {
		if !shown[f.Name] {
			t.Errorf("no panel shows %s", f.Name)
		}
	}
}

// The alert rules query metrics and labels that exist, and the document says what to do
// about each.
func TestTheAlertsQueryWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(documented)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			if len(checkQuery(t, r.Alert, r.Expr)) == 0 {
				t.Errorf("%s queries nothing", r.Alert)
			}
			if !strings.Contains(string(document), "\n### "+r.Alert+"\n") || !strings.HasSuffix(r.Annotations["runbook_url"], "metrics.md#"+strings.ToLower(r.Alert)) {
				t.Errorf("%s: %s does not say what to do, or the runbook's address is wrong", r.Alert, documented)
			}
		}
	}
	if n == 0 {
		t.Error("no rules")
	}
}

const documented = "../../docs/metrics.md"

var update = flag.Bool("update", false, "write the table of metrics to docs/metrics.md")

// The document's table has every metric as it is.
func TestTheMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- metrics -->\n", "<!-- end of metrics -->\n"
	var table strings.Builder
	table.WriteString("| metric | type | labels | unit | meaning |\n|---|---|---|---|---|\n")
	for _, f := range promlimit.Families {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Type, strings.Join(f.Labels, ", "), f.Unit, f.Help)
	}
	text, err := os.ReadFile(documented)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	was, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", documented)
	}
	if *update {
		if err := os.WriteFile(documented, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != table.String() {
		t.Errorf("%s differs; run go test ./promlimit -run Documented -update", documented)
	}
}
