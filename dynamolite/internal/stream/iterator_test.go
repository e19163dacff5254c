package stream_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
)

func TestIteratorRoundTrip(t *testing.T) {
	t.Parallel()
	for _, it := range []stream.Iterator{
		{},
		{Stream: "arn:aws:dynamodb:x:0:table/t/stream/2026-01-02T03:04:05.678", Shard: "shardId-00000001700000000000-0badcafe", After: 1, Issued: epoch},
		{Stream: "s", Shard: "", After: ^uint64(0), Issued: time.UnixMilli(-1)},
		{Stream: "s|1|t", Shard: "\x00\xff", After: 127, Issued: epoch},
	} {
		it.Issued = time.UnixMilli(it.Issued.UnixMilli()) // a token has milliseconds
		got, err := stream.ParseIterator(it.String())
		if err != nil || got != it {
			t.Errorf("%+v came back as %+v, %v", it, got, err)
		}
	}
}

// A change of any one character never gives a different valid iterator.
func TestIteratorIsChecked(t *testing.T) {
	t.Parallel()
	token := stream.Iterator{Stream: "some/stream", Shard: "shardId-00000001700000000000-0badcafe", After: 12345, Issued: epoch}.String()
	for i := range token {
		for _, c := range "A0-|\x00é" {
			changed := token[:i] + string(c) + token[i+1:]
			if changed == token {
				continue
			}
			if it, err := stream.ParseIterator(changed); !errors.Is(err, stream.ErrBadIterator) {
				t.Errorf("%q is taken for %+v, %v", changed, it, err)
			}
		}
	}
	for i := range token {
		if _, err := stream.ParseIterator(token[:i]); !errors.Is(err, stream.ErrBadIterator) {
			t.Errorf("%q: %v", token[:i], err)
		}
	}
	if _, err := stream.ParseIterator(token + "="); !errors.Is(err, stream.ErrBadIterator) {
		t.Errorf("padded: %v", err)
	}
}

// Every token gives an error, or an iterator whose token it is.
func FuzzIterator(f *testing.F) {
	f.Add("")
	f.Add("|1|")
	f.Add("a|1|AAAAAAA")
	f.Add(strings.Repeat("|1|", 9))
	f.Add("s|1|" + strings.Repeat("_", 40)) // numbers without an end
	f.Add(stream.Iterator{Stream: "s", Shard: "shard", After: 300, Issued: epoch}.String())
	f.Fuzz(func(t *testing.T, token string) {
		it, err := stream.ParseIterator(token)
		switch {
		case err != nil && !errors.Is(err, stream.ErrBadIterator):
			t.Errorf("%q: %v", token, err)
		case err == nil && it.String() != token:
			t.Errorf("%q is read as that of %+v, which is %q", token, it, it)
		}
		s := stream.New[string]("seed", epoch, stream.Options{})
		if _, _, _, err := s.Read(it, 10, 0, it.Issued); err == nil {
			t.Errorf("%q reads from a shard that it cannot know", token)
		}
	})
}
