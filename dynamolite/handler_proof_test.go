package dynamolite_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A connection that has not proven a key gets little memory. A body that does not fit is read for
// its signature alone. If that is true, the client must send the request again, and then any body
// fits. A body that fits is served at once.
func TestConnectionsProveTheirKey(t *testing.T) {
	t.Parallel()
	const most = 64 << 10 // a 32nd of what may be in flight
	h := dynamolite.NewHandler(newFixture(t).db, dynamolite.HandlerOptions{
		Credentials: map[string]string{testKey: testSecret}, MaxBodyBytes: 1 << 20, MaxInFlightBytes: 32 * most,
	})
	url := listen(t, h)
	item := func(size int) string {
		return `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"x":{"S":"` + strings.Repeat("x", size) + `"}}}`
	}
	const busy = dynamoDBPrefix + "ThrottlingException"
	type step struct {
		size   int
		forged bool
		kind   string // "" if it is served
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"small first", []step{{size: 10}, {size: 300 << 10}, {size: 300 << 10}}},
		{"what fits", []step{{size: 30 << 10}, {size: 300 << 10}}},
		{"large first", []step{{size: 300 << 10, kind: busy}, {size: 300 << 10}, {size: 300 << 10}}},
		{"forged", []step{
			{size: 300 << 10, forged: true, kind: coralService + "InvalidSignatureException"},
			{size: 10, forged: true, kind: coralService + "InvalidSignatureException"},
			{size: 300 << 10, kind: busy},
		}},
		{"too large", []step{{size: 1 << 20, kind: coralService + "RequestEntityTooLargeException"}}},
		{"too large, without a length", []step{{size: 1<<20 + 1, kind: coralService + "RequestEntityTooLargeException"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			transport := &http.Transport{MaxConnsPerHost: 1}
			defer transport.CloseIdleConnections()
			for i, s := range tt.steps {
				body := []byte(item(s.size))
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Amz-Target", putTarget)
				r.Header.Set("Content-Type", "application/x-amz-json-1.0")
				if strings.Contains(tt.name, "without a length") {
					r.ContentLength = -1
				}
				signed := body
				if s.forged {
					signed = nil
				}
				signRequest(t, r, signed)
				answer, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				var got struct {
					Type string `json:"__type"`
				}
				if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
				if got.Type != s.kind {
					t.Errorf("step %d was answered %q, want %q", i, got.Type, s.kind)
				}
			}
		})
	}
}
