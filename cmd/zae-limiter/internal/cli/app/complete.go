package app

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"
)

// completionTime is how long a completion may wait for a table. A person has pressed a key,
// and waits.
const completionTime = 2 * time.Second

// Propose reads proposals for what a person types, who waits for them: for at most two
// seconds, and without a word if the flags are wrong or nothing answers. It returns the
// proposals that begin with typed, by name. It leaves out text that a terminal would obey:
// names come from tables that other programs write, too.
//
// read must change nothing. A large database of --local takes as long as it takes to open.
func (a *App) Propose(ctx context.Context, typed string, read func(context.Context) ([]string, error)) []string {
	stderr := a.Stderr
	a.Stderr = io.Discard // what a store logs would stand in the line that is typed
	defer func() { a.Stderr = stderr }()
	if a.Flags.resolve(a.Getenv) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	found, _ := read(ctx) // what was read before an error is right
	_ = a.close()         // nothing was written
	found = slices.DeleteFunc(found, func(s string) bool { return !strings.HasPrefix(s, typed) || escaped(s) != s })
	slices.Sort(found)
	return slices.Compact(found)
}

// TableNames lists some names of tables on the connection of the flags, for completion.
func (a *App) TableNames(ctx context.Context) ([]string, error) {
	if a.Tables == nil {
		return nil, nil
	}
	api, err := a.ExistingAPI(ctx)
	if err != nil {
		return nil, err
	}
	return a.Tables(ctx, api)
}
