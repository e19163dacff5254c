package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// Run serves until the context ends.
func (o *options) Run(ctx context.Context) error {
	// Listen first: if the address is taken, the directory stays untouched.
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.addr)
	if err != nil {
		return fmt.Errorf("--addr %s: %w", o.addr, err)
	}
	defer listener.Close() //nolint:errcheck // Serve has closed it, or accepted nothing
	db, err := dynamolite.Open(dynamolite.Options{
		Dir: o.dir, Now: o.app.Now, Logger: o.app.Logger(), Limits: o.engine.Limits, Latency: o.engine.Latency,
		SweepInterval: o.sweep, StreamBytes: o.streamBytes,
	})
	if errors.Is(err, dynamolite.ErrInUse) {
		return fmt.Errorf("--data %s: %w: stop the program that has it open, or choose another directory", o.dir, dynamolite.ErrInUse)
	}
	if err != nil {
		return err
	}
	handler := dynamolite.HandlerOptions{Hosts: o.hosts, Logger: o.app.Logger(), Now: o.app.Now}
	if o.accessKey != "" {
		handler.Credentials = map[string]string{o.accessKey: o.secretKey}
	}
	err = o.print(app.URLOf(listener.Addr()))
	if err == nil {
		err = dynamolite.NewHandler(db, handler).Serve(ctx, listener)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("requests that did not end in time were cut off: %w", err)
	case err != nil:
		err = fmt.Errorf("serve at %s: %w", o.addr, err)
	}
	return errors.Join(err, db.Close())
}

// Clients sign with these: any region, and any key if the server has none of its own.
const (
	region   = "us-east-1"
	dummyKey = "local"
)

// servingView is where the program serves, in JSON.
type servingView struct {
	Endpoint    string      `json:"endpoint"`       // URL of the server
	Data        string      `json:"data,omitempty"` // a directory
	Environment environment `json:"environment"`    // settings for other programs
}

// print writes the address of the server, and the environment that leads other programs to
// it. It does not repeat a secret that was given.
func (o *options) print(endpoint string) error {
	where := "in memory"
	if o.dir != "" {
		where = "in " + strconv.Quote(o.dir)
	}
	access, secret := o.accessKey, ""
	if access == "" {
		access, secret = dummyKey, dummyKey
	}
	env := environment{
		Tables: endpoint, Streams: endpoint, Region: region, DefaultRegion: region, AccessKey: access, SecretKey: secret,
	}
	return o.app.Print(servingView{endpoint, o.dir, env}, func(w *strings.Builder) {
		fmt.Fprintf(w, "# Serving DynamoDB at %s, its data %s. For other programs:\n", endpoint, where)
		for _, line := range [...][2]string{
			{"AWS_ENDPOINT_URL_DYNAMODB", env.Tables},
			{"AWS_ENDPOINT_URL_DYNAMODB_STREAMS", env.Streams},
			{"AWS_REGION", env.Region},
			{"AWS_DEFAULT_REGION", env.DefaultRegion},
			{"AWS_ACCESS_KEY_ID", env.AccessKey},
			{"AWS_SECRET_ACCESS_KEY", env.SecretKey},
		} {
			if line[1] != "" {
				fmt.Fprintf(w, "export %s=%s\n", line[0], line[1])
			}
		}
		if secret == "" {
			w.WriteString("# and AWS_SECRET_ACCESS_KEY, the secret of that key\n")
		}
	})
}

// environment is the environment of clients. Go and Python clients read the region under
// different names.
type environment struct {
	Tables        string `json:"AWS_ENDPOINT_URL_DYNAMODB"`         // URL of DynamoDB
	Streams       string `json:"AWS_ENDPOINT_URL_DYNAMODB_STREAMS"` // URL of DynamoDB Streams
	Region        string `json:"AWS_REGION"`                        // region
	DefaultRegion string `json:"AWS_DEFAULT_REGION"`                // region, for programs that read this variable
	AccessKey     string `json:"AWS_ACCESS_KEY_ID"`                 // key to sign requests with
	SecretKey     string `json:"AWS_SECRET_ACCESS_KEY,omitempty"`   // secret to sign requests with; missing if any serves
}
