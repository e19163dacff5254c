// Package local has the command that serves the embedded engine to any client
// of DynamoDB.
package local

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

// Environment variables that replace flags that are not given. Other users of the machine
// can see a command line in a list of processes.
const (
	EnvAccessKey = "ZAEL_LOCAL_ACCESS_KEY"
	EnvSecretKey = "ZAEL_LOCAL_SECRET_KEY" //nolint:gosec // a name
)

const defaultAddr = "127.0.0.1:8000"

type options struct {
	app                  *app.App
	addr, dir            string
	engine               app.EngineFlags
	accessKey, secretKey string

	given func(flag string) bool
}

// New is the command local.
func New(a *app.App) *cobra.Command {
	o := &options{app: a}
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Serve the embedded database to any DynamoDB client",
		Long: "Serve the embedded database over HTTP until interrupted: tables, streams and expiry, in\n" +
			"memory or in a directory. The command prints the environment that other programs need.\n\n" +
			"Requests must be signed, as at AWS. The server accepts any key unless you give one here;\n" +
			"then it accepts only that key. To listen on an address that other machines can reach,\n" +
			"give a key. Traffic is not encrypted. You can give the key in $" + EnvAccessKey + "\n" +
			"and $" + EnvSecretKey + " instead: other users of the machine see command lines.\n\n" +
			"With a directory, every acknowledged write is on disk and survives a kill or a power cut.",
		Example: "  zae-limiter local --data ./limits\n" +
			"  zae-limiter table create --endpoint-url http://127.0.0.1:8000\n" +
			"  zae-limiter local --addr 127.0.0.1:0 --partition-limits aws --latency p50=5ms,p99=20ms",
		Args: app.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.given = cmd.Flags().Changed
			return a.Run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.addr, "addr", defaultAddr, "`host:port` to listen on; port 0 picks a free port")
	flags.StringVar(&o.dir, "data", "", "`directory` of the data, created if missing (default in memory)")
	o.engine.Bind(flags, "off", "off")
	flags.StringVar(&o.accessKey, "access-key", "", "`ID` of the only key that may sign requests, else $"+EnvAccessKey)
	flags.StringVar(&o.secretKey, "secret-key", "", "`secret` of that key, else $"+EnvSecretKey)
	return cmd
}

// Validate checks the flags.
func (o *options) Validate() error {
	if o.given("data") && o.dir == "" {
		return errors.New(`invalid --data "": give a directory, ./limits for instance`)
	}
	if err := o.checkKeys(); err != nil {
		return err
	}
	return o.checkAddr()
}

// checkKeys reads the keys from the environment unless the flags give them.
func (o *options) checkKeys() error {
	access, secret := "--access-key", "--secret-key"
	for _, key := range []struct {
		value, source *string
		env           string
	}{{&o.accessKey, &access, EnvAccessKey}, {&o.secretKey, &secret, EnvSecretKey}} {
		if v := o.app.Getenv(key.env); v != "" && !o.given(strings.TrimPrefix(*key.source, "--")) {
			*key.value, *key.source = v, "$"+key.env
		}
	}
	switch {
	case o.given("access-key") && o.accessKey == "":
		return errors.New(`invalid --access-key "": give letters and digits, or no key at all`)
	case o.given("secret-key") && o.secretKey == "":
		return errors.New("invalid --secret-key: it is empty")
	case o.accessKey != "" && o.secretKey == "":
		return fmt.Errorf("%s is set without a secret: give --secret-key, or better $%s", access, EnvSecretKey)
	case o.accessKey == "" && o.secretKey != "":
		return fmt.Errorf("%s is set without the ID of its key: give --access-key or $%s", secret, EnvAccessKey)
	case strings.ContainsFunc(o.accessKey, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}):
		// A key ID cannot contain the separators of a signature's scope.
		return fmt.Errorf(`invalid %s %q: give letters, digits and "_-"`, access, o.accessKey)
	}
	return nil
}

// checkAddr requires keys for an address that other machines can reach.
func (o *options) checkAddr() error {
	host, port, err := net.SplitHostPort(o.addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("invalid --addr %q: give host:port, %s for instance, with 0 for any free port", o.addr, defaultAddr)
	}
	ip := net.ParseIP(host)
	if loopback := host == "localhost" || ip != nil && ip.IsLoopback(); !loopback && o.accessKey == "" {
		return fmt.Errorf("--addr %s can be reached from other machines, and anyone may use what is served without keys: "+
			"set $%s and $%s, or listen at 127.0.0.1", o.addr, EnvAccessKey, EnvSecretKey)
	}
	return nil
}
