package store

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// A Mode is what a limit does to the requests that name it (ADR 062).
type Mode uint8

// The modes of a [Limit].
const (
	// Enforce refuses requests for more than the limit holds. It is the default.
	Enforce Mode = iota
	// Shadow refuses nobody. The limit is debited by the requests that it would have admitted.
	// The others are counted as consumed, and move no balance.
	Shadow
	// Off refuses nobody, and says nothing. All requests are counted as consumed, and move no
	// balance.
	Off
)

var modes = [...]string{Enforce: "enforce", Shadow: "shadow", Off: "off"}

// String is the name of the mode: "enforce", "shadow" or "off".
func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m]
	}
	return "mode " + strconv.Itoa(int(m))
}

// allEntities is the percentage of a mode that holds for all entities.
const allEntities = 100

// ModeText is the mode of the limit as text: "shadow", or "shadow 80%" if the mode holds for 80 %
// of entities.
func (l Limit) ModeText() string {
	if l.Percent == 0 {
		return l.Mode.String()
	}
	return fmt.Sprintf("%s %d%%", l.Mode, l.Percent)
}

// InMode is the limit in the mode that a text says, as [Limit.ModeText] writes it. The blank is
// optional. The error is a [*ValidationError].
func (l Limit) InMode(text string) (Limit, error) {
	name, percent := strings.TrimSpace(text), 0
	if i := strings.IndexAny(name, " 0123456789"); i >= 0 {
		digits, has := strings.CutSuffix(strings.TrimSpace(name[i:]), "%")
		n, err := strconv.Atoi(digits)
		if err != nil || !has || n < 1 || n > allEntities {
			return l, &ValidationError{Field: "mode", Value: text, Reason: "give enforce, shadow or off, and after the last two maybe a percentage of entities from 1% to 100%"}
		}
		name, percent = name[:i], n%allEntities
	}
	for m, is := range modes {
		if is == name {
			l.Mode, l.Percent = Mode(m), percent //nolint:gosec // three
			return l, l.validateMode(func(name string) string { return name })
		}
	}
	return l, &ValidationError{Field: "mode", Value: text, Reason: "give enforce, shadow or off"}
}

// validateMode reports what a limit of its mode cannot have.
func (l Limit) validateMode(field func(name string) string) error {
	switch {
	case int(l.Mode) >= len(modes):
		return &ValidationError{Field: field("mode"), Value: strconv.Itoa(int(l.Mode)), Reason: "give Enforce, Shadow or Off"}
	case l.Percent < 0 || l.Percent > allEntities:
		return &ValidationError{Field: field("percent"), Value: strconv.Itoa(l.Percent), Reason: "give a percentage of entities from 1 to 100, or none for all"}
	case l.Percent != 0 && l.Mode == Enforce:
		return &ValidationError{Field: field("percent"), Value: strconv.Itoa(l.Percent), Reason: "give the percentage of entities that are in shadow: the others are enforced"}
	case l.Soft && l.Mode != Enforce:
		return &ValidationError{Field: field("mode"), Value: l.Mode.String(), Reason: "a soft limit refuses nobody: give either soft or a mode"}
	}
	return nil
}

// Of is the limit as it is for an entity: a mode for a percentage of entities is that mode, or
// [Enforce]. The same entities have it always, on all limits; a larger percentage adds others.
func (l Limit) Of(entity string) Limit {
	if l.Percent != 0 && bucketOf(entity) >= l.Percent {
		l.Mode = Enforce
	}
	l.Percent = 0
	return l
}

// bucketOf divides entities into a hundred parts, by a hash.
func bucketOf(entity string) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(entity))
	x := h.Sum64()
	x ^= x >> 33 // the lower bits of the hash depend on the last letters most
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return int(x % allEntities) //nolint:gosec // below 100
}

// Refuses reports whether the limit refuses requests, as it is for every entity: it is enforced,
// and not soft.
func (l Limit) Refuses() bool { return !l.Soft && l.Mode == Enforce }
