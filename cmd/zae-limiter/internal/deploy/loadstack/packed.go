package loadstack

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
)

// pack makes a parameter of a text: gzip in base64. The empty text is the empty parameter.
func pack(text []byte) (string, error) {
	if len(text) == 0 {
		return "", nil
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return "", fmt.Errorf("pack a parameter: %w", err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// maxUnpacked is the longest text that a parameter is unpacked to, that of a scenario.
const maxUnpacked = maxFileBytes

// Unpack returns the text of a parameter that has a file.
func Unpack(value string) ([]byte, error) {
	const advice = "give a text, gzip in base64"
	packed, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", advice, err)
	}
	if len(packed) == 0 {
		return nil, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", advice, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", advice, err)
	case len(text) > maxUnpacked:
		return nil, fmt.Errorf("%s of at most %d bytes", advice, maxUnpacked)
	}
	return text, nil
}
