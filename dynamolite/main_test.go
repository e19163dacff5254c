package dynamolite_test

import (
	"os"
	"testing"
)

// TestMain lets a test start this binary again as a process that it kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		os.Exit(crashingWriter(dir))
	}
	os.Exit(m.Run())
}
