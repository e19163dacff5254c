package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Names with a meaning of their own.
const (
	// DefaultResource is the pseudo resource of an entity's default limits. They hold for
	// every resource for which the entity has no limits of its own. DefaultResource only
	// names configuration; nothing can be acquired on it.
	DefaultResource = "_default_"
	// WriteLimit is the name of the hidden write limit that every bucket item has: one
	// token for each write to the item's partition.
	WriteLimit = "wcu"
)

// entityMarks are the characters of an entity's ID besides letters and digits.
const entityMarks = "_.-:@"

// Lengths of identifiers, in characters.
const (
	maxEntity    = 256
	maxResource  = 64
	maxLimitName = 64
	maxNamespace = 64
	maxManifest  = 64
)

// CheckEntity reports why id cannot name an entity, as a [*ValidationError]. A valid ID
// has 1 to 256 characters: first a letter or digit, then letters, digits and "_.-:@".
// The whole string must match, so a trailing newline is invalid.
func CheckEntity(id string) error {
	return check("entity", id, maxEntity, isAlphanumeric, entityMarks, "a letter or digit")
}

// CheckResource reports why name cannot name a resource, as a [*ValidationError]. A
// valid name has 1 to 64 characters: first a letter, then letters, digits and "_.-/:".
func CheckResource(name string) error {
	return check("resource", name, maxResource, isLetter, "_.-/:", "a letter")
}

// CheckConfigResource is [CheckResource], but also accepts [DefaultResource], as entity
// configuration does.
func CheckConfigResource(name string) error {
	if name == DefaultResource {
		return nil
	}
	return CheckResource(name)
}

// CheckLimitName reports why name cannot name a limit, as a [*ValidationError]. A valid
// name has 1 to 64 characters: first a letter, then letters, digits and "_.-"; "wcu" is
// reserved.
func CheckLimitName(name string) error {
	if name == WriteLimit {
		return &ValidationError{Field: "limit name", Value: name, Reason: "the name is reserved, choose another"}
	}
	return check("limit name", name, maxLimitName, isLetter, "_.-", "a letter")
}

// CheckNamespace reports why name cannot name a namespace, as a [*ValidationError]. A
// valid name has 1 to 64 characters: first a letter or digit, then letters, digits and
// "_.-:@/". The peer registers any string. This library rejects other names, so that
// names stay readable in keys and logs.
func CheckNamespace(name string) error {
	return check("namespace", name, maxNamespace, isAlphanumeric, "_.-:@/", "a letter or digit")
}

// CheckManifest reports why name cannot name a manifest, as a [*ValidationError]. A valid
// name has 1 to 64 characters: first a letter or digit, then letters, digits and "_.-".
func CheckManifest(name string) error {
	return check("manifest name", name, maxManifest, isAlphanumeric, "_.-", "a letter or digit")
}

func check(field, s string, limit int, first func(byte) bool, rest, firstIs string) error {
	if s != "" && len(s) <= limit && first(s[0]) && consistsOf(s[1:], rest) {
		return nil
	}
	var reason string
	switch {
	case s == "":
		reason = "it is empty"
	case len(s) > limit && utf8.RuneCountInString(s) > limit:
		reason = fmt.Sprintf("use at most %d characters", limit)
	case strings.Contains(s, "#"):
		reason = `"#" separates the parts of a key and cannot be part of a name`
	case !first(s[0]):
		reason = "begin with " + firstIs
	default:
		reason = fmt.Sprintf("use letters, digits and %q only", rest)
	}
	return &ValidationError{Field: field, Value: s, Reason: reason}
}

// consistsOf reports whether a string has only letters, digits and the other given
// characters.
func consistsOf(s, others string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isAlphanumeric(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' }
