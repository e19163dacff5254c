package httpapi

import (
	"errors"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

// errMoved says that what is to be changed is not as the caller has seen it.
var errMoved = errors.New("it is not as it was read, and nothing is changed: read it again, and look at what is different")

// A seen is what the caller of a change has read. The zero value is nothing that would have to hold still: the
// change is made whatever is there. The write of a change requires what the answers here were about (ADR 076).
type seen struct {
	tags  []string // one of which must be that of what is there
	isNew bool     // nothing must be there
}

// seenAs is what the fields If-Match say, or else If-None-Match.
func seenAs(matches []string, isNew bool) seen {
	s := seen{isNew: isNew}
	for _, field := range matches {
		for tag := range strings.SplitSeq(field, ",") {
			s.tags = append(s.tags, strings.TrimSpace(tag))
		}
	}
	return s
}

// isAny reports whether nothing has to hold still.
func (s seen) isAny() bool { return !s.isNew && s.tags == nil }

// judge accepts what has a tag; "" is nothing.
func (s seen) judge(tag string) error {
	if s.isNew && tag == "" || !s.isNew && tag != "" && (slices.Contains(s.tags, "*") || slices.Contains(s.tags, tag)) {
		return nil
	}
	return errMoved
}

// level is the question about a level; nil if there is none.
func (s seen) level(k store.ConfigKey) func(*store.Config) error {
	if s.isAny() {
		return nil
	}
	return func(was *store.Config) error {
		if was == nil {
			return s.judge("")
		}
		l := manage.LevelOf(k, was)
		return s.judge(l.Tag())
	}
}

// entity is the question about the record of an entity; nil if there is none.
func (s seen) entity() func(*store.Entity) error {
	if s.isAny() {
		return nil
	}
	return func(was *store.Entity) error {
		e := manage.EntityOf(was)
		return s.judge(e.Tag())
	}
}
