// Package serve has the command of the decision service.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/metrics/promlimit"
)

const (
	defaultAddr      = "127.0.0.1:8080"
	defaultMaxWait   = 30 * time.Second
	defaultDrainWait = 5 * time.Second
	mostWait         = 10 * time.Minute
)

type options struct {
	app         *app.App
	http, admin string
	tokenFile   string
	tokens      *server.Tokens
	policy      decide.Policy
	fallback    app.LimitsFlag
	drainWait   time.Duration
	level       string
}

const about = `Serve decisions over HTTP to programs in any language, until interrupted:

  POST /v1/acquire       takes tokens, or refuses with status 429 and the exact wait
  POST /v1/check         shows balances
  POST /v1/batch         decides up to 100 calls side by side
  GET  /v1/openapi.json  describes the calls, in OpenAPI 3.1

The service keeps no state: run as many as you like on one table. It takes limits from the
configuration, or from --fallback where no level configures any.

Other machines reach the service only if callers have tokens: --token-file has one on each
line, and a call has it as Authorization: Bearer TOKEN. Traffic is not encrypted. Without
tokens, the service listens at loopback addresses only.

GET /livez answers 200 as long as the process serves, and GET /readyz until it ends. With
--admin, both are at that address too, with the metrics of Prometheus at /metrics and the
profiles of Go at /debug/pprof. Let only operators reach that address.

When interrupted, the service is no longer ready, and still takes calls for --drain-wait. Then
it ends the calls under way, which may take --max-wait and --timeout.`

// New is the command serve.
func New(a *app.App) *cobra.Command {
	o := &options{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "serve",
		Short: "Serve decisions over HTTP to programs in any language",
		Long:  about,
		Example: "  zae-limiter serve --local ./limits\n" +
			"  zae-limiter serve --http 0.0.0.0:8080 --token-file tokens --admin 127.0.0.1:8070\n" +
			"  curl http://127.0.0.1:8080/v1/acquire -H 'Content-Type: application/json' \\\n" +
			"    -d '{\"entity_id\":\"key-1\",\"resource\":\"gpt-4\",\"consume\":{\"rpm\":1}}'",
	})
	f := cmd.Flags()
	f.StringVar(&o.http, "http", defaultAddr, "`host:port` at which to serve calls; port 0 picks a free port")
	f.StringVar(&o.admin, "admin", "", "`host:port` at which to serve metrics, health and profiles (default\nnowhere)")
	f.Var(app.Named(&o.tokenFile), "token-file", "`file` with the tokens of callers, one on each line")
	o.fallback.BindFallback(cmd)
	app.BindOnUnavailable(cmd, &o.policy.OnUnavailable, "if DynamoDB cannot be reached, fail (block) or admit\nwithout metering (allow); the system's default if not given")
	f.DurationVar(&o.policy.MaxWait, "max-wait", defaultMaxWait, "longest time that a call may wait for tokens; 0 means that\nnone may wait")
	f.DurationVar(&o.drainWait, "drain-wait", defaultDrainWait, "how long to take calls after an interrupt, until balancers\nsend no more")
	o.level = "info"
	f.Var(app.Choice(&o.level, "debug", "info", "warn", "error"), "log-level", "lowest level to log, as JSON lines on standard error")
	return a.Prints(cmd, servingView{})
}

// Validate checks the flags, and reads the tokens.
func (o *options) Validate() error {
	if err := o.readTokens(); err != nil {
		return err
	}
	if err := server.CheckAddr(o.http, o.tokens != nil); err != nil {
		return fmt.Errorf("invalid --http: %w", err)
	}
	if o.admin != "" {
		if _, _, err := net.SplitHostPort(o.admin); err != nil {
			return fmt.Errorf("invalid --admin %q: give host:port, 127.0.0.1:8070 for instance", o.admin)
		}
	}
	if w := o.policy.MaxWait; w < 0 || w > mostWait {
		return fmt.Errorf("invalid --max-wait %v: give from 0 to %v", w, mostWait)
	}
	if o.drainWait < 0 {
		return fmt.Errorf("invalid --drain-wait %v: give a time, or 0", o.drainWait)
	}
	o.policy.Fallback = o.fallback.Limits
	return nil
}

func (o *options) readTokens() error {
	if o.tokenFile == "" {
		return nil
	}
	text, err := os.ReadFile(o.tokenFile)
	if err != nil {
		return app.Unread("--token-file", err)
	}
	if o.tokens, err = server.ParseTokens(string(text)); err != nil {
		return fmt.Errorf("--token-file %s: %w", o.tokenFile, err)
	}
	return nil
}

// Run serves until the context ends.
func (o *options) Run(ctx context.Context) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return err
	}
	log := server.Logger(o.app.Stderr, level)
	api, err := o.app.ExistingAPI(ctx)
	if err != nil {
		return err
	}
	flags := &o.app.Flags
	store, err := dynamo.Open(ctx, dynamo.Options{
		API: api, Table: flags.Table, Namespace: flags.Namespace, Now: o.app.Now, Logger: log, Timeout: o.app.Patience(),
	})
	if err != nil {
		return err
	}
	metrics, err := promlimit.New(promlimit.Options{})
	if err != nil {
		return err
	}
	l, err := limiter.New(store, limiter.Options{Logger: log, Timeout: o.app.Patience(), Observer: metrics})
	if err != nil {
		return err
	}
	metrics.Watch(l)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	return errors.Join(o.serve(ctx, l, registry, log), l.Close())
}

// serve listens, and serves the decisions of a limiter.
func (o *options) serve(ctx context.Context, l *limiter.Limiter, registry *prometheus.Registry, log *slog.Logger) error {
	calls, err := listen(ctx, "http", o.http)
	if err != nil {
		return err
	}
	shown := servingView{Endpoint: app.URLOf(calls.Addr())}
	var admin net.Listener
	if o.admin != "" {
		if admin, err = listen(ctx, "admin", o.admin); err != nil {
			return errors.Join(err, calls.Close())
		}
		shown.Admin = app.URLOf(admin.Addr())
	}
	err = o.app.Print(shown, func(w *strings.Builder) {
		fmt.Fprintf(w, "Serving decisions at %s. GET /v1/openapi.json describes the calls.\n", shown.Endpoint)
		if shown.Admin != "" {
			fmt.Fprintf(w, "Serving metrics at %s/metrics\n", shown.Admin)
		}
	})
	if err != nil {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx, o.drainWait = ended, 0 // nobody knows the address
	}
	patience := o.app.Patience()
	if patience == 0 {
		patience = limiter.DefaultTimeout
	}
	s := server.New(server.Options{
		API:    httpapi.New(httpapi.Options{Limiter: l, Policy: o.policy, Logger: log, Now: time.Now}),
		Tokens: o.tokens, Registry: registry, Logger: log, DrainWait: o.drainWait, DrainTime: o.policy.MaxWait + 2*patience,
	})
	return errors.Join(err, s.Serve(ctx, calls, admin))
}

func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", flag, addr, err)
	}
	return l, nil
}

// servingView is where the program serves, in JSON.
type servingView struct {
	Endpoint string `json:"endpoint"`        // URL of the service
	Admin    string `json:"admin,omitempty"` // URL of the metrics, health and profiles
}
