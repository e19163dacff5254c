package aggregate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/redrive"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

type redriveOptions struct {
	app               *app.App
	queue             string
	most              int
	dryRun            bool
	discardExpired    bool
	discardUnreadable bool
	dropEvents        bool
	archive           app.ArchiveFlags
}

const aboutRedrive = `Process again what the aggregator's function on AWS Lambda gave up on. Its dead-letter
queue has messages that name ranges of the table's stream. The command reads each range from
the stream, which keeps records for 24 hours, processes it, and deletes the message only
then. You may run it again: it counts nothing twice.

Buckets in use keep their usage themselves. The command saves the usage of buckets that were
deleted in a range. Usage is exact afterwards, whatever the function did with later records.

The command keeps some messages, with one of these states:
  expired     the stream no longer has the range; --discard-expired deletes the message
  unreadable  some records can never be read, the others were processed;
              --discard-unreadable deletes the message
  events      the range has expired audit events: give --archive, or --drop-events
  foreign     the message is about another table, or of another kind
  failed      try again

Exit codes: 0 if every message was processed or discarded, or none was there; 1 if one was kept.`

// NewRedrive is the command redrive.
func NewRedrive(a *app.App) *cobra.Command {
	o := &redriveOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "redrive",
		Short: "Process again what the aggregator's function gave up on",
		Long:  aboutRedrive,
		Example: "  zae-limiter redrive --table limits --dry-run\n" +
			"  zae-limiter redrive --queue-url https://sqs.us-east-1.amazonaws.com/123456789012/limits-dlq --dry-run",
	})
	f := cmd.Flags()
	f.StringVar(&o.queue, "queue-url", "", "`URL` of the dead-letter queue (default that of the stack with\nthe name of the table)")
	f.IntVar(&o.most, "max", redrive.DefaultMax, "largest number of messages")
	f.BoolVar(&o.dryRun, "dry-run", false, "read the ranges, and process and delete nothing")
	f.BoolVar(&o.discardExpired, "discard-expired", false, "delete the messages of ranges that the stream no longer has")
	f.BoolVar(&o.discardUnreadable, "discard-unreadable", false, "delete the messages of ranges with records that can never be read")
	f.BoolVar(&o.dropEvents, "drop-events", false, "process ranges with expired audit events although there is no\narchive; the events are lost")
	o.archive.Bind(cmd)
	return a.Prints(cmd, redriven{})
}

// Validate checks the command line.
func (o *redriveOptions) Validate() error {
	if o.most < 1 {
		return fmt.Errorf("invalid --max %d: give at least 1", o.most)
	}
	if err := o.archive.Validate(o.app); err != nil || o.queue == "" {
		return err
	}
	const example = "https://sqs.us-east-1.amazonaws.com/123456789012/limits-dlq"
	if err := app.CheckURL(o.queue, example); err != nil {
		return fmt.Errorf("invalid --queue-url %q: %w", o.queue, err)
	}
	if u, err := url.Parse(o.queue); err != nil || strings.Trim(u.Path, "/") == "" {
		return fmt.Errorf("invalid --queue-url %q: give the queue after the host, %s for instance", o.queue, example)
	}
	return nil
}

// find looks the queue up in the outputs of the stack, if none was given.
func (o *redriveOptions) find(ctx context.Context) error {
	if o.queue != "" {
		return nil
	}
	flags := &o.app.Flags
	if flags.Local != "" {
		return app.Usagef("missing --queue-url: give the URL of the queue; an embedded database has no stack that names it")
	}
	m, _, err := o.app.Stacks(ctx)
	if err != nil {
		return err
	}
	s, err := m.Find(ctx, flags.Table)
	if err != nil {
		return fmt.Errorf("find the dead-letter queue: %w; or give --queue-url", err)
	}
	if o.queue = s.Outputs[stack.OutputQueue]; o.queue == "" {
		return fmt.Errorf("stack %s has no dead-letter queue: deploy it with an aggregator, or give --queue-url", s.Name)
	}
	return nil
}

