package usage

import (
	"context"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Diary is a text of a bucket's life.
type Diary struct {
	store.Bucket
	Life int64
	Text string
}

// Save is a placeholder until the branch with pages is merged.
func (s *Snapshots) Save(ctx context.Context, d Diary) error { return nil }
