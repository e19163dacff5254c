package stackarg

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
)

// Executable makes the zip of the executable at a path; "" is the running program.
func Executable(a *app.App, path string) (*deploy.Artefact, error) {
	if path != "" {
		return readExecutable(path)
	}
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

func readExecutable(path string) (*deploy.Artefact, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, app.Unread("the executable", err)
	}
	made, err := deploy.NewArtefact(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return made, nil
}

// ArchitectureWord is the word of --arch for an architecture.
func ArchitectureWord(a deploy.Architecture) string {
	if a == deploy.AMD64 {
		return "amd64"
	}
	return string(a)
}

// CodeFlags say what the functions of a stack run.
type CodeFlags struct {
	zip, binary string
	named       *deploy.Artefact // the code in the file that a flag names, nil without such a flag
}

// Bind adds the flags to a command.
func (f *CodeFlags) Bind(cmd *cobra.Command) {
	cmd.Flags().Var(app.Named(&f.binary), "binary", "`file` of the program that the functions run, built for Linux\n(default the running program)")
	cmd.Flags().Var(app.Named(&f.zip), "lambda-zip", "`file` with the code of the functions, as lambda-export writes it,\ninstead of --binary")
}

// Validate refuses both flags together, and a file that is no code for the functions.
func (f *CodeFlags) Validate() (err error) {
	switch {
	case f.zip != "" && f.binary != "":
		return errors.New("--binary and --lambda-zip contradict each other: give one of them")
	case f.zip != "":
		f.named, err = readZip(f.zip)
	case f.binary != "":
		f.named, err = readExecutable(f.binary)
	}
	return err
}

// Artefact is the code of the functions: that of the flags, which are valid, or else the
// running program.
func (f *CodeFlags) Artefact(a *app.App) (*deploy.Artefact, error) {
	if f.named != nil {
		return f.named, nil
	}
	return Executable(a, "")
}

func readZip(path string) (*deploy.Artefact, error) {
	packed, err := os.ReadFile(path)
	if err != nil {
		return nil, app.Unread("the code of the functions", err)
	}
	made, err := deploy.ReadArtefact(packed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return made, nil
}
