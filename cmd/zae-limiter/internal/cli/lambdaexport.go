package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

type exportOptions struct {
	app          *app.App
	architecture string
	binary       string
	out          string
	info, force  bool
}

const exportAbout = `Write the zip of the Lambda functions of a stack: this program as bootstrap, for the
runtime provided.al2023. Lambda's setting Handler tells it what to be, aggregator or
provisioner. The same executable gives the same zip on every machine.

The zip has the running program, or the executable of --binary. It must be for Linux and
for arm64 or amd64: the released program, or one that is built with

  GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go install github.com/zeroae/zae-limiter-go/cmd/zae-limiter@VERSION

which leaves it in bin/linux_arm64 of $(go env GOPATH).`

func newLambdaExport(a *app.App) *cobra.Command {
	o := &exportOptions{app: a, out: "lambda.zip"}
	cmd := a.Command(o, &cobra.Command{
		Use:   "lambda-export",
		Short: "Write the zip of a stack's Lambda functions",
		Long:  exportAbout,
		Example: "  zae-limiter lambda-export --info\n" +
			"  zae-limiter lambda-export --binary ./zae-limiter --arch arm64 -o functions.zip",
	})
	cmd.Flags().Var(app.Choice(&o.architecture, "arm64", "amd64"), "arch", "require an executable for these processors")
	cmd.Flags().Var(app.Named(&o.binary), "binary", "`file` of the executable (default the running program)")
	cmd.Flags().VarP(app.Named(&o.out), "out", "o", "`file` of the zip")
	cmd.Flags().BoolVar(&o.info, "info", false, "show what the zip would be; write no file")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace an existing file")
	return a.Prints(cmd, exportView{})
}

// exportView is the result in JSON.
type exportView struct {
	File         string `json:"file,omitempty"`   // the zip; missing if none was written
	Architecture string `json:"architecture"`     // architecture of the executable, as AWS Lambda names it
	Bytes        int    `json:"bytes"`            // size of the zip
	Executable   int    `json:"executable_bytes"` // size of the executable
	SHA256       string `json:"sha256"`           // hash of the zip in hexadecimal
	Key          string `json:"key"`              // key in a bucket of code
}

// Run makes the zip, and writes it or shows what it is.
func (o *exportOptions) Run(ctx context.Context) error {
	artefact, err := app.Await(ctx, o.artefact)
	if err != nil {
		return err
	}
	result := exportView{o.out, string(artefact.Architecture()), len(artefact.Zip()), artefact.Executable(), artefact.SHA256(), artefact.Key()}
	if o.info {
		result.File = ""
	} else if err := app.WriteFile(o.out, artefact.Zip(), o.force); err != nil {
		return err
	}
	return o.app.Print(result, func(w *strings.Builder) {
		app.Fields(w, "File", result.File, "Architecture", result.Architecture, "Size", limitarg.Grouped(result.Bytes)+" bytes",
			"Executable", limitarg.Grouped(result.Executable)+" bytes", "SHA-256", result.SHA256, "Key", result.Key)
	})
}

// artefact makes the zip of the executable.
func (o *exportOptions) artefact() (*deploy.Artefact, error) {
	artefact, err := stackarg.Executable(o.app, o.binary)
	if err != nil {
		return nil, err
	}
	if is := stackarg.ArchitectureWord(artefact.Architecture()); o.architecture != "" && is != o.architecture {
		return nil, fmt.Errorf("%s is for %s, not for %s: build one with GOARCH=%s, and name it with --binary", cmp.Or(o.binary, "the running program"), is, o.architecture, o.architecture)
	}
	return artefact, nil
}
