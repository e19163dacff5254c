//go:build conformance

package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// systemd takes the unit, and finds little that the service may do beyond its work.
func TestSystemdTakesTheUnit(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatal("systemd-analyze is missing: install systemd")
	}
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	// The program need not be installed.
	text = bytes.ReplaceAll(text, []byte("=/usr/local/bin/zae-limiter "), []byte("=/bin/true "))
	unit := filepath.Join(t.TempDir(), "zae-limiter.service")
	if err := os.WriteFile(unit, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", unit}, {"security", "--offline=true", "--no-pager", "--threshold=15", unit}} { // 1.5 of 10
		if out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput(); err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}