// Run processes the messages.
func (o *redriveOptions) Run(ctx context.Context) error {
	o.app.NeedsStream = true
	if err := o.find(ctx); err != nil {
		return err
	}
	api, err := o.app.ExistingAPI(ctx)
	if err != nil {
		return err
	}
	store := dynamo.Options{API: api, Table: o.app.Flags.Table, Now: o.app.Now, Logger: o.app.Logger()}
	keeper, err := openArchive(ctx, o.app, &o.archive, store)
	if err != nil {
		return err
	}
	streams, err := o.app.Streams(ctx, api)
	if err != nil {
		return err
	}
	reader, err := stream.NewFollower(stream.Options{API: api, Table: store.Table, Now: store.Now, Logger: store.Logger, Streams: streams})
	if err != nil {
		return err
	}
	queue, err := o.app.ConnectQueue(ctx, o.app.EndpointAt(o.queue))
	if err != nil {
		return err
	}
	outcomes, err := redrive.Run(ctx, redrive.Options{
		Queue: queue, URL: o.queue, Reader: reader, Table: store.Table, Open: opener(store),
		Aggregator: aggregator.Options{Archive: keeper, Now: store.Now, Logger: store.Logger},
		Max:        o.most, DryRun: o.dryRun,
		DiscardExpired: o.discardExpired, DiscardUnreadable: o.discardUnreadable, DropEvents: o.dropEvents,
	})
	return o.report(outcomes, err)
}

// outcome is what became of a message, in JSON.
type outcome struct {
	ID         string        `json:"message_id"`      // ID of the message in the queue
	Shard      string        `json:"shard,omitempty"` // shard of the stream
	First      string        `json:"first,omitempty"` // sequence number of the first record
	Last       string        `json:"last,omitempty"`  // sequence number of the last record
	State      redrive.State `json:"state"`
	Deleted    bool          `json:"deleted"` // the message was removed from the queue
	Records    int           `json:"records"`
	Unreadable int           `json:"unreadable"`  // records that cannot be read
	Pages      int           `json:"usage_pages"` // deleted buckets whose usage was saved
	Archived   int           `json:"archived_events"`
	Message    string        `json:"message,omitempty"`
}

// redriven is the result in JSON.
type redriven struct {
	Messages []outcome `json:"messages"` // what became of each message
	Kept     int       `json:"kept"`     // messages that stay in the queue, or would
}

// report shows the outcomes, also those before an error. If the first request for messages
// failed, nothing is known of the queue.
func (o *redriveOptions) report(outcomes []redrive.Outcome, err error) error {
	if err != nil && len(outcomes) == 0 {
		return err
	}
	views := make([]outcome, len(outcomes))
	kept := 0
	for i := range outcomes {
		r := &outcomes[i]
		views[i] = outcome{
			r.MessageID, r.Range.Shard, r.Range.First, r.Range.Last, r.State, r.Deleted, r.Records, r.Unreadable, r.Pages, r.Archived, "",
		}
		if r.Err != nil {
			views[i].Message = r.Err.Error()
		}
		goes := o.dryRun && (r.State == redrive.Readable || r.State == redrive.Expired && o.discardExpired)
		if !r.Deleted && !goes {
			kept++
		}
	}
	shown := o.app.Print(redriven{views, kept}, func(w *strings.Builder) {
		writeOutcomes(w, views)
		switch {
		case len(views) == 0:
		case o.dryRun:
			fmt.Fprintf(w, "dry run, nothing was changed: without --dry-run, %d of %d messages would be processed or discarded, and %d would stay\n", len(views)-kept, len(views), kept)
		default:
			fmt.Fprintf(w, "%d of %d messages kept\n", kept, len(views))
		}
	})
	if err == nil && kept > 0 {
		err = app.ErrShown
	}
	return errors.Join(shown, err)
}

func writeOutcomes(w *strings.Builder, views []outcome) {
	if len(views) == 0 {
		w.WriteString("the queue has no messages\n")
		return
	}
	rows := make([][]string, len(views))
	for i, v := range views {
		rows[i] = []string{v.ID, string(v.State), strconv.FormatBool(v.Deleted), limitarg.Grouped(v.Records), limitarg.Grouped(v.Pages)}
	}
	app.Table(w, []string{"MESSAGE", "STATE", "DELETED", "RECORDS", "PAGES"}, rows)
	for _, v := range views {
		if v.Message != "" {
			fmt.Fprintf(w, "%s: %s\n", v.ID, v.Message)
		}
	}
}
