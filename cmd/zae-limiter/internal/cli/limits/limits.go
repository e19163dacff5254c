// Package limits has the commands for limits that a file declares.
package limits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
)

// New is the command limits.
func New(a *app.App) *cobra.Command {
	return app.Group("limits", "Plan, apply, import and export limits as a file",
		newPlan(a), newApply(a), newDiff(a), newImport(a), newExport(a), newSchema(a), newTemplate(a))
}

// file is the flag that names a manifest.
type file struct {
	app  *app.App
	path string
}

func (f *file) bind(cmd *cobra.Command) {
	cmd.Flags().VarP(app.Named(&f.path), "file", "f", "`file` with the manifest, in YAML or JSON; - is standard input")
}

// Validate checks that there is a file.
func (f *file) Validate() error {
	if f.path == "" {
		return app.Required("file", "limits.yaml")
	}
	return nil
}

// read reads the manifest. Its namespace becomes the command's; a namespace that was
// given must be the same.
func (f *file) read() (*manifest.Manifest, error) {
	name, data, err := f.content()
	if err != nil {
		return nil, app.Unread("the manifest", err)
	}
	m, err := manifest.Parse(name, data)
	if err != nil {
		return nil, err
	}
	flags := &f.app.Flags
	_, given := flags.Given("namespace")
	if (given || f.app.Getenv(app.EnvNamespace) != "") && flags.Namespace != m.Namespace {
		return nil, app.Usagef("the manifest is for namespace %q, not for %q of --namespace or $%s: make them agree, or leave that out",
			m.Namespace, flags.Namespace, app.EnvNamespace)
	}
	flags.Namespace = m.Namespace
	return m, nil
}

// content reads the file, and returns its name in errors. Of a file that is too large it
// reads enough to see that.
func (f *file) content() (name string, data []byte, err error) {
	if f.path == "-" {
		data, err = readAll(f.app.Stdin)
		return "standard input", data, err
	}
	of, err := os.Open(f.path)
	if err != nil {
		return f.path, nil, err
	}
	data, err = readAll(of)
	return f.path, data, errors.Join(err, of.Close())
}

func readAll(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, manifest.MaxBytes+1)) }

// open reads the manifest and opens its namespace.
func (f *file) open(ctx context.Context) (*manifest.Manifest, *manifest.Manager, error) {
	of, err := f.read()
	if err != nil {
		return nil, nil, err
	}
	store, err := f.app.Store(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, err := manifest.New(store)
	return of, m, err
}

// errIncomplete ends a command of which a part failed. The result shows which.
func errIncomplete(failed, all int) error {
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d levels failed: correct the cause, and run the command again", errPartly, failed, all)
}

var errPartly = errors.New("not everything was done")
