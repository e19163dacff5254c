package cli_test

import (
	"runtime/debug"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// A build records more or less about its version, depending on where it is made.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	built := func(version string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Version: version}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	for name, tt := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"no build information":    {nil, "(unknown)"},
		"of a test":               {built(""), "(unknown)"},
		"go install at a version": {built("v1.2.3", "GOOS", "linux"), "v1.2.3"},
		"go build, not of a commit": {
			built("(devel)", "-buildmode", "exe"), "(devel)",
		},
		"go build of a commit": {
			built("v1.2.3", "vcs", "git", "vcs.revision", "0123abc", "vcs.time", "2026-01-02T03:04:05Z", "vcs.modified", "false"),
			"v1.2.3 (revision 0123abc, 2026-01-02T03:04:05Z)",
		},
		"go build of changed files": {
			built("v1.2.3+dirty", "vcs.revision", "0123abc", "vcs.time", "2026-01-02T03:04:05Z", "vcs.modified", "true"),
			"v1.2.3+dirty (revision 0123abc, 2026-01-02T03:04:05Z, modified)",
		},
	} {
		if got := cli.VersionOf(tt.info).String(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// recorded is the version that the program has in the scripts.
var recorded = cli.Version{Module: "v1.2.3", Revision: "0123abc", Time: "2026-01-02T03:04:05Z", Modified: true}
