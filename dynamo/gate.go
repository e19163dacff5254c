package dynamo

import (
	"context"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// requireClients checks that whatever else writes to the table knows what the peer has since
// its release 0.17.0, and has older clients refused from now on, as the peer does. That is
// top-ups, soft limits and bypasses. otherwise is what an older aggregator would do. On a table
// with spread index keys, there are no clients of the peer.
func (s *Store) requireClients(ctx context.Context, op, otherwise string) error {
	const least = "0.17.0"
	if s.isSpread || s.hasClients.Load() {
		return nil
	}
	key := schema.VersionKey()
	items, err := s.conn.BatchGet(ctx, op, []schema.Key{key}, true) // as Open: with its permission
	if err != nil {
		return err
	}
	if it := items[key]; it != nil {
		v, want := versionOf(schema.DecodeVersion(it)), Versions{ClientMin: least}
		next, err := raise(v, want)
		switch {
		case err != nil:
			return err
		case v.Lambda != "" && v.lambdaIsBelow(least):
			return fmt.Errorf("%w: its aggregator has the version %s, and %s: upgrade the aggregator to %s or later",
				store.ErrIncompatible, v.Lambda, otherwise, least)
		case next != v:
			if _, err := changeRecord(ctx, s.conn, op, func(_ item, was schema.Version) (schema.Version, error) {
				v, err := raise(versionOf(was), want)
				was.ClientMin = v.ClientMin
				return was, err
			}); err != nil {
				return err
			}
		}
	}
	s.hasClients.Store(true)
	return nil
}

// allowSoft is requireClients for limits that are set at a level, if one of them is soft.
func (s *Store) allowSoft(ctx context.Context, limits []store.Limit) error {
	if !slices.ContainsFunc(limits, func(l store.Limit) bool { return l.Soft }) {
		return nil
	}
	return s.requireClients(ctx, "allow soft limits", "would not stamp the shards that it makes")
}
