package app

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// errNoAdministration ends a command on an API that cannot administer tables.
var errNoAdministration = errors.New("this connection cannot administer tables")

// Table is a handle of the flags' table. It creates nothing.
func (a *App) Table(ctx context.Context) (*admin.Table, error) {
	return a.OtherTable(ctx, a.Flags.Table)
}

// OtherTable is [App.Table] for another table on the same connection.
func (a *App) OtherTable(ctx context.Context, name string) (*admin.Table, error) {
	api, err := a.ExistingAPI(ctx)
	if err != nil {
		return nil, err
	}
	return a.administer(api, name, nil)
}

// StreamedTable is [App.Table] with a client of the table's stream.
func (a *App) StreamedTable(ctx context.Context) (*admin.Table, error) {
	api, err := a.ExistingAPI(ctx)
	if err != nil {
		return nil, err
	}
	streams, err := a.Streams(ctx, api)
	if err != nil {
		return nil, err
	}
	return a.administer(api, a.Flags.Table, streams)
}

func (a *App) administer(api dynamo.API, name string, streams stream.API) (*admin.Table, error) {
	full, ok := api.(admin.API)
	if !ok {
		return nil, errNoAdministration
	}
	return admin.New(admin.Options{API: full, Table: name, Streams: streams, Now: a.Now, Logger: a.Logger(), Progress: a.tellWaiting()})
}

// tellWaiting writes a line of progress every few seconds, for people.
func (a *App) tellWaiting() func(admin.Progress) {
	const every = 5 * time.Second
	told := time.Duration(0)
	return func(p admin.Progress) {
		if p.For < told {
			told = 0 // it waits for something else now
		}
		if p.For-told < every {
			return
		}
		told = p.For
		a.Notef("waiting for %s, %s so far", p.Waiting, p.For.Round(time.Second))
	}
}
