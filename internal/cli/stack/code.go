package stack

import (
	"fmt"
	"os"

	"github.com/zeroae/zae-limiter-go/deploy"
	"github.com/zeroae/zae-limiter-go/deploy/stack"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

// artefact is the code of the functions: a zip file, or else the running program.
func artefact(a *app.App, zip string) (*deploy.Artefact, error) {
	if zip != "" {
		packed, err := os.ReadFile(zip)
		if err != nil {
			return nil, fmt.Errorf("read the code of the functions: %w", err)
		}
		return deploy.ReadArtefact(packed)
	}
	executable, err := a.Executable()
	if err != nil {
		return nil, err
	}
	made, err := deploy.NewArtefact(executable)
	if err != nil {
		return nil, fmt.Errorf("the running program cannot be the code of the functions, give --lambda-zip: %w", err)
	}
	return made, nil
}

// codeFor is the code for a stack, nil if the stack has no functions. The architecture of
// the options follows the code, unless the user gave another.
func codeFor(a *app.App, zip string, o *deploy.Options, given bool) (*stack.Code, error) {
	spec, err := deploy.New(*o)
	if err != nil || !spec.Aggregator() && !spec.Provisioner() {
		return nil, err
	}
	of, err := artefact(a, zip)
	if err != nil {
		return nil, err
	}
	if given && o.Architecture != of.Architecture() {
		return nil, app.Usagef("--arch is %s, and the code is for %s: give a zip for %s with --lambda-zip",
			o.Architecture, of.Architecture(), o.Architecture)
	}
	o.Architecture, o.CodeKey = of.Architecture(), of.Key()
	return &stack.Code{Bucket: o.CodeBucket, Key: of.Key(), Zip: of.Zip()}, nil
}

// optionsOf are the options of a stack as it is. The stack of the Python package keeps what
// its table has.
func optionsOf(s *stack.Stack, table stack.Shape) (deploy.Options, error) {
	var parameters []deploy.Parameter
	for key, value := range s.Parameters {
		parameters = append(parameters, deploy.Parameter{Key: key, Value: value})
	}
	var tags []deploy.Tag
	for key, value := range s.Tags {
		tags = append(tags, deploy.Tag{Key: key, Value: value})
	}
	o, err := deploy.OptionsOf(s.Name, parameters, tags)
	if err != nil {
		return o, fmt.Errorf("read the options of stack %s: %w", s.Name, err)
	}
	if _, ours := s.Parameters["GSI2Projection"]; ours || len(s.Parameters) == 0 {
		return o, nil
	}
	o.KeepPeer()
	o.LocalIndexes = table.LocalIndexes
	if !table.GSI2All {
		o.GSI2Projection = deploy.ProjectKeys
	}
	return o, nil
}

// specOf is what a stack is to become.
func specOf(of *deploy.Spec, allow []string) stack.Spec {
	s := stack.Spec{
		Name: of.Name(), Template: string(of.Template()), AllowReplacement: allow,
		Parameters: map[string]string{}, Tags: map[string]string{},
	}
	for _, p := range of.Parameters() {
		s.Parameters[p.Key] = p.Value
	}
	for _, t := range of.Tags() {
		s.Tags[t.Key] = t.Value
	}
	return s
}
