package usage

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// Passed counts the steps that [Snapshots.Add] would leave out, because the snapshot has
// counted them or a later step of their shards. It reads consistently and writes nothing.
func (s *Snapshots) Passed(ctx context.Context, d *Delta) (int, error) {
	steps, err := d.steps()
	if err != nil {
		return 0, err
	}
	it, err := s.conn.GetItem(ctx, "read the usage of "+d.Entity+" for "+d.Resource,
		schema.UsageKey(s.ns, d.Entity, d.Resource, d.Window.String(), d.Start))
	if err != nil {
		return 0, err
	}
	passed := 0
	for _, step := range steps {
		if step.sequence <= schema.UsageSequence(it, step.Shard) {
			passed++
		}
	}
	return passed, nil
}
