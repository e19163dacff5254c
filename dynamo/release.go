package dynamo

import (
	"cmp"
	"strconv"
	"strings"
)

// A release is a parsed version: X.Y[.Z], with an optional prerelease.
type release struct {
	major, minor, patch int
	pre                 string // "" on a release; every prerelease sorts below the release
}

// parseRelease reads a version string in the spellings of Python packages: a leading v,
// a +local part that is ignored, .devN, and aN, bN or rcN right after the patch, or any
// text after a hyphen.
func parseRelease(s string) (release, bool) {
	s = strings.TrimPrefix(s, "v")
	s, _, _ = strings.Cut(s, "+")
	if base, n, ok := strings.Cut(s, ".dev"); ok && isDigits(n) {
		s = base + "-dev"
	}
	core, pre, prerelease := strings.Cut(s, "-")
	if prerelease && pre == "" {
		return release{}, false
	}
	if i := strings.IndexFunc(core, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); i >= 0 {
		if prerelease || strings.Count(core, ".") != 2 || !isPrerelease(core[i:]) {
			return release{}, false
		}
		core, pre = core[:i], core[i:]
	}
	parts := strings.Split(core, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return release{}, false
	}
	var n [3]int
	for i, p := range parts {
		var err error
		if n[i], err = strconv.Atoi(p); err != nil || !isDigits(p) {
			return release{}, false
		}
	}
	return release{n[0], n[1], n[2], pre}, true
}

func isPrerelease(s string) bool {
	for _, tag := range []string{"a", "b", "rc"} {
		if n, ok := strings.CutPrefix(s, tag); ok && isDigits(n) {
			return true
		}
	}
	return false
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func (r release) compare(other release) int {
	return cmp.Or(
		cmp.Compare(r.major, other.major), cmp.Compare(r.minor, other.minor), cmp.Compare(r.patch, other.patch),
		comparePrerelease(r.pre, other.pre),
	)
}

func comparePrerelease(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	return strings.Compare(a, b)
}
