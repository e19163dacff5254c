package app

import "io"

// ShowBar draws a bar at each given part of a thousand, and clears it.
func ShowBar(w io.Writer, parts ...int64) {
	const whole = 1000
	b := &Bar{w: w, name: "measuring"}
	for _, p := range parts {
		b.Show(p, whole)
	}
	b.Clear()
}

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
