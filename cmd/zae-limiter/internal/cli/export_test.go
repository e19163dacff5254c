package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// Root returns the command of the program.
func Root() *cobra.Command { return newRoot(&app.App{}, Version{}) }

// ZonesOf is zonesOf.
var ZonesOf = zonesOf

// IsGlobal reports whether a flag is one that many commands have.
func IsGlobal(name string) bool {
	for _, section := range global {
		if slices.Contains(section.flags, name) {
			return true
		}
	}
	return false
}

// CommandPaths are the words of each command; the root has none.
func CommandPaths() [][]string {
	var paths [][]string
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		paths = append(paths, path)
		for _, c := range cmd.Commands() {
			walk(c, append(slices.Clip(path), c.Name()))
		}
	}
	walk(Root(), nil)
	return paths
}

// Incomplete lists the flags that take a value and the arguments that have no completer, and
// the completers that no flag or argument has. Numbers and durations need none.
func Incomplete() (missing, unused []string) {
	entries := map[string]bool{}
	for kind, all := range map[string]map[string]completer{"flag ": flags, "flag of ": flagsOf, "argument ": argumentsNamed, "argument of ": argumentsOf} {
		for name := range all {
			entries[kind+name] = true
		}
	}
	each(Root(), func(cmd *cobra.Command) {
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			delete(entries, "flag "+f.Name)
			delete(entries, "flag of "+path+" "+f.Name)
			if _, ok := flagCompleter(cmd, f); !ok && f.NoOptDefVal == "" && !slices.Contains([]string{"int", "uint64", "float64", "duration"}, f.Value.Type()) {
				missing = append(missing, path+" --"+f.Name)
			}
		})
		for i, name := range arguments(cmd) {
			delete(entries, "argument "+name)
			delete(entries, "argument of "+path+" "+name)
			if _, ok := argumentCompleter(cmd, i); !ok {
				missing = append(missing, path+" "+name)
			}
		}
	})
	return missing, slices.Collect(maps.Keys(entries))
}

// AcceptEmpty lists the flags for a file that take an empty name for none.
func AcceptEmpty() (names []string) {
	each(newRoot(&app.App{}, Version{}), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if what, _ := pflag.UnquoteUsage(f); what == "file" && f.Value.Set("") == nil {
				names = append(names, cmd.CommandPath()+" --"+f.Name)
			}
		})
	})
	return names
}

// WatchOn shows standings on a terminal as the command watch does, one after another.
func WatchOn(w io.Writer, columns, rows int, standings ...*limiter.Standing) error {
	o := &watchOptions{bucketArgs: bucketArgs{&app.App{}, "key-1", "gpt-4"}, every: time.Second, last: map[watched]int64{}}
	live := app.LiveOn(w, func() (int, int) { return columns, rows })
	for i, s := range standings {
		look := &glance{standing: s, at: time.Unix(int64(i), 0).UTC(), looks: i + 1}
		if err := o.show(live, look); err != nil {
			return err
		}
	}
	return nil
}

// CommandOf returns the words of the command that arguments run, and whether it is one: a
// group of commands only prints help.
func CommandOf(args []string) (path string, isCommand bool) {
	cmd, _, err := Root().Find(args)
	if err != nil {
		return "", false
	}
	_, path, _ = strings.Cut(cmd.CommandPath(), " ")
	return path, !cmd.HasSubCommands()
}

// Results returns what each command declares to print as JSON, by the words of the command.
func Results() map[string][]reflect.Type {
	a := &app.App{}
	root := newRoot(a, Version{})
	results := map[string][]reflect.Type{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if _, path, _ := strings.Cut(cmd.CommandPath(), " "); !cmd.HasSubCommands() {
			results[path] = a.Results(cmd)
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
	return results
}

// Parse checks the command and the flags of a command line, and the other arguments if it is
// whole. Nothing is run.
func Parse(args []string, whole bool) error {
	root := Root()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return err
	}
	if others := cmd.Flags().Args(); cmd.HasSubCommands() && len(others) > 0 {
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), others[0])
	}
	if !whole {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// HoldUnder runs a command under a lease.
func HoldUnder(ctx context.Context, a *app.App, lease *limiter.Lease, command ...string) error {
	o := &holdOptions{asking: asking{app: a}, command: command}
	return o.under(ctx, lease)
}
