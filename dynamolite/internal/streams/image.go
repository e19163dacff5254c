package streams

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
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

// streamHeader is a stream without its records, as it is on disk. Members may be added; the meaning
// of a member must never change. It has the key of the table, which may be deleted while its stream
// is still readable.
type streamHeader struct {
	Table   string               `json:"table"`
	Label   string               `json:"label"`
	Created time.Time            `json:"created"`
	View    types.StreamViewType `json:"view"`
	Key     storage.KeyState     `json:"key"`
	State   stream.State         `json:"state"`
}

// StreamImage is a stream at one place in the order of writes. It lacks the records that are
// trimmed while it is written. Readers learn of this as they do from the stream itself. The naive
// design copies all records while writes are stopped, up to 256 MiB for each table. The state has
// only positions, and the records up to it are read later: they never change, and new ones come
// after them.
type StreamImage struct {
	stream *Stream
	state  stream.State
}

// Images returns the images of all streams. No write is in progress. The caller holds the shards of
// all tables, so all images have the position of the checkpoint. None is pending then, because
// creating and altering a table hold locks that the caller has.
func (g *Registry) Images() []StreamImage {
	var all []StreamImage
	for _, s := range g.all() {
		all = append(all, StreamImage{s, s.log.State()})
	}
	return all
}

// Write puts the image, entry by entry. Kind is the first byte of each. The head comes first and
// has the shards. Records follow by shard, about 64 KiB to an entry.
func (im *StreamImage) Write(kind byte, put func([]byte) error) error {
	s := im.stream
	head, err := json.Marshal(&streamHeader{
		Table: s.Table, Label: s.Label, Created: s.Created, View: s.View, Key: storage.StateOfKey(&s.key), State: im.state,
	})
	if err != nil {
		return fmt.Errorf("describe stream %s for a checkpoint: %w", s.ARN, err)
	}
	if err := put(append([]byte{kind, streamHead}, head...)); err != nil {
		return err
	}
	return s.log.Export(im.state, func(p stream.Page[streamChange]) error {
		entry := binary.AppendUvarint([]byte{kind, streamRecords}, uint64(p.Shard)) //nolint:gosec // an index
		entry = binary.AppendUvarint(entry, p.Trimmed)
		header := len(entry)
		for i := range p.Records {
			if len(entry) >= journal.PartBytes {
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
//
// The images are whole items. The key of an item is in them, so only the key in the tree is added.
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
		image *storage.Record
	}{{streamOld, c.old}, {streamNew, c.new}, {streamKeys, c.keys}}
	for _, im := range images {
		if im.image != nil {
			flags |= im.flag
		}
	}
	dst = binary.AppendUvarint(append(dst, flags), r.Position)
	dst = binary.AppendVarint(dst, r.At.UnixMilli())
	dst = journal.AppendText(dst, c.keyed().Key)
	for _, im := range images {
		if im.image != nil {
			dst = binary.AppendUvarint(dst, uint64(im.image.Size)) //nolint:gosec // bytes
			dst = journal.AppendText(dst, im.image.Data)
		}
	}
	return dst
}

// readRecord reads the output of appendStreamRecord. Each image gets its own memory: records expire
// one by one, and must not keep an entry of 64 KiB.
func readRecord(r *journal.Reader) stream.Record[streamChange] {
	flags := r.Next(1)[0]
	out := stream.Record[streamChange]{Position: r.Unsigned(), At: time.UnixMilli(r.Signed())}
	key := r.Text()
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
		image **storage.Record
	}{{streamOld, &c.old}, {streamNew, &c.new}, {streamKeys, &c.keys}} {
		if flags&im.flag != 0 {
			image := storage.Record{Key: key, Size: r.Number(), Data: r.Text()}
			*im.image = image.Own()
		}
	}
	if c.keyed() == nil {
		r.Bad = true
		return out
	}
	out.Size = c.bytes()
	return out
}

// RestorePart reads an entry of [Image.Write], without its kind. The head of a stream comes before its
// records; last is what the entry before returned.
//
// The table's entry came before, and has registered an empty stream if the table's is enabled. The
// head gives it its log. A head without such a stream is of a former one.
func (g *Registry) RestorePart(entry string, last *Stream) (*Stream, error) {
	r := journal.Reader{Rest: entry}
	switch r.Next(1)[0] {
	case streamHead:
		var h streamHeader
		if err := json.Unmarshal([]byte(r.Rest), &h); err != nil {
			return nil, fmt.Errorf("%w: %w", journal.ErrEntry, err)
		}
		log, err := stream.Restore[streamChange](h.State, g.Options)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", journal.ErrEntry, err)
		}
		s := g.Restore(&Stream{Table: h.Table, Created: h.Created, View: h.View, key: h.Key.Schema(), log: log}, h.Label)
		// Of an enabled stream, s is the table's, which was registered without records.
		s.log = log
		return s, nil
	case streamRecords:
		p := stream.Page[streamChange]{Shard: r.Number(), Trimmed: r.Unsigned()}
		for !r.Bad && r.Rest != "" {
			p.Records = append(p.Records, readRecord(&r))
		}
		if r.Bad || last == nil {
			return nil, journal.ErrEntry
		}
		if err := last.log.RestorePage(p); err != nil {
			return nil, fmt.Errorf("%w: %w", journal.ErrEntry, err)
		}
		return last, nil
	}
	return nil, journal.ErrEntry
}

// Restore registers a stream under its earlier label, or returns the stream already registered
// under it. A stream has one object, whichever entry names it first. The table and the registry
// must not have two.
func (g *Registry) Restore(s *Stream, label string) *Stream {
	s.Name(label)
	g.mu.Lock()
	defer g.mu.Unlock()
	if known, ok := g.streams[s.ARN]; ok {
		return known
	}
	g.streams[s.ARN] = s
	return s
}
