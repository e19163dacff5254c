package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/deploy"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
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
for arm64 or amd64. To build one, run

  GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -trimpath -o zae-limiter ./cmd/zae-limiter`

func newLambdaExport(a *app.App) *cobra.Command {
	o := &exportOptions{app: a}
	cmd := &cobra.Command{
		Use:   "lambda-export",
		Short: "Write the zip of a stack's Lambda functions",
		Long:  exportAbout,
		Example: "  zae-limiter lambda-export --info\n" +
			"  zae-limiter lambda-export --binary ./zae-limiter --arch arm64 -o functions.zip",
		Args: app.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.Run(cmd.Context(), o) },
	}
	cmd.Flags().Var(app.Choice(&o.architecture, "arm64", "amd64"), "arch", "require an executable for these processors")
	cmd.Flags().StringVar(&o.binary, "binary", "", "`file` of the executable (default the running program)")
	cmd.Flags().StringVarP(&o.out, "out", "o", "lambda.zip", "`file` of the zip")
	cmd.Flags().BoolVar(&o.info, "info", false, "show what the zip would be; write no file")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace an existing file")
	return cmd
}

// Validate has nothing to check.
func (*exportOptions) Validate() error { return nil }

// Run makes the zip, and writes it or shows what it is.
func (o *exportOptions) Run(context.Context) error {
	artefact, err := o.artefact()
	if err != nil {
		return err
	}
	result := struct {
		File         string `json:"file,omitempty"`
		Architecture string `json:"architecture"`
		Bytes        int    `json:"bytes"`
		Executable   int    `json:"executable_bytes"`
		SHA256       string `json:"sha256"`
		Key          string `json:"key"`
	}{o.out, string(artefact.Architecture()), len(artefact.Zip()), artefact.Executable(), artefact.SHA256(), artefact.Key()}
	if o.info {
		result.File = ""
	} else if err := app.WriteFile(o.out, artefact.Zip(), o.force); err != nil {
		return err
	}
	return o.app.Print(result, func(w *strings.Builder) {
		app.Fields(w, "File", result.File, "Architecture", result.Architecture, "Size", strconv.Itoa(result.Bytes)+" bytes",
			"Executable", strconv.Itoa(result.Executable)+" bytes", "SHA-256", result.SHA256, "Key", result.Key)
	})
}

// artefact makes the zip of the executable.
func (o *exportOptions) artefact() (*deploy.Artefact, error) {
	path := o.binary
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the running program: %w: name an executable with --binary", err)
		}
		path = self
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the executable: %w", err)
	}
	artefact, err := deploy.NewArtefact(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	want := map[string]deploy.Architecture{"arm64": deploy.ARM64, "amd64": deploy.AMD64}[o.architecture]
	if want != "" && artefact.Architecture() != want {
		return nil, fmt.Errorf("%s is for %s, not for %s: build one with GOARCH=%s, and name it with --binary", path, artefact.Architecture(), want, o.architecture)
	}
	return artefact, nil
}
