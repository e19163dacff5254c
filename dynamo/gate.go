package dynamo

import (
	"context"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A gate is a feature that versions of the Python package before least do not know, and would
// break: its clients are refused from the first use on, and its aggregator must be upgraded
// before. The package has gates for features that this version does not write, too; it has none
// for quotas of a calendar, schedules, resets and switches.
type gate struct {
	feature, least string
	harm           string // what an older aggregator would do
}

var (
	gateTopUps  = gate{"top-ups of quotas", "0.17.0", "take away what a quota was topped up by"}
	gateCascade = gate{"cascade policies", "0.16.0", "give shards that it makes the entity's own setting"}
	gateMoves   = gate{"moves to another parent", "0.17.0", "take the former parent for the present one"}
	gateBypass  = gate{"bypasses", "0.17.0", "not stamp the shards that it makes"}
	gateSoft    = gate{"soft limits", "0.17.0", "not stamp the shards that it makes"}
	gateCarry   = gate{"rollover of quotas", "0.17.0", "take away what a quota has rolled over"}
	gateSession = gate{"sessions", "0.15.0", "write buckets without knowing their sessions"}
)

// A VersionError says that a feature cannot be used, because something else that writes to the
// table does not know it. It is [store.ErrIncompatible].
type VersionError struct {
	Feature string // "top-ups of quotas"
	Harm    string // what the other program would do
	Version string // of the aggregator of the table
	Least   string // the oldest version that knows the feature
}

// Error names the version, and says what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%v: %s: its aggregator has the version %s, and would %s: upgrade the aggregator to %s or later",
		store.ErrIncompatible, e.Feature, e.Version, e.Harm, e.Least)
}

// Is reports whether target is [store.ErrIncompatible].
func (e *VersionError) Is(target error) bool { return target == store.ErrIncompatible }

// require checks that whatever else writes to the table knows a feature, and has older clients
// refused from now on, as the peer does. So it is on each table with a version record, whoever
// made it. On a table with spread index keys, there are no clients of the peer.
func (s *Store) require(ctx context.Context, g gate) error {
	if _, passed := s.gates.Load(g); s.isSpread || passed {
		return nil
	}
	op, key := "allow "+g.feature, schema.VersionKey()
	items, err := s.conn.BatchGet(ctx, op, []schema.Key{key}, true) // as Open: with its permission
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
			return &VersionError{Feature: g.feature, Harm: g.harm, Version: v.Lambda, Least: g.least}
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
	s.gates.Store(g, true)
	return nil
}

// allow requires what limits that are set at a level have: a soft one or one in a mode, which the
// package takes for a soft one, a session, or rollover,
// which items have as a top-up. A debt needs nothing that versions of the package do not know.
func (s *Store) allow(ctx context.Context, limits []store.Limit) error {
	for i := range limits {
		if !limits[i].Refuses() {
			if err := s.require(ctx, gateSoft); err != nil {
				return err
			}
		}
		if limits[i].Carries.Rollover != 0 {
			if err := s.require(ctx, gateCarry); err != nil {
				return err
			}
		}
		if schema.SessionSeconds(limits[i].Renews) != 0 {
			if err := s.require(ctx, gateSession); err != nil {
				return err
			}
		}
	}
	return nil
}
