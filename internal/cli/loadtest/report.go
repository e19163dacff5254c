package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/loadtest/report"
	"github.com/zeroae/zae-limiter-go/loadtest/result"
)

// reporter is the command report.
type reporter struct {
	app   *app.App
	file  string // the result's
	html  string
	force bool
}

const aboutReport = `Write the result of a load test as one HTML page with charts. RESULT.json is what
loadtest run writes with --output json; - is standard input. The page opens from a file,
loads nothing else and has no script. Nothing is sent.`

// NewReport is the command loadtest report.
func NewReport(a *app.App) *cobra.Command {
	o := &reporter{app: a}
	cmd := &cobra.Command{
		Use:   "report RESULT.json",
		Short: "Write a result as an HTML page with charts",
		Long:  aboutReport,
		Example: "  zae-limiter loadtest report result.json\n" +
			"  zae-limiter loadtest run hot --local :memory: --output json | zae-limiter loadtest report - --html hot.html",
		Args: app.Args("RESULT.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return a.Run(cmd.Context(), o)
		},
	}
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
	r, err := readResult(o.app, o.file)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := report.HTML(&page, r); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if err := app.WriteFile(o.html, page.Bytes(), o.force); err != nil {
		return err
	}
	return o.app.Print(pageView{o.html}, func(w *strings.Builder) {
		fmt.Fprintf(w, "The page is in %s\n", o.html)
	})
}

// pageView is the result in JSON.
type pageView struct {
	File string `json:"html"` // of the page
}

// standardInput is the name of standard input on the command line.
const standardInput = "-"

// readResult reads the file of a result.
func readResult(a *app.App, name string) (r *result.Result, err error) {
	from := a.Stdin
	if name != standardInput {
		f, err := os.Open(name)
		if err != nil {
			return nil, app.Unread("a result", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		from = f
	}
	if r, err = result.Read(from); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return r, nil
}
