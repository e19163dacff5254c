package cli

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	_ "time/tzdata" // for machines without time zone data; the library leaves the choice to its programs (ADR 042)
)

// embedded has the version of the time zone data in time/tzdata by Go release. Go does not say it, so a test compares the
// release in use with the sources of that release.
var embedded = map[string]string{"go1.26.8": "2025c"}

// A zonesView is the time zone data that the program uses in JSON.
type zonesView struct {
	Version string `json:"version,omitempty"` // release of the IANA database, 2025c for instance; nothing if it is not recorded
	Source  string `json:"source"`            // a folder or file, or the Go release that the program has it from
}

// zonesOf finds out which time zone data package time uses: the first that there is of $ZONEINFO, the folders of the
// operating system, and what the program embeds.
func zonesOf(getenv func(string) string, folders []string) zonesView {
	if set := getenv("ZONEINFO"); set != "" {
		folders = append([]string{set}, folders...)
	}
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err == nil && !info.IsDir() { // a zip, which does not say its version
			return zonesView{Source: folder}
		}
		if _, err := os.Stat(filepath.Join(folder, "Europe", "Berlin")); err == nil {
			return zonesView{recordedIn(folder), folder}
		}
	}
	return zonesView{embedded[runtime.Version()], "built in, of " + runtime.Version()}
}

// systemZones are the folders in which package time looks for time zones.
func systemZones() []string {
	if runtime.GOOS == "windows" {
		return nil
	}
	return []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}
}

// recordedIn reads the version that a folder of zones records: "# version 2025c" begins the source of its zones, and
// +VERSION has nothing else.
func recordedIn(folder string) string {
	for _, name := range []string{"tzdata.zi", "+VERSION"} {
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			continue
		}
		line, _ := bufio.NewReader(f).ReadString('\n') // the last line may end without a line feed
		_ = f.Close()                                  // it was only read
		if v := strings.TrimSpace(strings.TrimPrefix(line, "# version ")); v != "" {
			return v
		}
	}
	return ""
}

// String is the time zone data as people read it.
func (z zonesView) String() string {
	version := z.Version
	if version == "" {
		version = "of a version that is not recorded"
	}
	return version + " (" + z.Source + ")"
}
