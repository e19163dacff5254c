package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

type checkOptions struct{ app *app.App }

func newCheck(a *app.App) *cobra.Command {
	o := &checkOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "check",
		Short: "Check whether this program works with the table, and what permissions are missing",
		Long: "Check whether this program works with the table: versions, keys, indexes and their\n" +
			"projections, expiry, stream, point-in-time recovery, a second aggregator, and the namespace\n" +
			"of --namespace.\n\n" +
			"The command also tries each operation with the present credentials, and names the IAM\n" +
			"actions that are refused. It writes nothing: reads ask for keys that do not exist, and writes\n" +
			"have conditions that cannot hold. The trial of BatchWriteItem, which has no conditions,\n" +
			"deletes a key that does not exist. The trial of the stream reads at its end.\n\n" +
			"Exit codes: 0 compatible, 1 not.",
	}), &checkView{})
}

// finding is a finding in JSON.
type finding struct {
	What string `json:"message"`
	Do   string `json:"hint,omitempty"`
}

// permission is a trial of an IAM action in JSON.
type permission struct {
	Action   string    `json:"action"`  // action of IAM
	Resource string    `json:"arn"`     // what the action was tried on
	Use      admin.Use `json:"use"`     // what needs the action
	Allowed  bool      `json:"allowed"` // the trial was not refused
	Message  string    `json:"message,omitempty"`
}

// checkView is the result in JSON.
type checkView struct {
	Compatible  bool              `json:"compatible"` // there is no problem
	Client      string            `json:"client_version"`
	Problems    []finding         `json:"problems"`    // why the program does not work with the table
	Warnings    []finding         `json:"warnings"`    // what does not work, or works worse
	Permissions []permission      `json:"permissions"` // one trial for each action of IAM
	Table       *manage.TableView `json:"table"`
}

// Run checks the table.
func (o *checkOptions) Run(ctx context.Context) error {
	table, err := o.app.StreamedTable(ctx)
	if err != nil {
		return err
	}
	r, err := table.Check(ctx, o.app.Flags.Namespace)
	if err != nil {
		return err
	}
	v := checkViewOf(r)
	if err := o.app.Print(v, v.text); err != nil || v.Compatible {
		return err
	}
	return app.ErrShown
}

func checkViewOf(r *admin.Report) *checkView {
	v := &checkView{
		Compatible: len(r.Problems) == 0, Client: dynamo.ClientVersion, Table: manage.TableViewOf(r.Description),
		Problems: findings(r.Problems), Warnings: findings(r.Warnings),
	}
	for i := range r.Permissions {
		p := &r.Permissions[i]
		shown := permission{Action: p.Action, Resource: p.Resource, Use: p.Use, Allowed: p.Err == nil}
		if p.Err != nil {
			shown.Message = p.Err.Error()
		}
		v.Permissions = append(v.Permissions, shown)
	}
	return v
}

func findings(found []admin.Finding) []finding {
	views := make([]finding, len(found))
	for i, f := range found {
		views[i] = finding(f)
	}
	return views
}

// text writes the result for people.
func (v *checkView) text(w *strings.Builder) {
	result := "compatible"
	if !v.Compatible {
		result = "not compatible"
	}
	app.Fields(w, "Table", v.Table.Name, "Result", result, "Client version", v.Client)
	app.WriteVersions(w, v.Table.Versions)
	allowed := 0
	for _, p := range v.Permissions {
		if p.Allowed {
			allowed++
		}
	}
	app.Fields(w, "Permissions", fmt.Sprintf("%d of %d trials allowed", allowed, len(v.Permissions)))
	list := func(title string, found []finding) {
		for _, f := range found {
			fmt.Fprintf(w, "%s: %s\n", title, f.What)
			if f.Do != "" {
				fmt.Fprintf(w, "  Do: %s\n", f.Do)
			}
		}
	}
	list("Problem", v.Problems)
	list("Warning", v.Warnings)
}
