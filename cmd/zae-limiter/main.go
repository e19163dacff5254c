// Command zae-limiter acquires from a rate limiter on DynamoDB, and administers
// its table.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

func main() {
	log.SetOutput(io.Discard) // net/http reports connections there that end in an unusual way
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)     // a second signal ends the process at once
	info, _ := debug.ReadBuildInfo() // nil: the build has recorded nothing
	code := cli.Run(ctx, cli.Options{
		Args:  os.Args[1:],
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: app.IsTerminal(os.Stdin),
		Getenv:   os.Getenv,
		Version:  cli.VersionOf(info),
	})
	stop()
	os.Exit(code)
}
