package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// unitFile is the unit of systemd that operators copy.
var unitFile = filepath.Join(root, "examples/systemd/zae-limiter.service")

// settingOf is the value of a setting that the unit has once.
func settingOf(t *testing.T, unit, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(unit, "\n"+name+"=")
	value, _, _ := strings.Cut(rest, "\n")
	if !found || strings.Contains(rest, "\n"+name+"=") {
		t.Errorf("the unit does not have %s once", name)
	}
	return value
}

// The unit runs a command that exists, with the tokens that it loads, and waits until calls under way have
// ended.
func TestTheUnitOfSystemd(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	unit := string(text)
	line := settingOf(t, unit, "ExecStart")
	words := strings.Fields(line)
	if err := cli.Parse(words[1:], true); err != nil {
		t.Error(err)
	}
	name, _, _ := strings.Cut(settingOf(t, unit, "LoadCredential"), ":")
	if !strings.Contains(line, " --token-file ${CREDENTIALS_DIRECTORY}/"+name+" ") {
		t.Errorf("the service reads other tokens than %s: %s", name, line)
	}
	const drain = (5 + 30 + 2*5) * time.Second // the defaults of --drain-wait, --max-wait and twice --timeout
	if stop, err := time.ParseDuration(settingOf(t, unit, "TimeoutStopSec") + "s"); err != nil || stop < drain {
		t.Errorf("systemd kills the service after %v, and a drain takes %v: %v", stop, drain, err)
	}
}
