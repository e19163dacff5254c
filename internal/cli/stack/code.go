package stack

import (
	"fmt"
	"os"

	"github.com/zeroae/zae-limiter-go/deploy"
	"github.com/zeroae/zae-limiter-go/deploy/stack"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/internal/cli/stackarg"
)

// artefact is the code of the functions: a zip file, an executable, or else the running
// program.
func (f *rolloutFlags) artefact(a *app.App) (*deploy.Artefact, error) {
	if f.zip == "" {
		return stackarg.Executable(a, f.binary)
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

// codeFor is the code for a stack, nil if the stack has no functions. The architecture of
// the options follows the code, unless the user gave another.
func (f *rolloutFlags) codeFor(a *app.App, o *deploy.Options, given bool) (*stack.Code, error) {
	spec, err := stackarg.Spec(*o)
	if err != nil || !spec.Aggregator() && !spec.Provisioner() {
		return nil, err
	}
	of, err := f.artefact(a)
	if err != nil {
		return nil, err
	}
	if given && o.Architecture != of.Architecture() {
		wants, is := stackarg.ArchitectureWord(o.Architecture), stackarg.ArchitectureWord(of.Architecture())
		return nil, app.Usagef("the functions are to be for %s, and the code is for %s: give a program for %s with --binary", wants, is, wants)
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
	o.KeepPeer(s.Outputs[stack.OutputCodeBucket])
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
