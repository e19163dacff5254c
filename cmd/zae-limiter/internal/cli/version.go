package cli

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Version is what the build recorded about the program.
type Version struct {
	Module   string // version of the module: v1.2.3, or a pseudo-version; "": not known
	Revision string // commit that was built; "": not known, as when the module came from a proxy
	Time     string // of the commit, as RFC 3339 has it; "" likewise
	Modified bool   // the files built differ from the commit
}

// VersionOf reads the version from build information, of which there is none if it is nil.
func VersionOf(info *debug.BuildInfo) Version {
	if info == nil {
		return Version{}
	}
	v := Version{Module: info.Main.Version}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String is the version as people read it: v1.2.3 (revision 0123456, 2026-01-02T03:04:05Z, modified).
func (v Version) String() string {
	var details []string
	if v.Revision != "" {
		details = append(details, "revision "+v.Revision)
	}
	if v.Time != "" {
		details = append(details, v.Time)
	}
	if v.Modified {
		details = append(details, "modified")
	}
	if len(details) == 0 {
		return v.module()
	}
	return fmt.Sprintf("%s (%s)", v.module(), strings.Join(details, ", "))
}

func (v Version) module() string { return cmp.Or(v.Module, "(unknown)") }

// programView is the version of the program in JSON.
type programView struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`     // commit that was built
	Time     string `json:"committed_at,omitempty"` // when it was committed
	Modified bool   `json:"modified,omitempty"`     // the files built differ from the commit
	Peer     string `json:"peer_version"`

	Zones zonesView `json:"time_zones"` // the time zone data that the program uses
}

// print writes the version, and that of the Python package whose tables the program shares.
func (v Version) print(a *app.App) error {
	zones := zonesOf(a.Getenv, systemZones())
	return a.Print(programView{v.module(), v.Revision, v.Time, v.Modified, dynamo.ClientVersion, zones}, func(w *strings.Builder) {
		v.text(w, zones)
	})
}

// text writes the version for people, and the time zone data.
func (v Version) text(w *strings.Builder, zones zonesView) {
	fmt.Fprintf(w, "zae-limiter %s, on tables of the Python package %s\nTime zones %s\n", v, dynamo.ClientVersion, zones)
}

func newVersion(a *app.App, v Version) *cobra.Command {
	return a.Prints(&cobra.Command{
		Use:   "version",
		Short: "Show the version of this program, and those of a table",
		Long: "Show the version of this program, and of the time zone data that it uses. With --table, show\n" +
			"the versions of that table as well, and whether this program works with them; the exit code\n" +
			"is 1 if it does not.",
		Args: app.Arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, given := a.Flags.Given("table"); !given {
				return v.print(a)
			}
			return a.Run(cmd.Context(), &versionsOptions{a, v})
		},
	}, programView{}, tableVersionView{})
}

// versionsOptions show the versions of the program and of a table.
type versionsOptions struct {
	app     *app.App
	program Version
}

// tableVersionView is the version of the program and those of a table in JSON.
type tableVersionView struct {
	Version string               `json:"version"`
	Peer    string               `json:"peer_version"`
	Zones   zonesView            `json:"time_zones"` // the time zone data that the program uses
	Table   *manage.VersionsView `json:"versions"`
	Status  string               `json:"status"`
}

// Run reads the table's version record.
func (o *versionsOptions) Run(ctx context.Context) error {
	api, err := o.app.ExistingAPI(ctx)
	if err != nil {
		return err
	}
	found, ok, err := dynamo.ReadVersion(ctx, dynamo.Options{API: api, Table: o.app.Flags.Table, Now: o.app.Now})
	if err != nil {
		return err
	}
	var table *manage.VersionsView
	if ok {
		table = (*manage.VersionsView)(&found)
	}
	status := statusOf(found, ok)
	zones := zonesOf(o.app.Getenv, systemZones())
	err = o.app.Print(tableVersionView{o.program.module(), dynamo.ClientVersion, zones, table, status}, func(w *strings.Builder) {
		o.program.text(w, zones)
		app.WriteVersions(w, table)
		app.Fields(w, "Status", status)
	})
	if err == nil && found.Check() != nil {
		return app.ErrShown
	}
	return err
}

// statusOf says how a table's versions agree with this program.
func statusOf(v dynamo.Version, recorded bool) string {
	switch err := v.Check(); {
	case err != nil:
		return err.Error()
	case !recorded:
		return "the table has no version record"
	case v.LambdaIsOlder():
		return "compatible, and the aggregator is older"
	}
	return "compatible"
}

// addVersionFlag gives the root the flag --version, which does what the command version does.
func addVersionFlag(root *cobra.Command, a *app.App, v Version) {
	show := root.Flags().Bool("version", false, "show the version of this program")
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *show {
			return v.print(a)
		}
		return run(cmd, args)
	}
}
