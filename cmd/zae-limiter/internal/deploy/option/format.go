package option

import (
	"cmp"
	"strings"
)

// Placeholder stands for the name of a component in the format of a name.
const Placeholder = "{}"

// Prefix is what a format has before the placeholder: a template cannot take a format apart.
func Prefix[O any](parameter string, format func(*O) *string) Row[O] {
	return Row[O]{
		Parameter: parameter,
		Get:       func(o *O) string { before, _, _ := strings.Cut(*format(o), Placeholder); return before },
		Set:       func(o *O, v string) error { *format(o) = v + Placeholder; return nil },
	}
}

// Suffix is what a format has after the placeholder. Its row follows the prefix.
func Suffix[O any](parameter string, format func(*O) *string) Row[O] {
	return Row[O]{
		Parameter: parameter,
		Get:       func(o *O) string { _, after, _ := strings.Cut(*format(o), Placeholder); return after },
		Set:       func(o *O, v string) error { *format(o) = cmp.Or(*format(o), Placeholder) + v; return nil },
	}
}
