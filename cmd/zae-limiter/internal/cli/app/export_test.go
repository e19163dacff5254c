package app

import "io"

// BarOn is a bar on a block.
func BarOn(l *Live, name string) *Bar { return &Bar{live: l, name: name} }

// Kinds are the kinds of errors in JSON.
func Kinds() []string {
	all := []string{kindOf(&UsageError{}), kindOf(io.EOF)}
	for _, k := range kinds {
		all = append(all, k.name)
	}
	return all
}

// Plain is the part of [Strict] that reads values.
var Plain = plain
