package app

import (
	"reflect"

	"github.com/spf13/cobra"
)

// Prints declares what a command writes as JSON when it succeeds: a value of one of the
// given types. The schemas in docs/schemas are made of these types. It returns the command.
func (a *App) Prints(cmd *cobra.Command, results ...any) *cobra.Command {
	if a.results == nil {
		a.results = map[*cobra.Command][]reflect.Type{}
	}
	for _, r := range results {
		a.results[cmd] = append(a.results[cmd], reflect.TypeOf(r))
	}
	return cmd
}

// Results are the types that a command declared with [App.Prints]; a command without a result
// has none.
func (a *App) Results(cmd *cobra.Command) []reflect.Type { return a.results[cmd] }
