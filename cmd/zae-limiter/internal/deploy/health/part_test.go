package health_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
)

// Null says that a part is absent, and so no list or map of a part that was read is null.
func TestPartsInJSON(t *testing.T) {
	t.Parallel()
	type lists struct {
		List []int
		Map  map[string]int
	}
	for want, part := range map[string]any{
		"null":                 health.Part[[]int]{},
		"[]":                   health.Read[[]int](nil),
		`{"List":[],"Map":{}}`: health.Read(lists{}),
		`{"problem":{"kind":"unavailable","call":"s3:Get","message":"full"}}`: health.Failed[lists]("s3:Get", errors.New("full")),
	} {
		if got, err := json.Marshal(part); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}
