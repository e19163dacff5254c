package usage

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// Passed counts the steps that [Snapshots.Add] would leave out, because the snapshot has
// counted them, or what they consumed with a later step. It reads consistently and writes nothing.
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
	passed, known := 0, marks{}
	if err := known.read(it, steps); err != nil {
		return 0, err
	}
	for i := range steps {
		if known.has(&steps[i]) {
			passed++
		}
	}
	return passed, nil
}
