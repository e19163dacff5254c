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

// Environment variables that stand in for flags that are not given. What is on a
// command line others see in a list of processes.
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
		Short: "Serve a DynamoDB of its own to any client, on this machine",
		Long: "Serve a DynamoDB of its own over HTTP until interrupted: tables, streams and expiry, in\n" +
			"memory or in a directory. It prints what other programs need in their environment.\n\n" +
			"Requests must be signed, as at AWS. Any key will do unless keys are given here; then only\n" +
			"these will, and only so is an address served that other machines can reach. Nothing is\n" +
			"encrypted on the way. The keys may be in $" + EnvAccessKey + " and $" + EnvSecretKey + "\n" +
			"instead: a command line is seen by others on the machine.\n\n" +
			"What is acknowledged in a directory is on disk, and still there after a kill or a power cut.",
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
	flags.StringVar(&o.addr, "addr", defaultAddr, "`host:port` to listen at; port 0 is any that is free")
	flags.StringVar(&o.dir, "data", "", "`directory` of the data, made if it does not exist (default in memory)")
	o.engine.Bind(flags, "off", "off")
	flags.StringVar(&o.accessKey, "access-key", "", "`ID` of the only key that may sign requests, else $"+EnvAccessKey)
	flags.StringVar(&o.secretKey, "secret-key", "", "`secret` of that key, else $"+EnvSecretKey)
	return cmd
}

// Validate checks the flags.
func (o *options) Validate() error {
	if name, ok := o.app.Flags.Given("local", "endpoint-url", "region", "table", "namespace"); ok {
		hint := ""
		if name == "local" {
			hint = ": give the directory with --data"
		}
		return fmt.Errorf("--%s has no meaning here%s", name, hint)
	}
	if o.given("data") && o.dir == "" {
		return errors.New(`invalid --data "": give a directory, ./limits for instance`)
	}
	if err := o.checkKeys(); err != nil {
		return err
	}
	return o.checkAddr()
}

// checkKeys takes the keys from the environment unless they were given.
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
		// What separates the parts of a signature's scope cannot be in one of them.
		return fmt.Errorf(`invalid %s %q: give letters, digits and "_-"`, access, o.accessKey)
	}
	return nil
}

// checkAddr keeps what anyone may use on the machine.
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
