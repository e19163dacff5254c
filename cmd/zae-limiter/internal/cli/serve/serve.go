// Package serve has the command of the decision service.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/page"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/tracing"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/metrics/promlimit"
)

const (
	defaultAddr      = "127.0.0.1:8080"
	defaultMaxWait   = 30 * time.Second
	defaultDrainWait = 5 * time.Second
	mostWait         = 10 * time.Minute
	allPercent       = 100
	// exportTime is how long the last spans may take to be exported after the end of the service.
	exportTime = 5 * time.Second
)

type options struct {
	app         *app.App
	http, admin string
	grpc        string
	from        ruleFlags
	rules       *hot.Value[*mapping.Rules] // nil if there are none
	certs       server.Certificates
	tls         *hot.Value[*tls.Config] // nil without --tls-cert
	tokenFile   string
	keyFile     string
	keys        [][]byte                   // of leases
	tokens      *hot.Value[*access.Tokens] // nil without --token-file
	oidc        oidcFlags
	issuer      *access.Issuer // nil without --oidc-issuer
	isOpen      bool
	httpOpen    bool // other machines reach the address of calls
	adminOpen   bool // and the admin address
	policy      decide.Policy
	fallback    app.LimitsFlag
	processes   int
	drainWait   time.Duration
	level       string
	spans       *tracing.Settings // nil exports none
}

const about = `Serve decisions over HTTP to programs in any language, and to Envoy, until interrupted:

  POST /v1/acquire       takes tokens, or refuses with status 429 and the exact wait
  POST /v1/check         shows balances
  POST /v1/batch         decides up to 100 calls side by side
  POST /v1/leases/...    settle, release and extend leases
  POST /v1/admin/...     show and change limits, as the commands do
  GET  /v1/openapi.json  describes the calls, in OpenAPI 3.1
  GET  /ui/              has pages for people: balances, refusals, edits

The service keeps no state: run as many as you like on one table. It takes limits from the
configuration, or from --fallback where no level configures any. With --local :memory:, no
table is needed: limits and balances are in memory, and end with the service.

With --grpc, it answers the rate limit service of Envoy, version 3. The rules of --config say
what a descriptor means. Files that change are read again while the service runs; if they are
not valid, the last good ones stay in use. --ratelimit-config takes the files of
envoyproxy/ratelimit instead, as they are; the log says what differs. --ratelimit-xds receives
them from Envoy Gateway, the AI gateway or another server of xDS. The service is not ready
until the first valid ones have come.

Other machines reach the service only if callers prove who they are. --token-file has one
token on each line, with its roles after it, and a call has it as Authorization: Bearer TOKEN.
--oidc-issuer takes the tokens of an OpenID provider, and --oidc-role says what they give.
--tls-client-ca has the authorities of certificates of callers. Else the service listens at
loopback addresses only, unless --allow-unauthenticated is given. Readers see balances,
limits and usage, callers take tokens, and operators may do everything. Audit events of
changes have the name= of the token's line, or the subject of the provider's token.
Traffic is encrypted with --tls-cert and --tls-key.

GET /livez answers 200 as long as the process serves, and GET /readyz until it ends. With
--admin, both are at that address too, with the metrics of Prometheus at /metrics, the state
of the rules at /config, and the profiles of Go at /debug/pprof. Where other machines reach
that address, it needs tokens of readers, and of operators for the profiles. If
$OTEL_EXPORTER_OTLP_ENDPOINT names a collector, it gets a span of each call.

When interrupted, the service is no longer ready, and still takes calls for --drain-wait. Then
it ends the calls under way, which may take --max-wait and --timeout.`

