package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay/logs"
	"github.com/zeroae/zae-limiter-go/store"
)

// An input is the logs of the command line.
type input struct {
	readers []*logs.Reader
	files   []*os.File
	read    atomic.Int64 // bytes
	size    int64        // bytes of all files, -1 if not known
	proceed func() error // called before each read
}

// open opens the logs. The caller closes the input, also after an error. proceed is called
// before each read, and ends the reading with its error.
func (o *Logs) open(proceed func(*input) error) (*input, error) {
	in := &input{}
	in.proceed = func() error { return proceed(in) }
	for _, name := range o.Files {
		from := o.app.Stdin
		settings := o.logs
		if settings.Name = name; name == "-" {
			settings.Name, in.size = "standard input", -1
		} else {
			f, err := os.Open(name)
			if err != nil {
				return in, app.Unread("a log", err)
			}
			in.files = append(in.files, f)
			from = f
			in.add(f)
		}
		r, err := logs.NewReader(counting{from, in}, settings)
		if wrong, ok := errors.AsType[*store.ValidationError](err); ok && wrong.Field == "column" {
			return in, fmt.Errorf("%s has no column %q: %s", settings.Name, wrong.Value, wrong.Reason)
		}
		if err != nil {
			return in, err
		}
		in.readers = append(in.readers, r)
	}
	return in, nil
}

// add adds the size of a file, if it is known.
func (in *input) add(f *os.File) {
	info, err := f.Stat()
	switch {
	case in.size < 0:
	case err != nil || !info.Mode().IsRegular():
		in.size = -1
	default:
		in.size += info.Size()
	}
}

func (in *input) close() error {
	var failed error
	for _, f := range in.files {
		failed = errors.Join(failed, f.Close())
	}
	return failed
}

// counting counts the bytes that are read.
type counting struct {
	io.Reader

	of *input
}

func (c counting) Read(p []byte) (int, error) {
	if err := c.of.proceed(); err != nil {
		return 0, err
	}
	n, err := c.Reader.Read(p)
	c.of.read.Add(int64(n))
	return n, err
}

func (in *input) malformed() (sum logs.Malformed) {
	for _, r := range in.readers {
		sum.Add(r.Malformed())
	}
	return sum
}

// often is how many events pass between two looks at the context and the malformed lines.
const often = 1 << 14

// decide reads the logs and decides their events.
func (o *Logs) decide(ctx context.Context, r *replay.Replayer) (m logs.Malformed, err error) {
	bar := o.app.Bar("replaying")
	defer bar.Clear()
	in, err := o.open(func(in *input) error {
		// Lines that cannot be read make no events: this, and not their number, is what keeps
		// the bar and an interruption alive.
		bar.Show(in.read.Load(), in.size)
		return context.Cause(ctx)
	})
	defer func() { err = errors.Join(err, in.close()) }()
	if err != nil {
		return m, err
	}
	sources := make([]replay.Source, len(in.readers))
	for i, reader := range in.readers {
		sources[i] = replay.Order(reader, o.window, o.held)
	}
	source := replay.Merge(sources...)
	var e replay.Event
	for n := 1; ; n++ {
		if n%often == 0 {
			if ctx.Err() != nil {
				return m, context.Cause(ctx)
			}
			if err := o.checkMalformed(in.malformed()); err != nil {
				return m, err
			}
		}
		err := source.Next(&e)
		if errors.Is(err, io.EOF) {
			m = in.malformed()
			return m, errors.Join(o.checkMalformed(m), checkRead(m))
		}
		if err != nil {
			return m, err
		}
		if _, err := r.Add(&e); err != nil {
			return m, err
		}
	}
}

// checkMalformed fails if more lines are malformed than the command line allows.
func (o *Logs) checkMalformed(m logs.Malformed) error {
	if m.Count == 0 || !o.flags.Changed("malformed-at-most") || float64(m.Count) <= float64(o.malformedAtMost)*float64(m.Lines) {
		return nil
	}
	return fmt.Errorf("%s of %s lines are malformed, more than --malformed-at-most %s; the first is %s",
		limitarg.Grouped(m.Count), limitarg.Grouped(m.Lines), &o.malformedAtMost, where(m.Reasons[0].First))
}

// checkRead fails if no line could be read, or no event has a cost: the options are then
// wrong, not the lines.
func checkRead(m logs.Malformed) error {
	if m.Count > 0 && m.Count == m.Lines {
		return fmt.Errorf("none of %s lines could be read: name the format and the columns; the first is %s",
			limitarg.Grouped(m.Lines), where(m.Reasons[0].First))
	}
	for _, l := range m.Lacking {
		if l.Events == m.Lines-m.Count {
			return fmt.Errorf("none of %s events has a cost of %s in the column %s: name another column, or leave the cost out with --cost %s=0; the first is %s",
				limitarg.Grouped(l.Events), l.Limit, l.Column, l.Limit, where(l.First))
		}
	}
	return nil
}

// where says what is wrong with which line.
func where(p logs.Problem) string { return fmt.Sprintf("line %d of %s: %s", p.Line, p.File, p.Reason) }
