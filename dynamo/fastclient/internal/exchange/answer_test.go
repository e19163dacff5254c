package exchange_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient/internal/exchange"
)

const (
	date  = "Date: Thu, 26 Nov 2026 10:00:00 GMT\r\n"
	plain = "HTTP/1.1 200 OK\r\nServer: Server\r\n" + date + "Content-Length: 2\r\nConnection: keep-alive\r\nx-amz-crc32: 2745614147\r\n\r\n{}"
)

// answers are what a server sends until it closes the connection: which of them are read
// here and not by package http.
var answers = map[string]bool{
	plain: true,
	"HTTP/1.1 400 Bad Request\r\ncontent-length:2\r\n\r\n{}":                                  true,
	"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n":                                               true,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK":                           true,
	"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 9000) + "\r\nContent-Length: 1\r\n\r\n1":   true,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx-amz-crc32: 1\r\n\r\n{}":                        false,
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}":                                          false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}":                     false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}":                     false,
	"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}":                                         false,
	"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}":                                false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":     false,
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n":      false,
	"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}":                                          false,
	"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}":                     false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nAge: 100\r\n" + date + "\r\n{}":                  false,
	"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}":                                                false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\r\n b\r\n\r\n{}":                            false,
	"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}":                                         false,
	"HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 2\r\n\r\n{}":                              false,
	"HTTP/1.1 204 No Content\r\n\r\n":                                                         false,
	"HTTP/1.1 100 Continue\r\n\r\n" + plain:                                                   false,
	"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + plain:                                     false,
	"HTTP/1.1 101 Switching Protocols\r\n\r\n":                                                false,
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}":                                          false,
	"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n{}":                                          false,
	"HTTP/1.1 2OO OK\r\nContent-Length: 2\r\n\r\n{}":                                          false,
	"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\n{}":                                           false,
	"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}":                                         false,
	"\x15\x03\x01\x00\x02\x02\x46":                                                            false,
	"":                                                                                        false,
	"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70_000) + "\r\nContent-Length: 1\r\n\r\n1": false,
}

// check checks that an answer is read as package http reads it, however it arrives.
func check(t *testing.T, text string) (isPlain bool) {
	t.Helper()
	want, wantReusable, wantErr := exchange.ReadOddly(strings.NewReader(text))
	for name, in := range map[string]io.Reader{
		"at once": strings.NewReader(text), "a byte at a time": iotest.OneByteReader(strings.NewReader(text)),
		"with its end": iotest.DataErrReader(strings.NewReader(text)),
	} {
		got, reusable, err := exchange.ReadAnswer(in)
		if (err != nil) != (wantErr != nil) {
			t.Errorf("%q %s: ours says %v, package http %v", text, name, err, wantErr)
		}
		if err != nil {
			continue
		}
		// Bytes that follow the answer may not have arrived yet.
		if !bytes.Equal(got.Body, want.Body) || got.Status != want.Status || reusable != wantReusable && name == "at once" {
			t.Errorf("%q %s: we read %d %q, %t, package http %d %q, %t", text, name, got.Status, got.Body, reusable, want.Status, want.Body, wantReusable)
		}
		if !bytes.Equal(got.Date, want.Date) {
			t.Errorf("%q %s: the date is %q, want %q", text, name, got.Date, want.Date)
		}
		isPlain = !got.IsOdd()
		whole, err := got.HTTP()
		if err != nil {
			t.Errorf("%q %s: plain, but %v", text, name, err)
			continue
		}
		body, _ := io.ReadAll(whole.Body)
		if !bytes.Equal(body, want.Body) || whole.StatusCode != want.Status {
			t.Errorf("%q %s: for the SDK it is %d %q", text, name, whole.StatusCode, body)
		}
	}
	return isPlain
}

// Answers mean what they mean to package http. Those of DynamoDB's form are plain.
func TestAnswersAreThoseOfPackageHTTP(t *testing.T) {
	t.Parallel()
	for text, isPlain := range answers {
		if got := check(t, text); got != isPlain {
			t.Errorf("%q is plain: %t", text, got)
		}
		for cut := range min(len(text), 300) {
			check(t, text[:cut])
		}
	}
}

// Every answer means what it means to package http.
func FuzzAnswer(f *testing.F) {
	for text := range answers {
		if len(text) < 1000 {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) { check(t, text) })
}