// New is the command serve.
func New(a *app.App) *cobra.Command {
	o := &options{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "serve",
		Short: "Serve decisions over HTTP to programs in any language, and to Envoy",
		Long:  about,
		Example: "  zae-limiter serve --local ./limits\n" +
			"  zae-limiter serve --local :memory: --fallback rpm:60/min\n" +
			"  zae-limiter serve --http 0.0.0.0:8080 --token-file tokens --admin 127.0.0.1:8070\n" +
			"  zae-limiter serve --grpc 127.0.0.1:8081 --config rules.yaml\n" +
			"  curl http://127.0.0.1:8080/v1/acquire -H 'Content-Type: application/json' \\\n" +
			"    -d '{\"entity_id\":\"key-1\",\"resource\":\"gpt-4\",\"consume\":{\"rpm\":1}}'",
	})
	f := cmd.Flags()
	f.StringVar(&o.http, "http", defaultAddr, "`host:port` at which to serve calls; port 0 picks a free port")
	f.StringVar(&o.admin, "admin", "", "`host:port` at which to serve metrics, health and profiles (default\nnowhere)")
	f.StringVar(&o.grpc, "grpc", "", "`host:port` at which to serve Envoy (default nowhere)")
	o.from.bind(f)
	f.Var(app.Named(&o.certs.Cert), "tls-cert", "`file` with the certificate of the service, in PEM; it is read\nagain when it changes")
	f.Var(app.Named(&o.certs.Key), "tls-key", "`file` with the key of the certificate, in PEM")
	f.Var(app.Named(&o.certs.ClientCA), "tls-client-ca", "`file` with the authorities of callers, in PEM: only those with a\ncertificate may call")
	f.Var(app.Named(&o.keyFile), "lease-key-file", "`file` with the keys of leases, one on each line; the first one\nsigns, and all replicas have the same")
	o.bindProofs(f)
	o.fallback.BindFallback(cmd)
	app.BindOnUnavailable(cmd, &o.policy.OnUnavailable, "if DynamoDB cannot be reached, fail (block), admit\nwithout metering (allow), or admit a part of each limit (share);\nthe system's default if not given")
	f.IntVar(&o.processes, "processes", 1, "how many processes share the limits, at least: if they cannot\nreach DynamoDB, each admits its part, by --on-unavailable share")
	f.DurationVar(&o.policy.MaxWait, "max-wait", defaultMaxWait, "longest time that a call may wait for tokens; 0 means that\nnone may wait")
	f.IntVar(&o.policy.ClampPercent, "clamp-percent", 0, "most that a call with lease_ms takes at first of each limit, in\npercent of its capacity; its settlement takes the rest, and 0\nis no bound")
	f.DurationVar(&o.drainWait, "drain-wait", defaultDrainWait, "how long to take calls after an interrupt, until balancers\nsend no more")
	o.level = "info"
	f.Var(app.Choice(&o.level, "debug", "info", "warn", "error"), "log-level", "lowest level to log, as JSON lines on standard error")
	return a.Prints(cmd, servingView{})
}

// Validate checks the flags, and reads the files that they name.
func (o *options) Validate() (err error) {
	if err := o.readProofs(); err != nil {
		return err
	}
	if o.keys, err = readSecrets("--lease-key-file", o.keyFile, parseKeys); err != nil {
		return err
	}
	if err := o.readTLS(); err != nil {
		return err
	}
	if o.spans, err = tracing.Read(o.app.Getenv); err != nil {
		return err
	}
	if err := o.from.check(); err != nil {
		return err
	}
	if (o.grpc == "") == o.from.isThere() {
		return errors.New("give --grpc with one of --config, --ratelimit-config and --ratelimit-xds, or none of them: Envoy needs an address, and rules for its descriptors")
	}
	if err := o.checkAddrs(); err != nil {
		return err
	}
	if w := o.policy.MaxWait; w < 0 || w > mostWait {
		return fmt.Errorf("invalid --max-wait %v: give from 0 to %v", w, mostWait)
	}
	if o.processes < 1 {
		return fmt.Errorf("invalid --processes %d: give how many processes share the limits, at least 1", o.processes)
	}
	if p := o.policy.ClampPercent; p < 0 || p > allPercent {
		return fmt.Errorf("invalid --clamp-percent %d: give from 1 to %d percent of the capacity, or 0", p, allPercent)
	}
	if o.drainWait < 0 {
		return fmt.Errorf("invalid --drain-wait %v: give a time, or 0", o.drainWait)
	}
	o.policy.Fallback = o.fallback.Limits
	o.rules, err = o.from.read(len(o.keys) > 0)
	return err
}

