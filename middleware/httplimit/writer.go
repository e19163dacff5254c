package httplimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
)

// A writer notes what a handler answers.
type writer struct {
	http.ResponseWriter
	admission admission.Admission
	status    int // 0 until the response begins
	bytes     int64
	hijacked  bool
	holds     bool  // slots
	ends      bool  // the work, if they are lost
	conn      *conn // that the handler took over while it holds slots; nil if there is none
	fields    fields
	mark      mark
}

var _ io.ReaderFrom = (*writer)(nil)

// Unwrap returns the server's writer, for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// prepare drops what the handler has added to the fields of the middleware, before they are
// sent. A middleware inside has done so already, and its own lines stay.
func (w *writer) prepare() {
	if !w.hasBegun() && !w.admission.IsNested() {
		w.mark.cut(w.Header())
	}
}

// begin notes that the response begins.
func (w *writer) begin(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// hasBegun reports whether the client may have got a part of the response.
func (w *writer) hasBegun() bool { return w.status != 0 || w.hijacked }

// WriteHeader notes the status, unless it is informational. A server panics on a status that
// is no number of three digits: then nothing has begun.
func (w *writer) WriteHeader(status int) {
	w.prepare()
	w.ResponseWriter.WriteHeader(status)
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
}

// Write counts the bytes.
func (w *writer) Write(p []byte) (n int, err error) {
	w.prepare()
	w.begin(http.StatusOK)
	n, err = w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom counts the bytes, and keeps the server's way of sending files. If the source has
// none, the response has not begun, and the handler may still answer an error. If the source
// panics, the client may have got a part.
func (w *writer) ReadFrom(src io.Reader) (n int64, err error) {
	w.prepare()
	isDone := false
	defer func() {
		if n > 0 || !isDone {
			w.begin(http.StatusOK)
		}
	}()
	n, err = io.Copy(w.ResponseWriter, src)
	w.bytes += n
	isDone = true
	return n, err
}

// flush and hijack find what a server's writer offers, also below the writers of other
// middleware, as [http.ResponseController] does.
func (w *writer) flush() error {
	w.prepare()
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.begin(http.StatusOK)
	}
	return err
}

func (w *writer) hijack() (net.Conn, *bufio.ReadWriter, error) {
	of, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return of, buffered, err
	}
	w.hijacked = true
	if w.holds {
		w.conn = newConn(of, &w.admission, w.ends)
		of = w.conn
	}
	return of, buffered, nil
}

// The types below have the methods that handlers look for and that the server's writer has.
// A [writer] with methods that it cannot carry out would mislead them.
type (
	flusher         struct{ *writer }
	hijacker        struct{ *writer }
	flusherHijacker struct{ *writer }
)

func (w flusher) Flush()                    { _ = w.flush() } // a Flusher reports no error
func (w flusher) FlushError() error         { return w.flush() }
func (w flusherHijacker) Flush()            { _ = w.flush() } // as above
func (w flusherHijacker) FlushError() error { return w.flush() }

func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error)        { return w.hijack() }
func (w flusherHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }

// seen is the writer as a handler sees it: with the methods of the server's writer, so that
// [http.ResponseController] does not look below this one and leave it out.
func (w *writer) seen() http.ResponseWriter {
	flushes, hijacks := offers(w.ResponseWriter)
	switch {
	case flushes && hijacks:
		return flusherHijacker{w}
	case flushes:
		return flusher{w}
	case hijacks:
		return hijacker{w}
	}
	return w
}

// offers reports what a writer can do, or one that it wraps.
func offers(w http.ResponseWriter) (flushes, hijacks bool) {
	for {
		switch w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			flushes = true
		}
		_, ok := w.(http.Hijacker)
		hijacks = hijacks || ok
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return flushes, hijacks
		}
		w = wrapper.Unwrap()
	}
}
