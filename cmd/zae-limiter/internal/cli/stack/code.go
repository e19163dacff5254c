package stack

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

// codeFor is the code for a stack, nil if the stack has no functions. The architecture of
// the options follows the code, unless the user gave another.
func (f *rolloutFlags) codeFor(a *app.App, o *deploy.Options, given bool) (*stack.Code, error) {
	spec, err := stackarg.Spec(*o)
	if err != nil || !spec.Aggregator() && !spec.Provisioner() {
		return nil, err
	}
	of, err := f.code.Artefact(a)
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

// An ownOptionsError says that this version refuses options that a stack has already. They are
// no arguments, so it hides that the error inside is one of validation. It is
// [stack.ErrBlocked].
type ownOptionsError struct {
	stack string
	err   error
	next  string
}

// Error names the option and what to do.
func (e *ownOptionsError) Error() string {
	return fmt.Sprintf("stack %s has options that this version refuses: %v: %s", e.stack, e.err, e.next)
}

// Is reports whether target is [stack.ErrBlocked].
func (*ownOptionsError) Is(target error) bool { return target == stack.ErrBlocked }

// checkOptions refuses options. An error is the stack's and not the command line's if the
// options of the stack as it is are refused, too.
func checkOptions(live *stack.Stack, before, options *deploy.Options) error {
	_, err := stackarg.Spec(*options)
	if err == nil || live == nil {
		return err
	}
	if _, own := stackarg.Spec(*before); own != nil {
		return &ownOptionsError{live.Name, err, "set others with the flags of zae-limiter deploy"}
	}
	return err
}

// optionsOf are the options of a stack as it is. The stack of the Python package keeps what
// its table has.
func optionsOf(s *stack.Stack, table stack.Shape) (deploy.Options, error) {
	o, err := deploy.OptionsOf(s.Name, s.Parameters, s.Tags)
	if err != nil {
		return o, &ownOptionsError{s.Name, err, "correct its parameters, then try again"}
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
