// Package replay has the command that decides a log under limits from a file.
package replay

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
)

type options struct {
	*Logs

	limits       string // the manifest's file
	refuseAtMost app.Share
	page         string // the HTML file
}

const about = `Decide the events of logs under limits from a file, and tell what the limits would have
done: who is refused, when and for how long, and how far below the limits the rest is.

FILE is a log, plain or compressed with gzip; - is standard input. The events of several
files are merged by time. Formats:
  json            an object a line; --entity usage.key names the key usage.key, or the key
                  of an object within an object
  csv             with a header; separated by commas, semicolons, tabs or bars; quoted
                  values may have line breaks
  w3c             with a line #Fields: CloudFront, IIS; columns as named there
  common          columns host ident user time request status bytes
  combined        as common, and referer user_agent
  vhost_combined  as combined, behind vhost port
  main            of nginx's packages: as combined, and forwarded_for
  alb, elb        of AWS's application and classic load balancers: columns as AWS names them
  envoy           Envoy's default: time request status flags received_bytes sent_bytes
                  duration upstream_service_time forwarded_for user_agent request_id
                  authority upstream_host
Any other text is a list of columns, as log_format of nginx: '$host [$time] "$request"'.
A list that ends in " ..." leaves out what follows. From common on, there are also the
columns method target path protocol of the request, and client_ip: the first address of
forwarded_for, if a line has one, and else the client. Clients can write forwarded_for.

NAME[0] is the first value of a list (a JSON array, or text with commas), NAME[-1] the
last. A line that does not fit the format, or has no time, entity or resource, is left out
and counted. So is one without any cost; one without some counts for the other limits.

The limits are a manifest, as for zae-limiter limits. An event takes its cost of every
limit of its entity's bucket, and of its parent's, or of none. Buckets begin full. Entity
and resource may be any text; only the manifest's names follow the limiter's rules.

Decisions are those of the limiter for a bucket of one shard and exact clocks. Latency,
shards, settlements of leases, and what callers do after a refusal are not modelled. Memory
grows with the number of buckets, not with the number of events. --refuse-at-most keeps the
events in a temporary file of 4 to 10 bytes each for most logs.`

// New is the command replay.
func New(a *app.App) *cobra.Command {
	o := &options{Logs: NewLogs(a)}
	cmd := a.Command(o, &cobra.Command{
		Use:   "replay FILE...",
		Short: "Tell what limits would have done to what happened",
		Long:  about,
		Example: "  zae-limiter replay requests.jsonl --limits limits.yaml --entity api_key --resource model \\\n" +
			"    --cost rpm=1 --cost tpm=usage.total_tokens --html report.html\n" +
			"  zae-limiter replay access.log.*.gz --limits requests.yaml --refuse-at-most 0.1%",
	}, &o.Files)
	o.bind(cmd.Flags())
	return a.Prints(cmd, Report{})
}

func (o *options) bind(f *pflag.FlagSet) {
	f.Var(app.Named(&o.limits), "limits", "manifest `file` with the limits, YAML or JSON (required)")
	o.Bind(f)
	f.Var(&o.refuseAtMost, "refuse-at-most", "propose the smallest limits that refuse at most this share of events:\n0.1% or 0.001 (default no proposals)")
	f.Var(app.Named(&o.page), "html", "`file` to write a page with pictures to")
}

// Validate checks the command line.
func (o *options) Validate() error {
	if o.limits == "" {
		return app.Required("limits", "limits.yaml")
	}
	return o.Logs.Validate()
}

// levels reads the limits, and settles the costs of an event.
func (o *options) levels() (replay.Levels, error) {
	text, err := os.ReadFile(o.limits)
	if err != nil {
		return nil, app.Unread("the limits", err)
	}
	m, err := manifest.Parse(o.limits, text)
	if err != nil {
		return nil, err
	}
	levels := replay.Levels{}
	for key, level := range m.Levels {
		levels[key] = level.Limits
	}
	o.settle(levels.Names())
	return levels, nil
}

// Run decides the logs and shows the result.
func (o *options) Run(ctx context.Context) (err error) {
	levels, err := o.levels()
	if err != nil {
		return err
	}
	var spool *replay.Spool
	if o.flags.Changed("refuse-at-most") {
		if spool, err = replay.NewSpool(""); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, spool.Close()) }()
	}
	out, r, err := o.Decide(ctx, levels, spool)
	if err != nil {
		return err
	}
	if spool != nil {
		if out.Proposals, err = r.Propose(ctx, float64(o.refuseAtMost)); err != nil {
			return err
		}
	}
	if o.page != "" {
		if err := o.writePage(out); err != nil {
			return err
		}
	}
	return o.app.Print(out, out.Text)
}
