//go:build conformance

// Package peers starts the real counterparts that conformance tests run against. Command
// make conformance installs them. A missing counterpart fails the test that asks for it,
// because a skipped comparison looks like a passed one.
package peers

import (
	"os"
	"path/filepath"
	"testing"
)

// dir is the directory in which the script install puts the counterparts: PEERS_DIR, or
// else .cache/peers in the repository.
func dir(tb testing.TB) string {
	tb.Helper()
	if dir := os.Getenv("PEERS_DIR"); dir != "" { //nolint:forbidigo // make passes the directory in the environment
		return dir
	}
	at, err := os.Getwd()
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			return filepath.Join(at, ".cache", "peers")
		}
		up := filepath.Dir(at)
		if up == at {
			tb.Fatal("peers: no go.work above the working directory; set PEERS_DIR")
		}
		at = up
	}
}

// require returns the path of an installed file and fails the test without it.
func require(tb testing.TB, name ...string) string {
	tb.Helper()
	path := filepath.Join(append([]string{dir(tb)}, name...)...)
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("peers: %v; run make conformance, which installs it", err)
	}
	return path
}
