package dynamo

import (
	"context"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A gate is a feature that others who write to a table must know.
type gate struct {
	op, least string // the first version that knows the feature
	harm      string // what an older aggregator would do
	bit       uint32 // of [Store.allowed]
}

var (
	topUps   = gate{"allow top-ups of quotas", "0.17.0", "take away what a quota was topped up by", 1}
	sessions = gate{"allow sessions", "0.15.0", "write buckets without knowing their sessions", 2}
)

// require checks that whatever else writes to the table knows a feature, and has older clients refused from
// now on, as the peer does. On a table with spread index keys, there are no clients of the peer.
func (s *Store) require(ctx context.Context, g *gate) error {
	if s.isSpread || s.allowed.Load()&g.bit != 0 {
		return nil
	}
	key := schema.VersionKey()
	items, err := s.conn.BatchGet(ctx, g.op, []schema.Key{key}, true) // as Open: with its permission
	if err != nil {
		return err
	}
	if it := items[key]; it != nil {
		v, want := versionOf(schema.DecodeVersion(it)), Versions{ClientMin: g.least}
		next, err := raise(v, want)
		switch {
		case err != nil:
			return err
		case v.Lambda != "" && v.lambdaIsBelow(g.least):
			return fmt.Errorf("%w: its aggregator has the version %s, and would %s: upgrade the aggregator to %s or later",
				store.ErrIncompatible, v.Lambda, g.harm, g.least)
		case next != v:
			if _, err := changeRecord(ctx, s.conn, g.op, func(_ item, was schema.Version) (schema.Version, error) {
				v, err := raise(versionOf(was), want)
				was.ClientMin = v.ClientMin
				return was, err
			}); err != nil {
				return err
			}
		}
	}
	s.allowed.Or(g.bit)
	return nil
}

// requireFor is require for the features of limits that are to be set.
func (s *Store) requireFor(ctx context.Context, limits []store.Limit) error {
	for i := range limits {
		if schema.SessionSeconds(limits[i].Renews) != 0 {
			return s.require(ctx, &sessions)
		}
	}
	return nil
}
