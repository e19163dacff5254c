package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

type searchOptions struct {
	app *app.App
	subject
	action action

	archive    app.ArchiveFlags
	all        bool
	start, end string
	query      archive.Query
}

const aboutSearch = `Search the archive of expired audit events that the table has deleted. Command
zae-limiter aggregate --archive stores them. Results are listed by day, and within a
day by event ID, newest first. To list events that are still in the table, use
zae-limiter audit list.

The search covers the namespace --namespace, including deleted namespaces of that name.
It reads only the days from --start to --end, and only as much as it takes to find as
many events as --max allows. The command reports damaged objects and searches the
rest; its exit code is then 1.`

func newSearch(a *app.App) *cobra.Command {
	o := &searchOptions{app: a}
	cmd := &cobra.Command{
		Use:   "search",
		Short: "Search the archive of events that have expired",
		Long:  aboutSearch,
		Example: "  zae-limiter audit search --from-archive s3://trail/limits --entity key-1 --start 2026-01-01\n" +
			"  zae-limiter audit search --from-archive s3://trail/limits --all-namespaces --principal ann",
		Args: app.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.Run(cmd.Context(), o) },
	}
	o.bind(cmd)
	o.archive.Bind(cmd, "from-archive", "`URL` of the archive, s3://BUCKET/PREFIX")
	f := cmd.Flags()
	f.BoolVar(&o.all, "all-namespaces", false, "search the events of all namespaces, and those about namespaces")
	o.action.bind(cmd)
	f.StringVar(&o.query.Principal, "principal", "", "only changes that this `principal` made")
	f.StringVar(&o.start, "start", "", "first `time` of a change, 2006-01-02 or 2006-01-02T15:04:05Z")
	f.StringVar(&o.end, "end", "", "last `time` of a change; of a date, the whole day")
	f.IntVar(&o.query.Limit, "max", archive.DefaultLimit, fmt.Sprintf("maximum `number` of events, up to %d", archive.MaxLimit))
	f.StringVar(&o.query.Cursor, "cursor", "", "continue after a page, with the `cursor` that ended it")
	return a.Prints(cmd, searchView{})
}

// Validate reads the flags into the query.
func (o *searchOptions) Validate() (err error) {
	if _, ok := o.app.Flags.Given("namespace"); ok && o.all {
		return errors.New("--namespace and --all-namespaces contradict each other")
	}
	if err := o.archive.Validate(o.app); err != nil {
		return err
	}
	if o.archive.URL == "" {
		return errors.New("say where the archive is: --from-archive s3://BUCKET/PREFIX; events that the table still has are listed by zae-limiter audit list")
	}
	if err := o.action.validate(); err != nil {
		return err
	}
	o.query.Action = o.action.name
	switch o.given() {
	case 0:
	case 1:
		if o.query.Entity, err = o.name(); err != nil {
			return err
		}
	default:
		return errSubject
	}
	if !o.all && o.namespace == "" {
		o.query.Namespace = o.app.Flags.Namespace
	}
	if o.query.Limit < 1 || o.query.Limit > archive.MaxLimit {
		return fmt.Errorf("invalid --max %d: give 1 to %d", o.query.Limit, archive.MaxLimit)
	}
	o.query.Start, o.query.End, err = app.ParseRange(o.start, o.end)
	return err
}

// Run searches, and fails at the end if it could not read some objects.
func (o *searchOptions) Run(ctx context.Context) error {
	a, err := o.app.Archive(ctx, &o.archive, nil)
	if err != nil {
		return err
	}
	page, err := a.Search(ctx, o.query)
	if err != nil {
		return err
	}
	if err := o.print(&page); err != nil || len(page.Unread) == 0 {
		return err
	}
	unread := make([]error, len(page.Unread))
	for i, e := range page.Unread {
		unread[i] = e
	}
	return fmt.Errorf("%d objects could not be read completely; the rest was searched:\n%w", len(unread), errors.Join(unread...))
}

// found is an archived event in JSON.
type found struct {
	NamespaceID string  `json:"namespace_id"`
	Namespace   *string `json:"namespace"`
	view
}

// unread is an unreadable object, in JSON.
type unread struct {
	Object  string `json:"object"`         // name of the object in the archive
	Line    int    `json:"line,omitempty"` // line of the object
	Message string `json:"message"`
}

// searchView is the result in JSON.
type searchView struct {
	Events []found `json:"events"` // the events, the oldest first
	Cursor *string `json:"cursor"`
	Note   string  `json:"note,omitempty"` // why there are none
	// Unread has the objects that could not be read completely.
	Unread []unread `json:"unread,omitempty"`
}

func (o *searchOptions) print(page *archive.Page) error {
	v := searchView{Events: make([]found, len(page.Events)), Cursor: orNull(page.Cursor)}
	v.Note = o.action.none(o.app, len(page.Events)+len(page.Unread) == 0 && page.Cursor == "", "the archive has no such event from --start to --end; events that have not expired are in the table: see zae-limiter audit list")
	header := []string{"TIME", "ENTITY", "ACTION", "PRINCIPAL", "RESOURCE", "DETAILS"}
	rows := make([][]string, len(page.Events))
	for i := range page.Events {
		e := &page.Events[i]
		v.Events[i] = found{e.NamespaceID, orNull(e.Namespace), viewOf(&e.Event)}
		rows[i] = []string{e.Time.Format(time.RFC3339), e.Entity, e.Action, e.Principal, e.Resource, pairs(e.Details)}
		if o.all {
			rows[i] = append([]string{cmp.Or(e.Namespace, e.NamespaceID)}, rows[i]...)
		}
	}
	if o.all {
		header = append([]string{"NAMESPACE"}, header...)
	}
	for _, e := range page.Unread {
		v.Unread = append(v.Unread, unread{e.Object, e.Line, e.Err.Error()})
	}
	return o.app.Print(v, func(w *strings.Builder) {
		app.Table(w, header, rows)
		if page.Cursor != "" {
			fmt.Fprintf(w, "\nThere is more: --cursor %s\n", page.Cursor)
		}
	})
}
