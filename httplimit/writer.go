package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// A writer notes what a handler answers.
type writer struct {
	http.ResponseWriter
	status   int // 0 until the response begins
	bytes    int64
	hijacked bool
	fields   fields
}

var _ io.ReaderFrom = (*writer)(nil)

// Unwrap returns the server's writer, for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin notes that the response begins.
func (w *writer) begin(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// hasBegun reports whether the client may have got a part of the response.
func (w *writer) hasBegun() bool { return w.status != 0 || w.hijacked }

// WriteHeader notes the status, unless it is informational.
func (w *writer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (w *writer) Write(p []byte) (n int, err error) {
	w.begin(http.StatusOK)
	n, err = w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom counts the bytes, and keeps the server's way of sending files.
func (w *writer) ReadFrom(src io.Reader) (n int64, err error) {
	w.begin(http.StatusOK)
	n, err = io.Copy(w.ResponseWriter, src)
	w.bytes += n
	return n, err
}

// flush and hijack are what a flusher and a hijacker do.
func (w *writer) flush(f http.Flusher) {
	w.begin(http.StatusOK)
	f.Flush()
}

func (w *writer) hijack(h http.Hijacker) (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := h.Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, buffered, err
}

// The types below have the methods that handlers look for and that the server's writer has.
// A [writer] with methods that it cannot carry out would mislead them.
type (
	flusher         struct{ *writer }
	hijacker        struct{ *writer }
	flusherHijacker struct{ *writer }
)

func (w flusher) Flush()         { w.flush(w.ResponseWriter.(http.Flusher)) } //nolint:errcheck,forcetypeassert // see seen
func (w flusherHijacker) Flush() { w.flush(w.ResponseWriter.(http.Flusher)) } //nolint:errcheck,forcetypeassert // see seen

func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.hijack(w.ResponseWriter.(http.Hijacker)) //nolint:errcheck,forcetypeassert // see seen
}

func (w flusherHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.hijack(w.ResponseWriter.(http.Hijacker)) //nolint:errcheck,forcetypeassert // see seen
}

// seen is the writer as a handler sees it: with the methods of the server's writer.
func (w *writer) seen() http.ResponseWriter {
	_, flushes := w.ResponseWriter.(http.Flusher)
	_, hijacks := w.ResponseWriter.(http.Hijacker)
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
