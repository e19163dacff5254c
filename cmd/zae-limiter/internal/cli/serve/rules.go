package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/xds"
)

// ruleFlags are the flags about the rules for descriptors of Envoy. Each of the first three is a place
// where rules are.
type ruleFlags struct {
	config    string
	reference string // files of envoyproxy/ratelimit
	server    string // a management server of envoyproxy/ratelimit

	node, cluster string
	outgoing      server.Outgoing
	tls           *hot.Value[*tls.Config] // nil if the connection to the server is not encrypted
}

func (r *ruleFlags) bind(f *pflag.FlagSet) {
	f.Var(app.Named(&r.config), "config", "`file` with the rules for descriptors of Envoy, or a folder of\nfiles that end in .yaml or .yml")
	f.Var(app.Named(&r.reference), "ratelimit-config", "the same of files of envoyproxy/ratelimit, in place of --config:\na `file`, or a folder")
	f.Var(app.Named(&r.server), "ratelimit-xds", "`host:port` of a server that sends what such files say, over xDS:\nEnvoy Gateway, for instance")
	f.Var(app.Named(&r.node), "xds-node", "`name` by which that server knows this service (default\n"+xds.DefaultNode+")")
	f.Var(app.Named(&r.cluster), "xds-cluster", "`name` of the cluster that the server is told (default none)")
	f.Var(app.Named(&r.outgoing.CA), "xds-tls-ca", "`file` with the authorities of the server, in PEM; it and the next\ntwo are read again when they change, and each encrypts")
	f.Var(app.Named(&r.outgoing.Cert), "xds-tls-cert", "`file` with the certificate that the server is shown, in PEM")
	f.Var(app.Named(&r.outgoing.Key), "xds-tls-key", "`file` with the key of that certificate, in PEM")
	f.Var(app.Named(&r.outgoing.Name), "xds-tls-name", "`name` that the certificate of the server must have, if it is not\nthe host; by itself, it encrypts with the machine's authorities")
}

// isThere reports whether there are rules.
func (r *ruleFlags) isThere() bool { return r.config+r.reference+r.server != "" }

// counts reports whether the rules are those of envoyproxy/ratelimit, which counts as that does.
func (r *ruleFlags) counts() bool { return r.reference+r.server != "" }

// check checks the flags about a management server.
func (r *ruleFlags) check() error {
	given := 0
	for _, text := range [...]string{r.config, r.reference, r.server} {
		given += min(1, len(text))
	}
	if given > 1 {
		return errors.New("give one of --config, --ratelimit-config and --ratelimit-xds")
	}
	o := &r.outgoing
	switch {
	case r.server == "" && r.node+r.cluster+o.CA+o.Cert+o.Key+o.Name != "":
		return errors.New("--xds-node, --xds-cluster and --xds-tls-… need --ratelimit-xds")
	case (o.Cert == "") != (o.Key == ""):
		return errors.New("give both --xds-tls-cert and --xds-tls-key, or neither")
	case r.server == "":
		return nil
	}
	host, port, err := net.SplitHostPort(r.server)
	if n, invalid := strconv.ParseUint(port, 10, 16); err != nil || invalid != nil || n == 0 || host == "" {
		return fmt.Errorf("invalid --ratelimit-xds: %q is no address: give host:port, envoy-gateway:18001 for instance", r.server)
	}
	return nil
}

// read reads the rules for the first time. Those of a management server are not there yet.
func (r *ruleFlags) read(signs bool) (rules *hot.Value[*mapping.Rules], err error) {
	switch {
	case r.config != "":
		if rules, err = hot.Open(mapping.Source(r.config, signs), time.Now); err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
	case r.reference != "":
		if rules, err = hot.Open(mapping.ReferenceSource(r.reference), time.Now); err != nil {
			return nil, fmt.Errorf("--ratelimit-config: %w", err)
		}
	case r.server != "":
		if r.outgoing != (server.Outgoing{}) {
			if r.tls, err = hot.Open(r.outgoing.Source(), time.Now); err != nil {
				return nil, fmt.Errorf("--xds-tls-ca, --xds-tls-cert and --xds-tls-key: %w", err)
			}
		}
		rules = hot.Await[*mapping.Rules](time.Now)
	}
	return rules, nil
}

// follow keeps the rules up to date until the context ends.
func (r *ruleFlags) follow(ctx context.Context, rules *hot.Value[*mapping.Rules], log *slog.Logger) {
	if r.server == "" {
		rules.Watch(ctx, log, "rules")
		return
	}
	to := xds.Options{Server: r.server, Node: cmp.Or(r.node, xds.DefaultNode), Cluster: r.cluster, Rules: rules, Logger: log}
	if r.tls != nil {
		to.TLS = r.tls.Get
	}
	xds.New(to).Run(ctx)
}
