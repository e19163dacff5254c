package cli_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// wordsOf has the words of fields whose type does not say them, by the names of the type and of
// the field in JSON. Fields with words of AWS, and actions of audit events, which other programs
// write, too, may have further ones.
var wordsOf = map[string][]string{
	"manage.DeletedLevel.next_level": {limiter.LevelSystem.String(), limiter.LevelNone.String()},
	"manage.TableView.billing":       {"PAY_PER_REQUEST", "PROVISIONED"},
	"cli.exportView.architecture":    {"arm64", "x86_64"},
	"cli.outageView.error":           {"unavailable"},
	"cli_test.logLine.level":         {"DEBUG", "INFO", "WARN", "ERROR"},
	"compare.Row.side":               sides,
	"health.Alarm.state":             {"OK", "ALARM", "INSUFFICIENT_DATA", "MISSING"},
	"manage.PlannedChange.level":     {"system", "resource", "entity"},
	"limits.difference.level":        {"system", "resource", "entity"},
	"manage.Orphan.state":            orphanStates,
	"result.Side.name":               sides,
	"manage.UsageSum.window":         windows,
	"manage.Snapshot.window":         windows,
}

var (
	windows      = []string{usage.Hourly.String(), usage.Daily.String(), usage.Monthly.String()}
	sides        = []string{string(scenario.Limiter), string(scenario.Shared), string(scenario.Bare)}
	orphanStates = []string{string(admin.OrphanDeleted), string(admin.OrphanPurging), string(admin.OrphanStranded)}
)

var errorRow = regexp.MustCompile("`([a-z_]+)`")

// errorKinds are the kinds of errors in the table of docs/json.md, which a test compares with
// those of the program.
func errorKinds() (kinds []string, err error) {
	text, err := os.ReadFile(namesFile)
	_, table, _ := strings.Cut(string(text), "| `error` | means |")
	table, _, _ = strings.Cut(table, "\n#")
	for row := range strings.Lines(table) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(row, "|"), "|"); ok {
			for _, m := range errorRow.FindAllStringSubmatch(first, -1) {
				kinds = append(kinds, m[1])
			}
		}
	}
	return kinds, err
}

// levels are the words of a level, which encodes itself.
func levels() []any {
	var words []any
	for l := limiter.LevelNone; l <= limiter.LevelSystem; l++ {
		words = append(words, l.String())
	}
	return words
}

// withWords limits a field to its words, if it has some.
func (m *schemaMaker) withWords(t reflect.Type, p *property) {
	words := wordsOf[typeName(t)+"."+p.name]
	if typeName(t) == "app.ErrorView" && p.name == "error" {
		words = m.errors
	}
	if words == nil {
		return
	}
	m.used[typeName(t)+"."+p.name] = true
	var enum []any
	for _, w := range words {
		enum = append(enum, w)
	}
	of := p.schema
	if choices, ok := of["anyOf"].([]any); ok {
		of = choices[0].(map[string]any)
	}
	of["enum"] = enum
}

// Each entry of wordsOf is of a field that some output has.
func TestWordsAreOfFields(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for command, types := range schemaTypes() {
		m, err := newSchemaMaker()
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range types {
			for of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			m.of(of)
		}
		for name := range m.used {
			used[name] = true
		}
		if !slices.Contains(m.errors, "usage") {
			t.Fatalf("%s: kinds of errors: %q", command, m.errors)
		}
	}
	for name := range wordsOf {
		if !used[name] {
			t.Errorf("no output has a field %s", name)
		}
	}
}
