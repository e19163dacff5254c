package dynamolite

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
)

// The parts of a stream in a checkpoint, by the byte after the kind of the entry. They are on
// disk: their meanings must never change.
const (
	streamHead    byte = iota + 1 // all but the records, as JSON
	streamRecords                 // of the stream whose head came last
)

// Flags of a record in a checkpoint.
const (
	streamInsert byte = 1 << iota // neither this nor streamRemove: an item was modified
	streamRemove
	streamExpired
	streamOld  // has the old image
	streamNew  // has the new image
	streamKeys // has an image for its key
)

// streamHeader is a stream without its records, as it is on disk. Members may be added; the
// meaning of a member must never change.
type streamHeader struct {
	Table   string               `json:"table"`
	Label   string               `json:"label"`
	Created time.Time            `json:"created"`
	View    types.StreamViewType `json:"view"`
	Key     keyState             `json:"key"`
	State   stream.State         `json:"state"`
}

// streamImage is a stream at one place in the order of writes. It lacks the records that are
// trimmed while it is written. Readers learn of this as they do from the stream itself.
type streamImage struct {
	stream *tableStream
	state  stream.State
}

// images returns the images of all streams. No write is in progress.
func (g *streamRegistry) images() []streamImage {
	var all []streamImage
	for _, s := range g.all() {
		all = append(all, streamImage{s, s.log.State()})
	}
	return all
}

// write puts the image, entry by entry.
func (im *streamImage) write(put func([]byte) error) error {
	s := im.stream
	head, err := json.Marshal(&streamHeader{
		Table: s.table, Label: s.label, Created: s.created, View: s.view, Key: stateOfKey(&s.key), State: im.state,
	})
	if err != nil {
		return fmt.Errorf("describe stream %s for a checkpoint: %w", s.arn, err)
	}
	if err := put(append([]byte{entryStream, streamHead}, head...)); err != nil {
		return err
	}
	return s.log.Export(im.state, func(p stream.Page[streamChange]) error {
		entry := binary.AppendUvarint([]byte{entryStream, streamRecords}, uint64(p.Shard)) //nolint:gosec // an index
		entry = binary.AppendUvarint(entry, p.Trimmed)
		header := len(entry)
		for i := range p.Records {
			if len(entry) >= checkpointPart {
				if err := put(entry); err != nil {
					return err
				}
				entry = entry[:header]
			}
			entry = appendStreamRecord(entry, &p.Records[i])
		}
		return put(entry)
	})
}

// appendStreamRecord appends a record: flags, position, time, key, and for each of its images the
// size and the encoded item.
func appendStreamRecord(dst []byte, r *stream.Record[streamChange]) []byte {
	c := &r.Value
	var flags byte
	switch c.event {
	case streamtypes.OperationTypeInsert:
		flags = streamInsert
	case streamtypes.OperationTypeRemove:
		flags = streamRemove
	case streamtypes.OperationTypeModify:
	}
	if c.expired {
		flags |= streamExpired
	}
	images := [...]struct {
		flag  byte
		image *record
	}{{streamOld, c.old}, {streamNew, c.new}, {streamKeys, c.keys}}
	for _, im := range images {
		if im.image != nil {
			flags |= im.flag
		}
	}
	dst = binary.AppendUvarint(append(dst, flags), r.Position)
	dst = binary.AppendVarint(dst, r.At.UnixMilli())
	dst = appendText(dst, c.keyed().key)
	for _, im := range images {
		if im.image != nil {
			dst = binary.AppendUvarint(dst, uint64(im.image.size)) //nolint:gosec // bytes
			dst = appendText(dst, im.image.data)
		}
	}
	return dst
}

// streamRecord reads the output of appendStreamRecord.
func (r *reader) streamRecord() stream.Record[streamChange] {
	flags := r.next(1)[0]
	out := stream.Record[streamChange]{Position: r.unsigned(), At: time.UnixMilli(r.signed())}
	key := r.text()
	c := &out.Value
	c.event, c.expired = streamtypes.OperationTypeModify, flags&streamExpired != 0
	switch {
	case flags&streamInsert != 0:
		c.event = streamtypes.OperationTypeInsert
	case flags&streamRemove != 0:
		c.event = streamtypes.OperationTypeRemove
	}
	for _, im := range []struct {
		flag  byte
		image **record
	}{{streamOld, &c.old}, {streamNew, &c.new}, {streamKeys, &c.keys}} {
		if flags&im.flag != 0 {
			image := record{key: key, size: r.number(), data: r.text()}
			*im.image = image.own()
		}
	}
	if c.keyed() == nil {
		r.bad = true
		return out
	}
	out.Size = c.bytes()
	return out
}

// streamPart reads a part of a stream. The tables have been read before.
func (l *loader) streamPart(entry string) error {
	r := reader{rest: entry[1:]}
	switch r.next(1)[0] {
	case streamHead:
		var h streamHeader
		if err := json.Unmarshal([]byte(r.rest), &h); err != nil {
			return fmt.Errorf("%w: %w", errEntry, err)
		}
		log, err := stream.Restore[streamChange](h.State, l.db.streams.options)
		if err != nil {
			return fmt.Errorf("%w: %w", errEntry, err)
		}
		l.stream = l.db.streams.restore(&tableStream{table: h.Table, created: h.Created, view: h.View, key: h.Key.schema(), log: log}, h.Label)
		l.stream.log = log
		return nil
	case streamRecords:
		p := stream.Page[streamChange]{Shard: r.number(), Trimmed: r.unsigned()}
		for !r.bad && r.rest != "" {
			p.Records = append(p.Records, r.streamRecord())
		}
		if r.bad || l.stream == nil {
			return errEntry
		}
		if err := l.stream.log.RestorePage(p); err != nil {
			return fmt.Errorf("%w: %w", errEntry, err)
		}
		return nil
	}
	return errEntry
}

// restore registers a stream under its earlier label, or returns the stream already registered
// under it.
func (g *streamRegistry) restore(s *tableStream, label string) *tableStream {
	s.name(label)
	g.mu.Lock()
	defer g.mu.Unlock()
	if known, ok := g.streams[s.arn]; ok {
		return known
	}
	g.streams[s.arn] = s
	return s
}

// restoredStream returns the stream that a description in the log gives a table: its earlier
// stream, another one, or none. It disables an earlier stream that the table no longer has.
func (db *DB) restoredStream(t *table, before *schema, state *tableState, at position) *tableStream {
	var had, has *tableStream
	if before != nil {
		had = before.stream
	}
	if s := state.Stream; s != nil {
		if had != nil && had.label == s.Label {
			return had
		}
		has = db.streams.restore(newTableStream(t, s.View, s.Created, db.streams.options), s.Label)
	}
	if had != nil {
		had.disable(sequence(at, 0), state.Altered)
	}
	return has
}
