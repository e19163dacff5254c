package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
)

func readText(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func operations(t *testing.T) string {
	t.Helper()
	return readText(t, "..", "..", "..", "..", "docs", "operations.md")
}

// alarmName is the name of an alarm in the template, after the stack's.
var (
	alarmName = regexp.MustCompile(`AlarmName: !Sub '\$\{AWS::StackName\}-([a-z0-9-]+)'`)
	alarmRow  = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| .* \\| .* \\| .* \\|$")
	title     = regexp.MustCompile(`"title":"([^"]+)"`)
)

func names(pattern *regexp.Regexp, text string) (all []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return all
}

// The page explains every alarm of the template, and no other.
func TestTheOperationsPageExplainsEveryAlarm(t *testing.T) {
	t.Parallel()
	s, err := deploy.New(deploy.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(operations(t), "\n## Alarms\n")
	section, _, _ = strings.Cut(section, "\n## ")
	want := names(alarmName, s.Source())
	if diff := cmp.Diff(want, names(alarmRow, section)); diff != "" || len(want) == 0 {
		t.Errorf("alarms (-template +page):\n%s", diff)
	}
	for _, widget := range names(title, s.Source()) {
		if !strings.Contains(section, "\n| "+widget+" | ") {
			t.Errorf("the page does not have the widget %q", widget)
		}
	}
}

// command is a command line in the page.
var command = regexp.MustCompile("(?:^|`)zae-limiter ([^`\n#]+)")

// Every command in the page exists and has the flags that it is given.
func TestTheOperationsPageNamesRealCommands(t *testing.T) {
	t.Parallel()
	paths := cli.CommandPaths()
	checked := 0
	for line := range strings.Lines(operations(t)) {
		for _, m := range command.FindAllStringSubmatch(line, -1) {
			words := strings.Fields(m[1])
			var path []string
			for _, p := range paths {
				if len(p) > len(path) && len(p) <= len(words) && slices.Equal(p, words[:len(p)]) {
					path = p
				}
			}
			if len(path) == 0 {
				t.Errorf("there is no command %s", m[1])
				continue
			}
			checked++
			help := readText(t, "testdata", "help", "zae-limiter-"+strings.Join(path, "-")+".txt")
			for _, word := range words[len(path):] {
				flag, _, _ := strings.Cut(word, "=")
				if strings.HasPrefix(flag, "--") && !strings.Contains(help, flag+" ") {
					t.Errorf("%s has no flag %s: %s", strings.Join(path, " "), flag, m[1])
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("found only %d commands", checked)
	}
}
