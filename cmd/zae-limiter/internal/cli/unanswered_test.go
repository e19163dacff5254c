package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// Nothing serves at an address: one attempt, one error, the address, and the remedy, which is
// the engine only where the engine would serve. A name that does not resolve is the same. What
// gave the address is named.
//
// Not parallel: the SDK reads the environment of the process.
func TestAnUnreachableEndpointIsNamed(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "local")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "local")
	t.Setenv("AWS_REGION", "us-east-1")
	server := newServer(t)
	server.Close()
	gone := server.URL
	host := strings.TrimPrefix(gone, "http://")
	for _, tt := range []struct{ args, env, failed, next string }{
		{"entity get key-1 --endpoint-url " + gone, "", "open table", "zae-limiter local --addr " + host + ", if nothing serves there yet"},
		{"entity get key-1 --endpoint-url http://no-such-host.invalid:8000", "", "open table", "again with the right --endpoint-url, or once the network reaches it"},
		{"entity get key-1", gone, "open table", "again with the right $AWS_ENDPOINT_URL, or once the network reaches it"},
		{"list --endpoint-url " + gone, "", "list stacks", "again with the right --endpoint-url, or once the network reaches it"},
		{"delete --yes --endpoint-url " + gone, "", "find stack", "again with the right --endpoint-url, or once the network reaches it"},
		{"aggregate --archive s3://bucket/audit --archive-endpoint " + gone, "", "look for the bucket", "again with the right URL, or once the network reaches it"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Setenv("AWS_ENDPOINT_URL", tt.env)
			var stdout, stderr bytes.Buffer
			code := cli.Run(t.Context(), cli.Options{
				Args:  append(strings.Fields(tt.args), "--output", "json"),
				Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: os.Getenv,
			})
			var shown struct{ Error, Message, Hint string }
			if err := json.Unmarshal(stderr.Bytes(), &shown); err != nil || code != 1 || stdout.Len() > 0 || strings.Contains(shown.Message, "StatusCode") {
				t.Fatalf("exit code %d, output %q, errors %q", code, &stdout, &stderr)
			}
			if !regexp.MustCompile(tt.failed).MatchString(shown.Message) || shown.Hint != tt.next || tt.next != "" && shown.Error != "unavailable" {
				t.Errorf("got %+v, want the hint %q", shown, tt.next)
			}
		})
	}
}

// A server that speaks HTTP is not taken for one that speaks HTTPS.
//
// Not parallel: the SDK reads the environment of the process.
func TestAnHTTPSAddressOfAnHTTPServer(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "local")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "local")
	s := httptest.NewServer(nil)
	t.Cleanup(s.Close)
	code, _, stderr := run(t.Context(), strings.NewReader(""), "entity", "get", "key-1", "--region", "us-east-1", "--endpoint-url", "https"+strings.TrimPrefix(s.URL, "http"))
	if code != 1 || !strings.HasSuffix(stderr, "\nTry: again with http:// instead of https:// in --endpoint-url\n") {
		t.Errorf("exit code %d, errors %q", code, stderr)
	}
}
