package fastclient_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A wire is a server in memory. It makes faults, and counts the requests that arrived.
type wire struct {
	requests atomic.Int64
	// dial fails or not, for the nth connection.
	dial func(n int64) error
	// answer answers the nth request over a connection. Then the connection is closed.
	answer func(n int64, out net.Conn)
	dials  atomic.Int64
	served sync.WaitGroup
}

func (w *wire) config() aws.Config {
	cfg := clientConfig("http://db.example")
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.Proxy = nil
		t.DialContext = func(context.Context, string, string) (net.Conn, error) {
			if w.dial != nil {
				if err := w.dial(w.dials.Add(1)); err != nil {
					return nil, &net.OpError{Op: "dial", Err: err}
				}
			}
			client, server := net.Pipe()
			w.served.Go(func() { w.serve(server) })
			return client, nil
		}
	})
	return cfg
}

func (w *wire) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.answer(w.requests.Add(1), c)
}

// hang waits until the client closes the connection.
func hang(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// answerDate is the date of a response.
const answerDate = "Thu, 26 Nov 2026 10:00:00 GMT"

func response(status int, header, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nDate: "+answerDate+"\r\nX-Amz-Crc32: %d\r\n%sContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), crc32.ChecksumIEEE([]byte(body)), header, len(body), body)
}

const (
	image   = `{"PK":{"S":"a"},"b_rpm_tk":{"N":"7"}}`
	refused = `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed","Item":` + image + `}`
)

// write makes a bucket write within five seconds, as the store makes it. It returns the
// item that the write met.
func write(t *testing.T, api dynamo.API, asUpdate bool) (schema.Item, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	u := &update{in: bucketWrite()}
	var out *dynamodb.UpdateItemOutput
	var err error
	if asUpdate {
		var answer direct.Answer
		answer, err = direct.UpdaterOf(api, table).Update(ctx, u, conn.BucketWrite)
		out = answer.Output
	} else {
		out, err = api.UpdateItem(ctx, u.in, conn.BucketWrite)
	}
	if out != nil {
		return out.Attributes, err
	}
	if it, ok := conn.ConditionFailed(err); ok {
		return it, err
	}
	return u.met, err
}

// checkOnce checks that a bucket write was sent once, and what the caller learns: the
// image of a complete answer, or that the outcome is not known. It does so for both forms
// of an update.
func checkOnce(t *testing.T, w *wire, complete bool) {
	t.Helper()
	for _, asUpdate := range []bool{false, true} {
		w.requests.Store(0)
		w.dials.Store(0)
		checkOneWrite(t, w, asUpdate, complete)
	}
}

func checkOneWrite(t *testing.T, w *wire, asUpdate, complete bool) {
	t.Helper()
	it, err := write(t, newFast(w.config()), asUpdate)
	if n := w.requests.Load(); n != 1 {
		t.Errorf("the write was sent %d times", n)
	}
	if failed := (*types.ConditionalCheckFailedException)(nil); !errors.As(err, &failed) && err != nil && !errors.Is(new(conn.Conn).Translate("write", err), store.ErrUnavailable) {
		t.Errorf("the outcome is unknown, but the error says: %v", err)
	}
	if got := schema.KeyOf(it).PK == "a"; got != complete {
		t.Errorf("an image: %t, want %t; %v", got, complete, err)
	}
	w.served.Wait()
}

// A connection that ends or falls silent at any byte of an answer leaves the outcome of a
// bucket write open, and the write is not sent again.
func TestAnswersAreCut(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a result": response(http.StatusOK, "", `{"Attributes":`+image+`}`), "a refusal": response(http.StatusBadRequest, "", refused),
		"chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{\"Attributes\":{\"\r\n1d\r\nPK\":{\"S\":\"a\"},\"b\":{\"N\":\"7\"}}}\r\n0\r\n\r\n",
	} {
		for end, after := range map[string]func(net.Conn){"ends": func(net.Conn) {}, "falls silent": hang} {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				for cut := range len(answer) + 1 {
					synctest.Test(t, func(t *testing.T) {
						checkOnce(t, &wire{answer: func(_ int64, out net.Conn) {
							_, _ = io.WriteString(out, answer[:cut])
							after(out)
						}}, cut == len(answer))
					})
				}
			})
		}
	}
}

