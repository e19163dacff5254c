package limitarg_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

func TestAlso(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]limitarg.Also{
		"embeddings:tpm=200":         {{Resource: "embeddings", Amounts: limitarg.Amounts{"tpm": 200}}},
		"a/b:c:rpm=1,tpm=0":          {{Resource: "a/b:c", Amounts: limitarg.Amounts{"rpm": 1, "tpm": 0}}},
		"embeddings:rpm=1 other:a=2": {{Resource: "embeddings", Amounts: limitarg.Amounts{"rpm": 1}}, {Resource: "other", Amounts: limitarg.Amounts{"a": 2}}},
	} {
		var got limitarg.Also
		for part := range strings.SplitSeq(text, " ") {
			if err := got.Set(part); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || got.String() != text {
			t.Errorf("%s: %s (-want +got):\n%s", text, got.String(), diff)
		}
	}
	for text, want := range map[string]string{
		"":                              "write resource:name=tokens",
		"embeddings":                    "write resource:name=tokens",
		"tpm=200":                       "write resource:name=tokens",
		"embeddings:tpm":                "write name=tokens",
		":tpm=200":                      "resource",
		"a#b:tpm=200":                   "resource",
		"embeddings:tpm=-1":             "whole number from 0",
		"embeddings:tpm=1,tpm=2":        "name each limit once",
		"embeddings:a=1 embeddings:b=2": "give all its amounts at once",
	} {
		var got limitarg.Also
		var err error
		for part := range strings.SplitSeq(text, " ") {
			err = got.Set(part)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
