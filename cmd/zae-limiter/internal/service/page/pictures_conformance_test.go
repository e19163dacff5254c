//go:build conformance

package page_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/store"
)

var picturesTo = flag.String("pictures", "", "write pictures of the pages to this `folder`: make screenshots")

// maxPictures is the size of all pictures of pages, in bytes: each clone of the repository has them.
const maxPictures = 100 << 10

// small is a picture with its most frequent colours only, which compress well.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	const colours = 16
	whole, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	found := map[color.Color]int{}
	for y := range whole.Bounds().Dy() {
		for x := range whole.Bounds().Dx() {
			found[whole.At(x, y)]++
		}
	}
	palette := slices.SortedFunc(maps.Keys(found), func(a, b color.Color) int { return found[b] - found[a] })
	to := image.NewPaletted(whole.Bounds(), palette[:min(colours, len(palette))])
	draw.Draw(to, to.Bounds(), whole, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// docs/page.md shows pages as Chromium does. make screenshots takes the pictures again.
func TestPicturesOfThePages(t *testing.T) {
	o := newOffice(t, "", limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 10_000))
	for _, e := range []store.Entity{{ID: "acme", Name: "ACME"}, {ID: "key-1", Name: "checkout", Parent: "acme", Cascade: true}, {ID: "key-2", Parent: "acme", Cascade: true}} {
		if _, err := o.limits.Store.CreateEntity(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for key, n := range map[string]int64{"key-1": 45, "key-2": 10} {
		if err := errors.Join(o.take(key, "rpm", n), o.take(key, "tpm", 100*n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.take("key-1", "rpm", 30); !errors.Is(err, limiter.ErrExceeded) {
		t.Fatal(err)
	}
	server := httptest.NewServer(o.pages)
	defer server.Close()
	in, err := json.Marshal(map[string]any{"url": server.URL, "pages": map[string]string{
		"page-near.png": "/ui/?resource=gpt-4", "page-entity.png": "/ui/entity?id=key-1&resource=gpt-4", "page-refusals.png": "/ui/refusals",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var taken map[string][]byte
	if err := json.Unmarshal(peers.RunBrowser(t, "testdata/pictures.mjs", in), &taken); err != nil {
		t.Fatal(err)
	}
	size := 0
	for name, picture := range taken {
		picture = small(t, picture)
		size += len(picture)
		at := filepath.Join("..", "..", "..", "..", "..", "docs", "pictures", name)
		if *picturesTo != "" {
			at = filepath.Join(*picturesTo, name)
			if err := os.WriteFile(at, picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(at); err != nil {
			t.Errorf("run make screenshots: %v", err)
		}
	}
	if len(taken) != 3 || size > maxPictures {
		t.Errorf("%d pictures with %d bytes, want 3 with at most %d", len(taken), size, maxPictures)
	}
}
