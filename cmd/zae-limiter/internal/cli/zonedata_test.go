package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// The version of the time zone data that the program embeds is that of the Go release in use, whose sources record it. If
// this test fails after an update of Go, add a row to the table in zonedata.go.
func TestEmbeddedTimeZones(t *testing.T) {
	t.Parallel()
	//nolint:staticcheck // A test runs where Go is.
	script, err := os.ReadFile(filepath.Join(runtime.GOROOT(), "lib", "time", "update.bash"))
	if err != nil {
		t.Fatal(err)
	}
	data := regexp.MustCompile(`(?m)^DATA=(\w+)$`).FindSubmatch(script)
	if data == nil {
		t.Fatal("update.bash of the Go release does not say DATA=")
	}
	if got := cli.ZonesOf(func(string) string { return "" }, nil); got.Version != string(data[1]) || got.Source != "built in, of "+runtime.Version() {
		t.Errorf("the program embeds time zones %s; %s has %s", got, runtime.Version(), data[1])
	}
}

// A folder comes before what is built in, $ZONEINFO before the folders, and a folder without zones does not count.
func TestZonesOf(t *testing.T) {
	t.Parallel()
	folder := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	const zone = "Europe/Berlin"
	empty := folder(map[string]string{"tzdata.zi": "# version 1999a\n"})
	linux := folder(map[string]string{zone: "", "tzdata.zi": "# version 2025b\n# more\n"})
	bsd := folder(map[string]string{zone: "", "+VERSION": "2024a"})
	bare := folder(map[string]string{zone: ""})
	file := filepath.Join(folder(map[string]string{"zones.zip": ""}), "zones.zip")
	for name, tt := range map[string]struct {
		set     string
		folders []string
		want    string
	}{
		"the first folder with zones": {"", []string{empty, linux, bsd}, "2025b (" + linux + ")"},
		"another record":              {"", []string{bsd}, "2024a (" + bsd + ")"},
		"no record":                   {"", []string{bare}, "of a version that is not recorded (" + bare + ")"},
		"the environment":             {bsd, []string{linux}, "2024a (" + bsd + ")"},
		"a file in the environment":   {file, []string{linux}, "of a version that is not recorded (" + file + ")"},
		"nothing in the environment":  {"/nowhere", []string{linux}, "2025b (" + linux + ")"},
	} {
		if got := cli.ZonesOf(func(string) string { return tt.set }, tt.folders).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
