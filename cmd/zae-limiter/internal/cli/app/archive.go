package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
)

// Environment variables that stand in for the flags of an archive.
const (
	EnvArchive         = "ZAEL_ARCHIVE"
	EnvArchiveEndpoint = "ZAEL_ARCHIVE_ENDPOINT"
)

const (
	archiveURL      = "archive"
	archiveEndpoint = "archive-endpoint"
)

// ArchiveFlags say where the archive of audit events is.
type ArchiveFlags struct {
	URL, Endpoint string
	Location      archive.Location // once validated

	set *pflag.FlagSet
}

// Bind adds the flags to a command.
func (f *ArchiveFlags) Bind(cmd *cobra.Command) {
	f.set = cmd.Flags()
	f.set.StringVar(&f.URL, archiveURL, "", "`URL` of the archive of expired audit events, s3://BUCKET/PREFIX,\nelse $"+EnvArchive)
	f.set.StringVar(&f.Endpoint, archiveEndpoint, "", "`URL` of another S3 service, http://localhost:9000 for instance, else\n$"+EnvArchiveEndpoint+"; region and credentials come from the usual places")
}

// Validate reads the environment for flags that were not given, and checks the result.
// Without a URL there is no archive.
func (f *ArchiveFlags) Validate(a *App) (err error) {
	source := fromEnv(f.set, archiveURL, &f.URL, a.Getenv, EnvArchive)
	endpoint := fromEnv(f.set, archiveEndpoint, &f.Endpoint, a.Getenv, EnvArchiveEndpoint)
	if f.URL == "" {
		if f.set.Changed(archiveURL) {
			return fmt.Errorf("invalid --%s \"\": give s3://BUCKET/PREFIX", archiveURL)
		}
		if f.set.Changed(archiveEndpoint) {
			return fmt.Errorf("--%s was given without --%s: give the archive, too", archiveEndpoint, archiveURL)
		}
		return nil
	}
	if f.Location, err = archive.ParseURL(f.URL); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	if f.Endpoint == "" && !f.set.Changed(archiveEndpoint) {
		return nil
	}
	if err := CheckURL(f.Endpoint, "http://localhost:9000"); err != nil {
		return fmt.Errorf("invalid %s %q: %w", endpoint, f.Endpoint, err)
	}
	return nil
}

// Archive opens the archive of the flags. nameOf returns the names of namespaces whose
// events are stored.
func (a *App) Archive(ctx context.Context, f *ArchiveFlags, nameOf func(context.Context, string) (string, error)) (*archive.Archive, error) {
	api, err := a.ConnectArchive(ctx, a.EndpointAt(f.Endpoint))
	if err != nil {
		return nil, err
	}
	return archive.Open(ctx, archive.Options{API: api, Location: f.Location, NameOf: nameOf})
}
