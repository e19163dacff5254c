package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// local opens the database of the flag --local, once.
func (a *App) local() (dynamo.API, error) {
	if a.engine != nil {
		return a.engine, nil
	}
	db, err := dynamolite.Open(dynamolite.Options{Dir: a.Flags.Local, Now: a.Now, Logger: a.Logger()})
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

// exists fails where --local names no directory: there is no table in it.
func (a *App) exists() error {
	if a.Flags.Local == "" {
		return nil
	}
	if _, err := os.Stat(a.Flags.Local); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no directory %s: %w", a.Flags.Local, &limiter.NotFoundError{Kind: "table", Name: a.Flags.Table})
	}
	return nil // what else is wrong opening it will tell
}

// close ends what was opened, so that the next program can open it.
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
