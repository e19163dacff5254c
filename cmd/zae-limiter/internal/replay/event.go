package replay

import "io"

// An Event is a request that happened.
type Event struct {
	At               int64 // milliseconds since the Unix epoch
	Entity, Resource string
	Parent           string  // the entity to which the request cascades, "" for none
	Amounts          []int64 // tokens, at least 0, in the order of [Options.Costs]
}

// copyFrom makes e a copy of other that shares no memory with it, except the strings.
func (e *Event) copyFrom(other *Event) {
	amounts := append(e.Amounts[:0], other.Amounts...)
	*e = *other
	e.Amounts = amounts
}

// A Source is a stream of events. Next overwrites e with the next event and may use the
// memory of its Amounts. It returns [io.EOF] after the last event.
type Source interface {
	Next(e *Event) error
}

// Merge returns the events of several ordered sources in the order of their instants.
// Events of one instant come in the order of the sources.
func Merge(sources ...Source) Source {
	if len(sources) == 1 {
		return sources[0]
	}
	m := &merged{heads: make([]head, len(sources))}
	for i, s := range sources {
		m.heads[i] = head{source: s}
	}
	return m
}

// A head is a source and its next event.
type head struct {
	source Source
	event  Event
	ready  bool // event is the next event
}

type merged struct{ heads []head }

func (m *merged) Next(e *Event) error {
	var first *head
	for i := 0; i < len(m.heads); i++ {
		h := &m.heads[i]
		if !h.ready {
			err := h.source.Next(&h.event)
			if err == io.EOF { //nolint:errorlint // sources return io.EOF itself, as readers do
				m.heads = append(m.heads[:i], m.heads[i+1:]...)
				i--
				continue
			}
			if err != nil {
				return err
			}
			h.ready = true
		}
		if first == nil || h.event.At < first.event.At {
			first = h
		}
	}
	if first == nil {
		return io.EOF
	}
	first.ready = false
	e.copyFrom(&first.event)
	return nil
}
