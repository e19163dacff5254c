package scenario

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// files are the scenarios of the program, a file each, called as the scenario.
//
//go:embed files/*.yaml
var files embed.FS

const extension = ".yaml"

// names are the scenarios of the program, those of users before those of single effects.
var names = []string{
	"simple", "max-rps", "llm-gateway", "llm-production", "llm-production-spike", "stress",
	"warm", "cascade", "refused", "hot", "spread", "llm", "attack", "strangers", "routing",
}

// Names returns the names of the scenarios of the program.
func Names() []string { return slices.Clone(names) }

// Source returns the file of a scenario of the program. It fails with a
// [*store.NotFoundError].
func Source(name string) ([]byte, error) {
	data, err := files.ReadFile("files/" + name + extension)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, &store.NotFoundError{
			Kind: "scenario", Name: name,
			Hint: "use one of " + strings.Join(names, ", ") + ", or give a file",
		}
	}
	return data, err
}

// Builtin returns a scenario of the program. It fails with a [*store.NotFoundError].
func Builtin(name string) (*Scenario, error) {
	data, err := Source(name)
	if err != nil {
		return nil, err
	}
	s, err := Parse(name+extension, data)
	if err != nil {
		return nil, fmt.Errorf("scenario %s of the program: %w", name, err)
	}
	return s, nil
}
