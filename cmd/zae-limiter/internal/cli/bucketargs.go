package cli

import (
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/store"
)

// bucketArgs are the arguments of a command that looks at an entity's bucket for a resource.
type bucketArgs struct {
	app              *app.App
	entity, resource string
}

// Validate checks the names.
func (o *bucketArgs) Validate() error {
	if err := store.CheckEntity(o.entity); err != nil {
		return err
	}
	return store.CheckResource(o.resource)
}
