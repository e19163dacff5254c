// Package aggregate has the command that follows a table's stream.
package aggregate

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/function"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// EnvQuiet replaces the flag merge-quiet: a Lambda function has no command line.
const EnvQuiet = "ZAEL_MERGE_QUIET"

const (
	day         = 24 * time.Hour
	defaultKeep = int(usage.DefaultTTL / day)
)

type options struct {
	app     *app.App
	keep    int // days
	reader  string
	poll    time.Duration
	quiet   time.Duration
	metrics string
	level   string
	archive app.ArchiveFlags
	changed func(flag string) bool
}

const about = `Follow the stream of a table: save the usage of buckets that expire, refill buckets
before their users need the tokens, double the shards of the most written buckets, and
merge the shards of quiet buckets. The command runs until it is interrupted, and resumes where it stopped.
It keeps its position in the table, but not how long each bucket has been quiet.
Run one instance at a time: a second one repeats all the work, which costs money and
changes nothing.

The table needs a stream of old and new images: create it with --stream. The command
serves all namespaces of the table.

With --archive, the command stores audit events that the table deletes on expiry, as
gzip'd JSON lines in S3: one object for each batch and day. Give each table its own
prefix. If an event cannot be stored, the command tries again until it is. Meanwhile it
processes later records, but its position in the table stays before that event. The
table deletes expired events if time to live is enabled on its attribute ttl. docs/audit.md
says how to read the archive.

With --metrics-addr, /healthz answers 200 while the command follows the stream, and 503
before it has begun and while a shard has made no progress for a minute and --poll: DynamoDB
cannot be reached, or records cannot be processed. Nothing is lost then, because the command
continues where it stopped. /livez answers 200 as long as the process serves: let a
supervisor restart the command by /livez, and alert by /healthz.

On AWS Lambda, which sets $AWS_LAMBDA_RUNTIME_API, the program processes the records
that Lambda delivers, and writes metrics to standard output, in CloudWatch's embedded
metric format.`

// New is the command aggregate.
func New(a *app.App) *cobra.Command {
	o := &options{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "aggregate",
		Short: "Follow a table's stream: usage, refills, shards",
		Long:  about,
		Example: "  zae-limiter aggregate --table limits\n" +
			"  zae-limiter aggregate --table limits --archive s3://trail/limits\n" +
			"  zae-limiter aggregate --endpoint-url http://localhost:8000 --metrics-addr 127.0.0.1:9464",
	})
	f := cmd.Flags()
	f.IntVar(&o.keep, "usage-retention-days", defaultKeep, "`days` for which usage is kept after its month")
	f.StringVar(&o.reader, "reader", stream.DefaultReader, "`name` under which the command keeps its position")
	f.DurationVar(&o.poll, "poll", stream.DefaultPoll, "how long to wait before reading a stream shard again once\nits end was reached; longer waits make larger batches")
	o.archive.Bind(cmd)
	f.DurationVar(&o.quiet, "merge-quiet", aggregator.DefaultQuiet, "merge a bucket's shards when each has had fewer than 200\nwrites a second for this long; 0 means never. Use 0 if\nclients of the Python peer share the table: they create\nmissing shards again, full. Else $"+EnvQuiet)
	f.StringVar(&o.metrics, "metrics-addr", "", "serve Prometheus metrics at `host:port`/metrics, and health at\n/healthz and /livez")
	o.level = "info"
	f.Var(app.Choice(&o.level, "debug", "info", "warn", "error"), "log-level", "lowest level to log, as JSON lines on standard error")
	o.changed = f.Changed
	return a.Prints(cmd, totals{})
}

// Validate checks the command line.
func (o *options) Validate() error {
	if o.keep < 1 {
		return fmt.Errorf("invalid --usage-retention-days %d: give at least 1", o.keep)
	}
	if err := o.checkQuiet(); err != nil {
		return err
	}
	if err := o.archive.Validate(o.app); err != nil {
		return err
	}
	if o.poll <= 0 {
		return fmt.Errorf("invalid --poll %v: give more than nothing", o.poll)
	}
	if o.metrics != "" {
		if _, _, err := net.SplitHostPort(o.metrics); err != nil {
			return fmt.Errorf("invalid --metrics-addr %q: give host:port, 127.0.0.1:9464 for instance", o.metrics)
		}
	}
	return nil
}

// checkQuiet reads the environment if the flag was not given, and turns 0 into never.
func (o *options) checkQuiet() (err error) {
	source := "--merge-quiet"
	text := o.quiet.String()
	if v := o.app.Getenv(EnvQuiet); v != "" && !o.changed("merge-quiet") {
		source, text = "$"+EnvQuiet, v
		o.quiet, err = time.ParseDuration(v)
	}
	switch {
	case err != nil || o.quiet < 0 || o.quiet > 0 && o.quiet < time.Second:
		return fmt.Errorf("invalid %s %q: give at least a second, 30m for instance, or 0 to never merge", source, text)
	case o.quiet == 0:
		o.quiet = -1
	}
	return nil
}

