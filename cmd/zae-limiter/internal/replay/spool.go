package replay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// A Spool keeps the decided events in a temporary file, so that a search can decide them
// again under other limits. An event takes 4 to 10 bytes in most logs.
type Spool struct {
	file   *os.File
	w      *bufio.Writer
	record []byte
	last   int64 // the instant of the last event
	costs  int   // amounts of an event
}

// NewSpool makes an empty spool in a directory, "" for the system's temporary directory.
// Its file has no name, so that it ends with the process.
func NewSpool(dir string) (*Spool, error) {
	f, err := os.CreateTemp(dir, "zae-limiter-replay-*")
	if err != nil {
		return nil, fmt.Errorf("make a file for the events: %w", err)
	}
	// Where a file in use cannot be removed, Close removes it.
	_ = os.Remove(f.Name())
	const buffer = 1 << 18
	return &Spool{file: f, w: bufio.NewWriterSize(f, buffer)}, nil
}

// Close removes the file.
func (s *Spool) Close() error {
	err := s.file.Close()
	_ = os.Remove(s.file.Name())
	return err
}

// add records an event: the time since the event before it, the numbers of the buckets,
// and the amounts.
func (s *Spool) add(now int64, own, parent *account, amounts []int64) error {
	if s == nil {
		return nil
	}
	up := uint64(0)
	if parent != nil {
		up = uint64(parent.number) + 1
	}
	s.record = binary.AppendUvarint(s.record[:0], uint64(now-s.last))
	s.record = binary.AppendUvarint(s.record, uint64(own.number))
	s.record = binary.AppendUvarint(s.record, up)
	for _, tokens := range amounts {
		s.record = binary.AppendUvarint(s.record, uint64(tokens))
	}
	s.last, s.costs = now, len(amounts)
	if _, err := s.w.Write(s.record); err != nil {
		return fmt.Errorf("keep an event for the search: %w", err)
	}
	return nil
}

// A kept event is one of a spool. own and parent are the numbers of accounts; parent is -1
// if there is none.
type kept struct {
	at          int64
	own, parent int
	amounts     []int64
}

// each visits every event in order.
func (s *Spool) each(visit func(*kept) error) error {
	if err := s.w.Flush(); err != nil {
		return fmt.Errorf("keep the events for the search: %w", err)
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the kept events again: %w", err)
	}
	r := bufio.NewReaderSize(s.file, s.w.Size())
	e := kept{amounts: make([]int64, s.costs)}
	for {
		passed, err := binary.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = e.read(r)
		}
		if err != nil {
			return fmt.Errorf("read the kept events again: %w", err)
		}
		e.at += int64(passed)
		if err := visit(&e); err != nil {
			return err
		}
	}
}

// read reads what follows the time.
func (e *kept) read(r *bufio.Reader) error {
	own, err := binary.ReadUvarint(r)
	if err != nil {
		return err
	}
	parent, err := binary.ReadUvarint(r)
	if err != nil {
		return err
	}
	e.own, e.parent = int(own), int(parent)-1
	for i := range e.amounts {
		tokens, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		e.amounts[i] = int64(tokens)
	}
	return nil
}
