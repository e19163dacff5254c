package app

import (
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// Memory is the directory name of an in-memory database, which ends with the program. Only
// a command that creates everything it needs can use it.
const Memory = ":memory:"

// EngineFlags are the flags of an embedded engine.
type EngineFlags struct {
	Limits  dynamolite.Limits
	Latency dynamolite.Latency
}

// Bind adds the flags to a flag set. limits and latency are the defaults in help.
func (f *EngineFlags) Bind(set *pflag.FlagSet, limits, latency string) {
	set.Var(&parsed{&f.Limits, "aws|off|WCU,RCU"}, "partition-limits",
		"throttle each partition as DynamoDB does (aws), or at so\nmany units per second, 1000,3000 for instance (default "+limits+")")
	set.Var(&parsed{&f.Latency, "duration"}, "latency",
		"latency to add to each request: 5ms, or\np50=5ms,p99=20ms (default "+latency+")")
}

// parsed is the value of a flag that dynamolite parses.
type parsed struct {
	target encoding.TextUnmarshaler
	kind   string
}

// String is empty: the default is not shown.
func (*parsed) String() string { return "" }

// Set parses a value.
func (p *parsed) Set(s string) error {
	err := p.target.UnmarshalText([]byte(s))
	if wrong, ok := errors.AsType[*dynamolite.OptionError](err); ok {
		return errors.New("it " + wrong.Problem) // pflag adds the names of the flag and its value
	}
	return err
}

// Type is the value's name in help.
func (p *parsed) Type() string { return p.kind }

// local opens the database of the flag --local, once.
func (a *App) local() (dynamo.API, error) {
	if a.Flags.Local == Memory {
		return nil, Usagef("--local %s has no meaning here: the database would end with this command; give a directory", Memory)
	}
	return a.Engine(dynamolite.Options{Now: a.Now})
}

// Engine opens the database of the flag --local with options, once, or creates one in
// memory for [Memory]. It ignores the options' Dir and Logger.
func (a *App) Engine(o dynamolite.Options) (*dynamolite.DB, error) {
	if a.engine != nil {
		return a.engine, nil
	}
	o.Dir, o.Logger = a.Flags.Local, a.Logger()
	if o.Dir == Memory {
		o.Dir = ""
	}
	db, err := dynamolite.Open(o)
	if errors.Is(err, dynamolite.ErrInUse) {
		return nil, fmt.Errorf("--local %s: %w: if by zae-limiter local, give --endpoint-url with the URL that it printed in place of --local",
			a.Flags.Local, dynamolite.ErrInUse)
	}
	if err != nil {
		return nil, err
	}
	a.engine = db
	return db, nil
}

// exists fails if the directory of --local has no database: opening it would create one.
func (a *App) exists() error {
	if a.Flags.Local == "" || a.Flags.Local == Memory || a.engine != nil {
		return nil
	}
	missing := &limiter.NotFoundError{Kind: "table", Name: a.Flags.Table}
	if _, err := os.Stat(a.Flags.Local); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no directory %s: %w", a.Flags.Local, missing)
	}
	there, err := dynamolite.Exists(a.Flags.Local)
	if err == nil && !there {
		return fmt.Errorf("there is no database in %s: %w", a.Flags.Local, missing)
	}
	return err
}

// close closes the database, so that the next program can open it.
func (a *App) close() error {
	if a.engine == nil {
		return nil
	}
	db := a.engine
	a.engine = nil
	if err := db.Close(); err != nil {
		return fmt.Errorf("close the database in %s: %w", a.Flags.Local, err)
	}
	return nil
}
