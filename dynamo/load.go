package dynamo

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Load reads an entity's record, configuration and a bucket in one request. It returns
// a complete answer or an error.
func (s *Store) Load(ctx context.Context, l *store.Load) (*store.Loaded, error) {
	keys, err := s.loadKeys(l)
	if err != nil {
		return nil, err
	}
	items, err := s.conn.BatchGet(ctx, "load configuration", keys, l.Consistent)
	if err != nil {
		return nil, err
	}
	loaded := &store.Loaded{Configs: make([]*store.Config, len(l.Configs))}
	for i := range l.Configs {
		if it, ok := items[keys[i]]; ok {
			if loaded.Configs[i], err = schema.DecodeConfig(it); err != nil {
				return nil, err
			}
		}
	}
	for _, k := range keys[len(l.Configs):] {
		it, ok := items[k]
		switch {
		case !ok:
		case k.SK == schema.MetaSK:
			loaded.Entity, err = schema.DecodeEntity(it)
		default:
			loaded.Image, err = schema.DecodeBucket(it)
		}
		if err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// loadKeys returns the keys of the configurations in l, then those of the record and of
// the bucket, if requested. It validates all names.
func (s *Store) loadKeys(l *store.Load) ([]schema.Key, error) {
	const others = 2
	keys := make([]schema.Key, 0, len(l.Configs)+others)
	for _, k := range l.Configs {
		if err := schema.CheckConfigKey(k); err != nil {
			return nil, err
		}
		keys = append(keys, schema.ConfigKey(s.ns, k))
	}
	if l.Entity != "" {
		if err := store.CheckEntity(l.Entity); err != nil {
			return nil, err
		}
		keys = append(keys, schema.MetaKey(s.ns, l.Entity))
	}
	if l.Bucket != nil {
		if err := checkBucket(*l.Bucket); err != nil {
			return nil, err
		}
		keys = append(keys, schema.BucketKey(s.ns, *l.Bucket))
	}
	return keys, nil
}
