// Package local has the command that serves the embedded engine to any client
// of DynamoDB.
package local

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
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
	hosts                []string
	sweep                time.Duration
	streamBytes          int64 // 0: the engine's default

	given func(flag string) bool
}

// New is the command local.
func New(a *app.App) *cobra.Command {
	o := &options{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "local",
		Short: "Serve the embedded database to any DynamoDB client",
		Long: "Serve the embedded database over HTTP until interrupted: tables, streams and expiry, in\n" +
			"memory or in a directory. The command prints the environment that other programs need.\n\n" +
			"Requests must be signed, as at AWS. The server accepts any key unless you give one here;\n" +
			"then it accepts only that key. To listen on an address that other machines can reach,\n" +
			"give a key. Traffic is not encrypted. You can give the key in $" + EnvAccessKey + "\n" +
			"and $" + EnvSecretKey + " instead: other users of the machine see command lines.\n\n" +
			"Without a key, the server refuses requests that a web page of another site may have\n" +
			"caused: their Host is not a loopback name or address, or their Origin is foreign. Name\n" +
			"further hosts with --allow-host. GET / says whether the database works.\n\n" +
			"With a directory, every acknowledged write is on disk and survives a kill or a power cut.",
		Example: "  zae-limiter local --data ./limits\n" +
			"  zae-limiter table create --endpoint-url http://127.0.0.1:8000\n" +
			"  zae-limiter local --addr 127.0.0.1:0 --partition-limits aws --latency p50=5ms,p99=20ms",
	})
	flags := cmd.Flags()
	o.given = flags.Changed
	flags.StringVar(&o.addr, "addr", defaultAddr, "`host:port` to listen on; port 0 picks a free port")
	flags.StringVar(&o.dir, "data", "", "`directory` of the data, created if missing (default in memory)")
	o.engine.Bind(flags, "off", "off")
	flags.StringVar(&o.accessKey, "access-key", "", "`ID` of the only key that may sign requests, else $"+EnvAccessKey)
	flags.StringVar(&o.secretKey, "secret-key", "", "`secret` of that key, else $"+EnvSecretKey)
	flags.StringSliceVar(&o.hosts, "allow-host", nil, "`name` or address by which programs reach this server without keys,\nbeside those of loopback: host.docker.internal for instance; repeatable")
	flags.DurationVar(&o.sweep, "sweep-interval", time.Minute, "`time` between two sweeps for expired items")
	flags.Var(&size{&o.streamBytes}, "stream-bytes", "stream records that each table keeps, by `size`; older ones are\ndropped, and after 24 hours in any case (default 256MiB)")
	return a.Prints(cmd, servingView{})
}

// size is the value of a flag: a number of bytes, perhaps with a unit.
type size struct{ bytes *int64 }

// String is empty: the default is in the help.
func (*size) String() string { return "" }

// Set parses a size.
func (s *size) Set(text string) error {
	number, unit := text, int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = rest, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/unit {
		return errors.New("give a number of bytes from 1, or of KiB, MiB or GiB: 64MiB for instance")
	}
	*s.bytes = n * unit
	return nil
}

// Type is the value's name in help.
func (*size) Type() string { return "size" }

// Validate checks the flags.
func (o *options) Validate() error {
	if o.given("data") && o.dir == "" {
		return errors.New(`invalid --data "": give a directory, ./limits for instance`)
	}
	if o.sweep <= 0 {
		return fmt.Errorf("invalid --sweep-interval %v: give a time above 0, 1m for instance", o.sweep)
	}
	if err := o.checkKeys(); err != nil {
		return err
	}
	if err := o.checkHosts(); err != nil {
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
	case strings.Trim(o.accessKey, alphanumeric+"_-") != "":
		// A key ID cannot contain the separators of a signature's scope.
		return fmt.Errorf(`invalid %s %q: give letters, digits and "_-"`, access, o.accessKey)
	}
	return nil
}

// alphanumeric are the letters and digits of ASCII.
const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// isHost reports whether a text is the name or the address of a host, without scheme and port.
func isHost(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	return strings.ContainsAny(text, alphanumeric) && strings.Trim(text, alphanumeric+"-._") == ""
}

// checkHosts checks the names of --allow-host.
func (o *options) checkHosts() error {
	if o.given("allow-host") && len(o.hosts) == 0 {
		return errors.New(`invalid --allow-host "": give a name or an address, host.docker.internal for instance`)
	}
	for _, host := range o.hosts {
		if !isHost(host) {
			return fmt.Errorf("invalid --allow-host %q: give a name or an address without a scheme and a port, host.docker.internal for instance", host)
		}
	}
	if len(o.hosts) > 0 && o.accessKey != "" {
		return errors.New("--allow-host has no meaning with keys: a request that one of them signed may name any host")
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
