package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/report"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
)

// reporter is the command report.
type reporter struct {
	app   *app.App
	file  string // the result's
	html  string
	force bool
}

const aboutReport = `Write the result of a load test as one HTML page with charts. RESULT.json is what
loadtest run or loadtest swarm run writes with --output json; - is standard input. The page opens from a file,
loads nothing else and has no script. Nothing is sent.`

// NewReport is the command loadtest report.
func NewReport(a *app.App) *cobra.Command {
	o := &reporter{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "report RESULT.json",
		Short: "Write a result as an HTML page with charts",
		Long:  aboutReport,
		Example: "  zae-limiter loadtest report result.json\n" +
			"  zae-limiter loadtest run hot --local :memory: --output json | zae-limiter loadtest report - --html hot.html",
	}, &o.file)
	cmd.Flags().Var(app.Named(&o.html), "html", "`file` of the page (default the result's name with .html)")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace an existing file")
	return a.Prints(cmd, pageView{})
}

// Validate settles the name of the page.
func (o *reporter) Validate() error {
	if o.html == "" {
		if o.file == standardInput {
			return errors.New("missing --html: standard input has no name to derive that of the page from")
		}
		o.html = strings.TrimSuffix(o.file, ".json") + ".html"
	}
	if o.html == o.file {
		return fmt.Errorf("invalid --html %q: it is the file of the result: give another", o.html)
	}
	return nil
}

// Run writes the page.
func (o *reporter) Run(context.Context) error {
	text, err := readFile(o.app, o.file)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := o.write(&page, text); err != nil {
		return err
	}
	if err := app.WriteFile(o.html, page.Bytes(), o.force); err != nil {
		return err
	}
	return o.app.Print(pageView{o.html}, func(w *strings.Builder) {
		fmt.Fprintf(w, "The page is in %s\n", o.html)
	})
}

// write writes the page of a result of loadtest run, or of loadtest swarm run.
func (o *reporter) write(page *bytes.Buffer, text []byte) error {
	var unread, unwritten error
	if swarm.IsResult(text) {
		var r *swarm.Result
		if r, unread = swarm.Read(bytes.NewReader(text)); unread == nil {
			unwritten = report.Swarm(page, r)
		}
	} else {
		var r *result.Result
		if r, unread = result.Read(bytes.NewReader(text)); unread == nil {
			unwritten = report.HTML(page, r)
		}
	}
	switch {
	case unread != nil:
		return fmt.Errorf("read %s: %w", o.file, unread)
	case unwritten != nil:
		return fmt.Errorf("write the page: %w", unwritten)
	}
	return nil
}

// pageView is the result in JSON.
type pageView struct {
	File string `json:"html"` // of the page
}

// standardInput is the name of standard input on the command line.
const standardInput = "-"

// readResult reads the file of a result of loadtest run.
func readResult(a *app.App, name string) (*result.Result, error) {
	text, err := readFile(a, name)
	if err != nil {
		return nil, err
	}
	if swarm.IsResult(text) {
		return nil, fmt.Errorf("read %s: loadtest swarm run has written it: Locust has no samples from which intervals follow: give results of loadtest run", name)
	}
	r, err := result.Read(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return r, nil
}

// readFile reads a file, or standard input.
func readFile(a *app.App, name string) ([]byte, error) {
	read := func() ([]byte, error) { return os.ReadFile(name) }
	if name == standardInput {
		read = func() ([]byte, error) { return io.ReadAll(a.Stdin) }
	}
	text, err := read()
	if err != nil {
		return nil, app.Unread("a result", err)
	}
	return text, nil
}
