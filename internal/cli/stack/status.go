package stack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/deploy/stack"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

type statusOptions struct {
	app   *app.App
	watch bool
}

func newStatus(a *app.App) *cobra.Command {
	o := &statusOptions{app: a}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the stack, its last operation and its outputs",
		Long: "Show the state of a stack, the events of its last operation and its outputs.\n\n" +
			"The exit code is 0 if the stack is in order or an operation runs, and 1 otherwise." + names,
		Args: app.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.Run(cmd.Context(), o) },
	}
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "follow the running operation to its end")
	return cmd
}

// Validate checks the flags.
func (o *statusOptions) Validate() error { return o.app.CheckStack() }

// Run shows the status. A stack that is not in order is an error, after the result.
func (o *statusOptions) Run(ctx context.Context) error {
	m, _, err := o.app.Stacks(ctx)
	if err != nil {
		return err
	}
	s, err := m.Find(ctx, o.app.Flags.Table)
	if err != nil {
		return err
	}
	if o.watch && s.Running() {
		if s, err = m.Follow(ctx, s.ID, printer{o.app}.event); err != nil {
			return err
		}
	}
	events, err := m.LastOperation(ctx, s)
	if err != nil {
		return err
	}
	if err := o.print(s, events); err != nil {
		return err
	}
	return s.Problem()
}

// eventView is an event in JSON.
type eventView struct {
	Time     time.Time `json:"time"`
	Resource string    `json:"resource"`
	Type     string    `json:"type"`
	Status   string    `json:"status"`
	Reason   string    `json:"reason,omitempty"`
	Seconds  float64   `json:"seconds,omitempty"`
}

func (o *statusOptions) print(s *stack.Stack, events []stack.Event) error {
	views := make([]eventView, len(events))
	for i, e := range events {
		views[i] = eventView{e.Time.UTC(), e.LogicalID, e.Type, e.Status, e.Reason, e.Took.Seconds()}
	}
	drift := s.TagDrift(map[string]string{stack.TagManagedBy: stack.ManagedBy, stack.TagName: s.UserName(), stack.TagType: stack.TypeLimiter})
	missing := make([]string, len(drift))
	for i, d := range drift {
		missing[i] = d.Key
	}
	return o.app.Print(struct {
		Stack   string            `json:"stack"`
		ID      string            `json:"id"`
		Status  string            `json:"status"`
		Reason  string            `json:"reason,omitempty"`
		Created time.Time         `json:"created_at"`
		Version string            `json:"version,omitempty"`
		Missing []string          `json:"missing_tags,omitempty"`
		Outputs map[string]string `json:"outputs"`
		Events  []eventView       `json:"events"`
	}{s.Name, s.ID, s.Status, s.Reason, s.Created.UTC(), s.Tags[stack.TagVersion], missing, s.Outputs, views}, func(w *strings.Builder) {
		app.Fields(w, "Stack", s.Name, "Status", s.Status, "Reason", s.Reason, "Created", s.Created.UTC().Format(time.RFC3339),
			"Version", s.Tags[stack.TagVersion], "Missing tags", strings.Join(missing, ", "))
		if len(s.Outputs) > 0 {
			w.WriteString("\nOutputs\n")
		}
		for _, name := range slices.Sorted(maps.Keys(s.Outputs)) {
			fmt.Fprintf(w, "  %s = %s\n", name, s.Outputs[name])
		}
		w.WriteString("\nLast operation\n")
		for _, e := range events {
			fmt.Fprintf(w, "  %s\n", eventLine(e))
		}
	})
}
