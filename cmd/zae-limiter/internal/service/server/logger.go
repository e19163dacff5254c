package server

import (
	"errors"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// Logger writes lines of JSON without names of entities, which may be keys of users. Of an error it
// writes the kind, and the text of the innermost cause unless the limiter made that: the text of the
// others may have names.
func Logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if !slices.Contains(mayLog, a.Key) {
			return slog.Attr{}
		}
		if err, ok := a.Value.Any().(error); ok {
			return slog.String(a.Key, textOf(err))
		}
		return a
	}}))
}

// mayLog are the attributes that have no names of entities. Others are left out: libraries log
// what they like.
var mayLog = []string{
	slog.TimeKey, slog.LevelKey, slog.MessageKey, "resource", "error", "shard", "ahead_ms", "call", "code", "wait_seconds", "url", "files", "text", "version",
}

// own is how the paths of packages begin that put names in their errors.
var own = strings.TrimSuffix(reflect.TypeFor[limiter.Lease]().PkgPath(), "/")

// textOf is an error without names.
func textOf(err error) string {
	kind, cause := limiter.ErrorKind(err), innermost(err)
	t := reflect.TypeOf(cause)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if strings.HasPrefix(t.PkgPath(), own) {
		return kind
	}
	return kind + ": " + cause.Error()
}

// innermost is the cause of an error. Of several it is that of the last one: the first is a condition
// for programs.
func innermost(err error) error {
	for {
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			if all := several.Unwrap(); len(all) > 0 {
				err = all[len(all)-1]
				continue
			}
		}
		inside := errors.Unwrap(err)
		if inside == nil {
			return err
		}
		err = inside
	}
}