// readTLS reads the files of TLS for the first time.
func (o *options) readTLS() (err error) {
	switch c := o.certs; {
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("give both --tls-cert and --tls-key, or neither")
	case c.ClientCA != "" && c.Cert == "":
		return errors.New("--tls-client-ca needs --tls-cert and --tls-key: callers show certificates over TLS only")
	case c.Cert == "":
		return nil
	}
	if o.tls, err = hot.Open(o.certs.Source(), time.Now); err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	return nil
}

// readSecrets reads the file of a flag, if there is one.
func readSecrets[T any](flag, file string, parse func(string) (T, error)) (secrets T, err error) {
	if file == "" {
		return secrets, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return secrets, app.Unread(flag, err)
	}
	if secrets, err = parse(string(text)); err != nil {
		return secrets, fmt.Errorf("%s %s: %w", flag, file, err)
	}
	return secrets, nil
}

// parseKeys reads the keys of leases.
func parseKeys(text string) ([][]byte, error) {
	return access.ParseSecrets(text, limiter.MinTokenKey, "key")
}

// Run serves until the context ends.
func (o *options) Run(ctx context.Context) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return err
	}
	defer collectLess(o.app)()
	log := server.Logger(o.app.Stderr, level)
	api, err := o.open(ctx)
	if err != nil {
		return err
	}
	flags := &o.app.Flags
	of := dynamo.Options{API: api, Table: flags.Table, Namespace: flags.Namespace, Now: o.app.Now, Logger: log, Timeout: o.app.Patience()}
	store, err := dynamo.Open(ctx, of)
	if err != nil {
		return err
	}
	metrics, err := promlimit.New(promlimit.Options{})
	if err != nil {
		return err
	}
	spans, err := o.spans.Open(ctx, log)
	if err != nil {
		return err
	}
	refused := refusals.New(o.app.Clock)
	observers := limiter.Observers{metrics, refused}
	if spans != nil {
		observers = append(observers, spans.Observer)
	}
	l, err := limiter.New(store, limiter.Options{
		Logger: log, Timeout: o.app.Patience(), Observer: observers, TokenKeys: o.keys, Share: limiter.ShareOptions{Processes: o.processes},
	})
	if err != nil {
		return err
	}
	metrics.Watch(l)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	err = errors.Join(o.serve(ctx, &httpapi.Admin{Store: store, Limiter: l, Now: o.app.Clock, Table: of}, refused, spans, registry, log), l.Close())
	ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTime)
	defer cancel()
	if lost := spans.Close(ended); lost != nil {
		log.WarnContext(ctx, "spans were not exported", "error", lost) // no call has failed
	}
	return err
}

// open connects to the database, which begins with an empty table if it is in memory.
func (o *options) open(ctx context.Context) (dynamo.API, error) {
	if o.app.Flags.Local != app.Memory {
		return o.app.ExistingAPI(ctx)
	}
	db, err := o.app.Engine(dynamolite.Options{Now: o.app.Now})
	if err != nil {
		return nil, err
	}
	return db, dynamo.CreateTable(ctx, db, dynamo.TableOptions{Name: o.app.Flags.Table})
}