// An answer may come in any form and as slowly as the caller has time.
func TestAnswersInOtherForms(t *testing.T) {
	t.Parallel()
	result := `{"Attributes":` + image + `}`
	whole := response(http.StatusOK, "", result)
	for name, c := range map[string]struct {
		answer   string
		pause    time.Duration // before each byte
		complete bool
	}{
		"slow":                      {whole, 10 * time.Millisecond, true},
		"too slow":                  {whole, 100 * time.Millisecond, false},
		"after interim answers":     {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + whole, 0, true},
		"only interim":              {"HTTP/1.1 100 Continue\r\n\r\n", 0, false},
		"its last":                  {response(http.StatusOK, "Connection: close\r\n", result), 0, true},
		"of HTTP/1.0":               {strings.Replace(whole, "HTTP/1.1", "HTTP/1.0", 1), 0, true},
		"with spaces":               {response(http.StatusOK, "", `{ "Attributes" : `+image+` }`), 0, true},
		"with more after it":        {whole + whole, 0, true},
		"without a checksum":        {strings.Replace(whole, "X-Amz-Crc32", "X-Other", 1), 0, true},
		"with a wrong checksum":     {strings.Replace(whole, `"7"`, `"8"`, 1), 0, false},
		"longer than it says":       {strings.Replace(whole, "Content-Length: 5", "Content-Length: 4", 1), 0, false},
		"shorter than it says":      {strings.Replace(whole, "Content-Length: 5", "Content-Length: 6", 1), 0, false},
		"with two lengths":          {strings.Replace(whole, "Content-Length: ", "Content-Length: 1\r\nContent-Length: ", 1), 0, false},
		"no HTTP":                   {"\x15\x03\x01\x00\x02\x02\x46", 0, false},
		"not JSON":                  {response(http.StatusOK, "", "<html>"), 0, false},
		"a refusal that is no JSON": {response(http.StatusBadRequest, "", "<html>"), 0, false},
		"a server error":            {response(http.StatusInternalServerError, "", "{}"), 0, false},
		"a gateway's error":         {response(http.StatusBadGateway, "", "<html>"), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				checkOnce(t, &wire{answer: func(_ int64, out net.Conn) {
					for i := range len(c.answer) {
						time.Sleep(c.pause)
						if _, err := io.WriteString(out, c.answer[i:i+1]); err != nil {
							return
						}
					}
				}}, c.complete)
			})
		})
	}
}

// A bucket write that reached nobody is tried again, by the SDK, and then sent once.
func TestUnsentWritesAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{
			dial: func(n int64) error {
				if n <= 2 {
					return errors.New("nobody is there")
				}
				return nil
			},
			answer: func(_ int64, out net.Conn) {
				_, _ = io.WriteString(out, response(http.StatusOK, "", `{"Attributes":`+image+`}`))
			},
		}
		checkOnce(t, w, true)
		if n := w.dials.Load(); n != 3 {
			t.Errorf("%d connections were tried, want 3", n)
		}
	})
}

// The caller may leave at any moment. Then the outcome is open, and nothing is sent again.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	for ms := range 12 {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(_ int64, out net.Conn) {
				time.Sleep(5 * time.Millisecond)
				_, _ = io.WriteString(out, response(http.StatusOK, "", `{"Attributes":`+image+`}`))
			}}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(ms)*time.Millisecond, cancel)
			_, err := newFast(w.config()).UpdateItem(ctx, bucketWrite(), conn.BucketWrite)
			if n := w.requests.Load(); n > 1 || err != nil && !errors.Is(err, context.Canceled) || err == nil && ms < 5 {
				t.Errorf("after %d ms: sent %d times, %v", ms, n, err)
			}
			cancel()
			w.served.Wait()
		})
	}
}
