package stackarg

import (
	"fmt"
	"os"

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
var architectures = map[string]deploy.Architecture{"arm64": deploy.ARM64, "amd64": deploy.AMD64}

// ArchitectureWord is the word of --arch for an architecture.
func ArchitectureWord(a deploy.Architecture) string {
	for word, of := range architectures {
		if of == a {
			return word
		}
	}
	return string(a)
}
