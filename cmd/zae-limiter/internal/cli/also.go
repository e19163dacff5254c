package cli

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

// bindAlso adds the flag for further resources of a request.
func bindAlso(cmd *cobra.Command, also *limitarg.Also) {
	cmd.Flags().Var(also, "also", "tokens of a further resource, all or none with the first; may\nbe repeated, up to 16 resources in all")
}

// partsOf are further resources in a request. The fallback of a request is that of each.
func partsOf(also limitarg.Also, fallback []limiter.Limit) []limiter.Part {
	parts := make([]limiter.Part, len(also))
	for i, a := range also {
		parts[i] = limiter.Part{Resource: a.Resource, Consume: a.Amounts, Fallback: fallback}
	}
	return parts
}
