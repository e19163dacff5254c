package estimate

import "time"

// isYoung reports whether a process has read the configuration of a bucket within the time
// to live.
func (s *simulation) isYoung(k *known) bool { return s.now-k.read < s.o.ConfigTTL }

// readLevels are the read units of the levels that a process has not read within a time, and
// of the entity's record. each are those of one item. The process knows what it reads when
// configured is called.
func (s *simulation) readLevels(k *known, age time.Duration, each float64) (units float64, configured func()) {
	entity, resource := k.item.key.entity, k.item.key.resource
	keys := [...]bucketKey{{entity, resource}, {entity, none}, {none, resource}, {none, none}}
	units, began := each, s.now
	read := s.now
	var missing []bucketKey
	for _, key := range keys {
		if at, ok := k.of.fetched[key]; ok && s.now-at < age {
			read = min(read, at)
			continue
		}
		missing = append(missing, key)
		units += each
	}
	return units, func() {
		k.read = max(k.read, read)
		for _, key := range missing {
			k.of.fetched[key] = max(began, k.of.fetched[key])
		}
	}
}

// compare reads the configuration of a bucket again, once for all that want it meanwhile.
// then may be nil.
func (s *simulation) compare(k *known, then func()) {
	if then != nil {
		k.compared = append(k.compared, then)
	}
	if k.comparing {
		return
	}
	const young, one = 4, 0.5
	k.comparing = true
	reads, configured := s.readLevels(k, s.o.ConfigTTL/young, one)
	s.request(causeConfig, 0, reads, func() {
		configured()
		waiting := k.compared
		k.comparing, k.compared = false, nil
		for _, then := range waiting {
			then()
		}
	})
}

// inspect reads all shards of a bucket and, if that is due, its configuration.
func (s *simulation) inspect(k *known, cause int, then func()) {
	const missing, one = 1.5, 0.5 // read units of a search for a bucket that does not exist
	reads := missing
	if k.item.exists {
		reads = float64(len(k.item.shards))
	}
	if !s.isYoung(k) {
		levels, configured := s.readLevels(k, s.o.ConfigTTL, one)
		s.books.add(cause, 0, levels)
		s.request(cause, 0, reads, func() { configured(); then() })
		return
	}
	s.request(cause, 0, reads, then)
}

// available asks for what is available of an entity's bucket and of its parent's.
func (s *simulation) available(p *process, it *item, done func()) {
	s.inspect(p.knows(it), causeCalls, func() {
		if it.parent == nil {
			done()
			return
		}
		s.inspect(p.knows(it.parent), causeCalls, done)
	})
}

// setLimits sets the limits of an entity for a resource to what they are. The buckets of the
// entity are listed and repaired, also if nothing has changed.
func (s *simulation) setLimits(it *item, done func()) {
	const steps, bucketReads, bucketWrites = 4, 6, 1
	reads, writes := float64(entityLimitsReads), 0.0
	if !s.levels[it.key] {
		s.levels[it.key] = true
		writes += entityLimitsWrites
	}
	if it.exists {
		reads, writes = reads+bucketReads, writes+bucketWrites
		s.stream.record(it, 0)
	}
	s.books.add(causeCalls, writes, reads)
	s.after(steps*s.o.Latency, done)
}
