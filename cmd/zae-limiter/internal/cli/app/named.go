package app

import (
	"errors"

	"github.com/spf13/pflag"
)

// Named is the value of a flag that names something: a file or a resource. It refuses an
// empty name, which a script gives by mistake, and which would mean the flag's default.
func Named(target *string) pflag.Value { return (*named)(target) }

type named string

func (n *named) String() string { return string(*n) }

func (n *named) Set(s string) error {
	if s == "" {
		return errEmptyName
	}
	*n = named(s)
	return nil
}

// Type is that of other flags with a string.
func (*named) Type() string { return "string" }

var errEmptyName = errors.New("it is empty: give something, or leave the flag out")

// NamedList is the value of a flag that may be repeated, with a name each time.
func NamedList(target *[]string) pflag.Value { return (*namedList)(target) }

type namedList []string

func (l *namedList) String() string { return CommandLine(*l) }

func (l *namedList) Set(s string) error {
	if s == "" {
		return errEmptyName
	}
	*l = append(*l, s)
	return nil
}

// Type is that of other flags with several strings.
func (*namedList) Type() string { return "strings" }

// IsCumulative says that the flag takes several values.
func (*namedList) IsCumulative() bool { return true }
