package journal_test

import (
	"io"
	"log/slog"
	"maps"
	"slices"
)

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func sortedNames(d *disk) []string { return slices.Sorted(maps.Keys(d.files())) }
