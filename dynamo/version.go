package dynamo

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// ClientVersion is the version of the Python peer whose wire format this client uses. A
// table's version checks see this client as that version.
const ClientVersion = "0.17.0"

// schemaVersion is the schema version of tables created here.
const schemaVersion = "0.10.0"

// A Version is what a table's version record says about the software for the table.
type Version struct {
	Schema    string // of the table
	ClientMin string // the oldest client the table accepts
	Lambda    string // of the deployed aggregator; "" if there is none
}

// Version returns the table's version record as it was when the store was opened. ok is
// false if there is none, as on a table made by hand.
func (s *Store) Version() (v Version, ok bool) {
	if s.version == nil {
		return Version{}, false
	}
	return Version{s.version.Schema, s.version.ClientMin, s.version.Lambda}, true
}

// checkCompatible compares the client's version with a table's record, as the peer
// does. The client must be as new as the table requires, and of the schema's major
// version. An older aggregator is accepted.
func checkCompatible(v schema.Version) error {
	client, _ := parseRelease(ClientVersion)
	if v.ClientMin != "" {
		least, ok := parseRelease(v.ClientMin)
		if !ok {
			return fmt.Errorf("%w: %s %q is no version: repair the version record",
				store.ErrIncompatible, schema.ClientMinVersion, v.ClientMin)
		}
		if client.compare(least) < 0 {
			return fmt.Errorf("%w: it asks for clients of version %s, and this one presents itself as %s: upgrade this library",
				store.ErrIncompatible, v.ClientMin, ClientVersion)
		}
	}
	if v.Schema == "" {
		return nil
	}
	of, ok := parseRelease(v.Schema)
	if !ok {
		return fmt.Errorf("%w: %s %q is no version: repair the version record",
			store.ErrIncompatible, schema.SchemaVersion, v.Schema)
	}
	if of.major != client.major {
		return fmt.Errorf("%w: its schema is %s, and this client speaks %d.x: migrate the table, or use a client of that schema",
			store.ErrIncompatible, v.Schema, client.major)
	}
	return nil
}

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
