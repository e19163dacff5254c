package usage

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A merge brings the snapshots of several scans into the order of [order].
type merge struct{ scans []*scan }

// A scan is a part of what a query asks for, in the order of [order]. It is read on demand.
type scan struct {
	// read returns snapshots that follow those of the call before; done reports that these
	// are the last ones.
	read   func(context.Context) (next []schema.Usage, done bool, err error)
	buffer []schema.Usage
	done   bool
}

// fill reads until there is a snapshot, or none are left.
func (s *scan) fill(ctx context.Context) (err error) {
	for len(s.buffer) == 0 && !s.done {
		if s.buffer, s.done, err = s.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// next returns the next snapshot, nil after the last one. It adds up those that several
// scans have of one window: the stream counted one part of it, and the diary the other.
func (m *merge) next(ctx context.Context) (*schema.Usage, error) {
	var first *scan
	for _, s := range m.scans {
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
		if len(s.buffer) > 0 && (first == nil || order(&s.buffer[0], &first.buffer[0]) < 0) {
			first = s
		}
	}
	if first == nil {
		return nil, nil
	}
	u := &first.buffer[0]
	first.buffer = first.buffer[1:]
	for _, s := range m.scans {
		if len(s.buffer) > 0 && order(&s.buffer[0], u) == 0 {
			also := &s.buffer[0]
			s.buffer = s.buffer[1:]
			u.Events += also.Events
			for _, a := range also.Tokens {
				addTokens(u, a.Limit, a.Milli)
			}
		}
	}
	return u, nil
}