// serve listens, and serves the decisions of a limiter.
func (o *options) serve(ctx context.Context, admin *httpapi.Admin, refused *refusals.Log, spans *tracing.Spans, registry *prometheus.Registry, log *slog.Logger) error {
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer stop()
	patience := o.app.Patience()
	if patience == 0 {
		patience = limiter.DefaultTimeout
	}
	l := admin.Limiter
	api := httpapi.New(httpapi.Options{Limiter: l, Policy: o.policy, Logger: log, Refusals: refused, Admin: admin})
	guard := o.guard()
	to := server.Options{
		API:   api,
		Pages: page.New(page.Options{Store: admin.Store, Limiter: l, API: api, Refusals: refused, Guard: guard, Now: o.app.Clock, Logger: log}),
		Guard: guard, Open: o.isOpen, Exposed: o.httpOpen, AdminExposed: o.adminOpen, Now: time.Now, Spans: spans, Registry: registry, Logger: log, DrainWait: o.drainWait, DrainTime: o.policy.MaxWait + 2*patience,
	}
	if o.rules != nil {
		of := envoy.Options{Limiter: l, Policy: o.policy, Rules: o.rules.Get, Refusals: refused, Logger: log, Now: time.Now}
		if o.from.counts() {
			of.Known = envoy.NewKnown(o.rules.State, registry)
		}
		rls := envoy.New(of, registry)
		to.Register, to.Config, to.Ready = rls.Register, server.ShowConfig(o.rules.State, registry), o.rules.Ready()
		watchers.Go(func() { o.from.follow(watching, o.rules, log) })
		if o.from.tls != nil {
			watchers.Go(func() { o.from.tls.Watch(watching, log, "certificates of the management server") })
		}
	}
	if o.from.counts() {
		for _, text := range mapping.Differences {
			log.InfoContext(ctx, "envoyproxy/ratelimit differs", "text", text)
		}
	}
	if o.tokens != nil {
		watchers.Go(func() { o.tokens.Watch(watching, log, "tokens") })
	}
	if o.issuer != nil {
		watchers.Go(func() { o.issuer.Watch(watching, log) })
	}
	if o.tls != nil {
		to.TLS = server.Latest(o.tls)
		watchers.Go(func() { o.tls.Watch(watching, log, "certificates") })
	}
	at, shown, err := o.listen(ctx)
	if err != nil {
		return err
	}
	err = o.app.Print(shown, shown.write)
	if err != nil {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx, to.DrainWait = ended, 0 // nobody knows the address
	}
	return errors.Join(err, server.New(to).Serve(ctx, at))
}

// listen listens at the addresses, or at none.
func (o *options) listen(ctx context.Context) (at server.Listeners, shown servingView, err error) {
	for _, l := range [...]struct {
		flag, addr string
		to         *net.Listener
	}{{"http", o.http, &at.HTTP}, {"grpc", o.grpc, &at.GRPC}, {"admin", o.admin, &at.Admin}} {
		if l.addr == "" {
			continue
		}
		var config net.ListenConfig
		if *l.to, err = config.Listen(ctx, "tcp", l.addr); err != nil {
			return at, shown, errors.Join(fmt.Errorf("--%s %s: %w", l.flag, l.addr, err), at.Close())
		}
	}
	shown.Endpoint = app.URLOf(at.HTTP.Addr())
	if o.tls != nil {
		shown.Endpoint = "https" + strings.TrimPrefix(shown.Endpoint, "http")
	}
	if at.GRPC != nil {
		shown.GRPC = strings.TrimPrefix(app.URLOf(at.GRPC.Addr()), "http://")
	}
	if at.Admin != nil {
		shown.Admin = app.URLOf(at.Admin.Addr())
	}
	return at, shown, nil
}

// servingView is where the program serves, in JSON.
type servingView struct {
	Endpoint string `json:"endpoint"`        // URL of the service
	GRPC     string `json:"grpc,omitempty"`  // host:port for Envoy
	Admin    string `json:"admin,omitempty"` // URL of the metrics, health and profiles
}

// write writes it for people.
func (v servingView) write(w *strings.Builder) {
	fmt.Fprintf(w, "Serving decisions at %s. GET /v1/openapi.json describes the calls.\nPages for people are at %s%s\n", v.Endpoint, v.Endpoint, page.Root)
	if v.GRPC != "" {
		fmt.Fprintf(w, "Serving Envoy at %s\n", v.GRPC)
	}
	if v.Admin != "" {
		fmt.Fprintf(w, "Serving metrics at %s/metrics\n", v.Admin)
	}
}
