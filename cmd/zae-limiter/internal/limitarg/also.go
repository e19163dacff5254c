package limitarg

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// An Asked is what a request asks of one resource.
type Asked struct {
	Resource string
	Amounts  Amounts
}

// Also is the value of a repeated flag: what a request asks of further resources, each as
// resource:name=tokens, with commas between amounts. A resource may contain colons, and a name
// of a limit may not.
type Also []Asked

// Set reads one more resource. It must be new.
func (v *Also) Set(s string) error {
	before, _, _ := strings.Cut(s, "=")
	colon := strings.LastIndex(before, ":")
	if colon < 0 {
		return errors.New("write resource:name=tokens, several amounts between commas: embeddings:rpm=1,tpm=200 for instance")
	}
	asked := Asked{Resource: s[:colon]}
	if err := store.CheckResource(asked.Resource); err != nil {
		return err
	}
	if err := asked.Amounts.Set(s[colon+1:]); err != nil {
		return err
	}
	if slices.ContainsFunc(*v, func(a Asked) bool { return a.Resource == asked.Resource }) {
		return fmt.Errorf("resource %s was given before: give all its amounts at once", asked.Resource)
	}
	*v = append(*v, asked)
	return nil
}

// String writes the resources in the form of the flag.
func (v *Also) String() string {
	parts := make([]string, len(*v))
	for i := range *v {
		parts[i] = (*v)[i].Resource + ":" + (*v)[i].Amounts.String()
	}
	return strings.Join(parts, " ")
}

// Type is the value's name in help.
func (*Also) Type() string { return "resource:name=tokens" }

// IsCumulative says that the flag takes several resources.
func (*Also) IsCumulative() bool { return true }
