package audit

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/store"
)

// subject holds the flags that select the subject of events.
type subject struct {
	entity, resource, namespace string
	system                      bool

	flags *pflag.FlagSet
}

var errSubject = errors.New("give one of --entity ID, --resource NAME, --system and --namespace-name NAME")

// bind adds the flags to a command.
func (s *subject) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	s.flags = f
	f.StringVarP(&s.entity, "entity", "e", "", "changes of the entity `ID` and of its own limits")
	f.StringVarP(&s.resource, "resource", "r", "", "changes of the default limits of a resource `name`")
	f.BoolVar(&s.system, "system", false, "changes of the default limits of all resources, and of the retention")
	f.StringVar(&s.namespace, "namespace-name", "", "registrations and deletions of the namespace `name`, in the\nwhole table; --namespace is ignored")
}

// given counts the subject flags on the command line.
func (s *subject) given() (n int) {
	for _, name := range []string{"entity", "resource", "system", "namespace-name"} {
		if s.flags.Changed(name) {
			n++
		}
	}
	return n
}

// name is the subject's name in events.
func (s *subject) name() (string, error) {
	switch {
	case s.entity != "":
		return s.entity, store.CheckEntity(s.entity)
	case s.resource != "":
		return audit.Resource(s.resource), store.CheckResource(s.resource)
	case s.namespace != "":
		return audit.Namespace(s.namespace), store.CheckNamespace(s.namespace)
	case s.system:
		return audit.System, nil
	}
	return "", errSubject // no subject
}
