package stackarg

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/deploy"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

// Executable makes the zip of the executable at a path; "" is the running program.
func Executable(a *app.App, path string) (*deploy.Artefact, error) {
	if path == "" {
		content, err := a.Executable()
		if err != nil {
			return nil, fmt.Errorf("%w: name an executable with --binary", err)
		}
		made, err := deploy.NewArtefact(content)
		if err != nil {
			return nil, fmt.Errorf("the running program cannot be the code of the functions, give another with --binary: %w", err)
		}
		return made, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the executable: %w", err)
	}
	made, err := deploy.NewArtefact(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return made, nil
}

// Words of --arch.
var architectures = []choice[deploy.Architecture]{{"arm64", deploy.ARM64}, {"amd64", deploy.AMD64}}

// ArchitectureWord is the word of --arch for an architecture.
func ArchitectureWord(a deploy.Architecture) string {
	for _, c := range architectures {
		if c.of == a {
			return c.word
		}
	}
	return string(a)
}

// CodeFlags say what the functions of a stack run.
type CodeFlags struct{ zip, binary string }

// Bind adds the flags to a command.
func (f *CodeFlags) Bind(cmd *cobra.Command) {
	cmd.Flags().Var(app.Named(&f.binary), "binary", "`file` of the program that the functions run, built for Linux\n(default the running program)")
	cmd.Flags().Var(app.Named(&f.zip), "lambda-zip", "`file` with the code of the functions, as lambda-export writes it,\ninstead of --binary")
}

// Validate refuses both flags together.
func (f *CodeFlags) Validate() error {
	if f.zip != "" && f.binary != "" {
		return errors.New("--binary and --lambda-zip contradict each other: give one of them")
	}
	return nil
}

// Artefact is the code of the functions: a zip file, an executable, or else the running
// program.
func (f *CodeFlags) Artefact(a *app.App) (*deploy.Artefact, error) {
	if f.zip == "" {
		return Executable(a, f.binary)
	}
	packed, err := os.ReadFile(f.zip)
	if err != nil {
		return nil, fmt.Errorf("read the code of the functions: %w", err)
	}
	made, err := deploy.ReadArtefact(packed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.zip, err)
	}
	return made, nil
}