// Run follows the stream until the context ends, or serves AWS Lambda.
func (o *options) Run(ctx context.Context) error {
	o.app.NeedsStream = true
	api, err := o.app.ExistingAPI(ctx)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(o.app.Stderr, &slog.HandlerOptions{Level: level}))
	store := dynamo.Options{API: api, Table: o.app.Flags.Table, Now: o.app.Now, Logger: log, UsageTTL: time.Duration(o.keep) * day}
	m := newMeasures()
	keeper, err := openArchive(ctx, o.app, &o.archive, store)
	if err != nil {
		return err
	}
	a, err := aggregator.New(opener(store), aggregator.Options{
		Quiet: o.quiet, Archive: keeper, Observe: m.observe, Now: o.app.Now, Logger: log,
	})
	if err != nil {
		return err
	}
	defer a.Close()
	if o.app.Getenv(function.EnvRuntime) != "" {
		return o.serveLambda(ctx, a)
	}
	streams, err := o.app.Streams(ctx, api)
	if err != nil {
		return err
	}
	now := o.app.Now
	if now == nil {
		now = time.Now
	}
	m.registry.MustRegister(newTraffic(a.Traffic, now))
	health := newHealthCheck(now, o.poll)
	f, err := stream.NewFollower(stream.Options{
		API: store.API, Table: store.Table, Now: store.Now, Logger: store.Logger, Timeout: store.Timeout,
		Streams: streams, Reader: o.reader, Poll: o.poll, Lost: m.lost, Progress: health.progress,
	})
	if err != nil {
		return err
	}
	if err := f.Check(ctx); err != nil {
		return err
	}
	if o.metrics != "" {
		stop, err := m.serve(ctx, o.metrics, health, log)
		if err != nil {
			return fmt.Errorf("--metrics-addr %s: %w", o.metrics, err)
		}
		defer stop()
	}
	log.InfoContext(ctx, "following", "table", store.Table, "reader", o.reader, "archive", o.archive.URL)
	if err := a.Follow(ctx, f); err != nil {
		return err
	}
	t := m.totals()
	return o.app.Print(t, t.write)
}

// openArchive opens the archive of flags, nil if there is none. It checks access to the
// archive before anything reads the stream.
func openArchive(ctx context.Context, a *app.App, flags *app.ArchiveFlags, store dynamo.Options) (aggregator.Archive, error) {
	if flags.URL == "" {
		return nil, nil
	}
	namespaces, err := admin.NewNamespaces(store)
	if err != nil {
		return nil, err
	}
	return a.Archive(ctx, flags, namespaces.NameOf)
}

// write sums up what was done.
func (t *totals) write(w *strings.Builder) {
	fmt.Fprintf(w, "%d records: %d pages of usage, %d refills, %d doublings, %d mends, %d merges, %d audit events archived; %d failed, %d cannot be read, %d errors\n",
		t.Records, t.Pages, t.Refills, t.Doublings, t.Mends, t.Merges, t.Archived, t.Failed, t.Poisoned, t.Errors)
	if t.Hours+t.Days > 0 {
		fmt.Fprintf(w, "For the Python package: %d hours closed, %d days copied\n", t.Hours, t.Days)
	}
	if t.PeerUsage > 0 {
		fmt.Fprintf(w, "The aggregator of the Python package wrote usage to this table, too, %d times. Switch it off: what it counts is in the hours of buckets, too\n", t.PeerUsage)
	}
	if t.Gaps > 0 {
		fmt.Fprintf(w, "%s: what buckets consumed that expired meanwhile is missing from usage. Run the command without long breaks\n", gaps(t.Gaps))
	}
}

// gaps tells how often the command found records gone.
func gaps(n int) string {
	if n == 1 {
		return "Records were lost once, because the stream dropped them before they were read"
	}
	return fmt.Sprintf("Records were lost %d times, because the stream dropped them before they were read", n)
}

// opener opens the namespaces of a table.
func opener(o dynamo.Options) aggregator.Opener {
	return func(ctx context.Context, id string) (aggregator.Namespace, error) {
		s, err := dynamo.OpenID(ctx, o, id)
		if err != nil {
			return aggregator.Namespace{}, err
		}
		ns := aggregator.Namespace{Store: s, Usage: s.Usage()}
		if s.IndexKeys() == dynamo.SharedKeys {
			ns.Peers = s.Usage()
		}
		return ns, nil
	}
}
