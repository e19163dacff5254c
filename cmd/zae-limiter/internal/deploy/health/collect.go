package health

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Describer describes the table. *[admin.Table] implements it.
type Describer interface {
	Describe(context.Context) (*admin.Description, error)
}

// A Lister lists the namespaces of the table. *[admin.Namespaces] implements it.
type Lister interface {
	List(context.Context) ([]admin.Namespace, error)
}

// Options say what to read. Table, Namespaces and TableName are required.
type Options struct {
	Table      Describer
	Namespaces Lister
	// TableName is the dimension of the aggregator's own metrics.
	TableName string
	// Site and Clients are empty for a table without a stack.
	Site    Site
	Clients Clients
	// Timeout limits each part; 0 is [DefaultTimeout].
	Timeout time.Duration
	// Now is the local clock; nil is time.Now.
	Now func() time.Time
}

// DefaultTimeout is the default of [Options.Timeout].
const DefaultTimeout = 15 * time.Second

func (o Options) withDefaults() (Options, error) {
	if err := store.CheckNotNegative("Timeout", o.Timeout); err != nil {
		return o, err
	}
	for _, c := range []struct {
		name    string
		missing bool
		reason  string
	}{
		{"Table", o.Table == nil, "give a table"},
		{"Namespaces", o.Namespaces == nil, "give the namespaces of the table"},
		{"TableName", o.TableName == "", "give the name of the table"},
		{"Clients.Functions", o.Clients.Functions == nil && o.Site.hasFunctions(), "the site has functions: give a client"},
		{"Clients.Logs", o.Clients.Logs == nil && o.Site.hasFunctions(), "the site has functions: give a client"},
		{"Clients.Watch", o.Clients.Watch == nil && o.Site.hasMetrics(), "the site has metrics or alarms: give a client"},
		{"Clients.Queues", o.Clients.Queues == nil && o.Site.DeadLetters != "", "the site has a queue: give a client"},
		{"Clients.Buckets", o.Clients.Buckets == nil && o.Site.Archive != "", "the site has a bucket: give a client"},
	} {
		if c.missing {
			return o, &store.ValidationError{Field: c.name, Reason: c.reason}
		}
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	return o, nil
}

// A reader reads the parts of one report, each on a goroutine of its own.
type reader struct {
	o   Options
	now time.Time
	wg  sync.WaitGroup
}

// Collect reads every part of a site at the same time. It fails for invalid options only;
// what cannot be read is a [Problem] in the report. The report has no stack and no verdict
// yet: set [Report.Stack], then call [Report.Judge].
func Collect(ctx context.Context, o Options) (*Report, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &reader{o: o, now: o.Now().UTC()}
	report := &Report{At: r.now, Findings: []Finding{}}
	r.table(ctx, report)
	r.functions(ctx, report)
	r.deadLetters(ctx, report)
	r.archive(ctx, report)
	if len(o.Site.Alarms) > 0 {
		read(ctx, r, &report.Alarms, "cloudwatch:DescribeAlarms", r.alarms)
	}
	r.wg.Wait()
	return report, nil
}

// read reads a part in the background, within the time limit. call is the action of AWS that
// a problem names.
func read[T any](ctx context.Context, r *reader, into *Part[T], call string, of func(context.Context) (T, error)) {
	r.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
		defer cancel()
		v, err := of(ctx)
		if err != nil {
			*into = Failed[T](call, err)
			return
		}
		*into = Read(v)
	})
}

// table reads the table with its versions, and the namespaces.
func (r *reader) table(ctx context.Context, report *Report) {
	r.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
		defer cancel()
		d, err := r.o.Table.Describe(ctx)
		if err != nil {
			report.Table = Failed[admin.Description]("dynamodb:DescribeTable", err)
			report.Versions = Failed[Versions]("dynamodb:DescribeTable", err)
			return
		}
		report.Table, report.Versions = Read(*d), versionsOf(d)
	})
	read(ctx, r, &report.Namespaces, "dynamodb:Query", func(ctx context.Context) ([]Namespace, error) {
		all, err := r.o.Namespaces.List(ctx)
		out := make([]Namespace, len(all))
		for i, n := range all {
			out[i] = Namespace{n.Name, n.ID}
		}
		return out, err
	})
}

// versionsOf compares the table's versions with this client.
func versionsOf(d *admin.Description) Part[Versions] {
	if err := d.Unknown["GetItem"]; err != nil {
		return Failed[Versions]("dynamodb:GetItem", err)
	}
	v := Versions{Client: dynamo.ClientVersion, Recorded: d.Version != nil}
	if d.Version != nil {
		v.Schema, v.ClientMin, v.Lambda = d.Version.Schema, d.Version.ClientMin, d.Version.Lambda
		v.Outdated = d.Version.LambdaIsOlder()
		if err := d.Version.Check(); err != nil {
			v.Incompatible = err.Error()
		}
	}
	return Read(v)
}
