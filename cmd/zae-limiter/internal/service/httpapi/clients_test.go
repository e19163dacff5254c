//go:build conformance

package httpapi_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// client is a client of the page.
var client = regexp.MustCompile("(?s)```(python|ts|java)\n(.*?)```")

// The clients of the page take tokens, wait as long as the service says, and give up where no wait
// helps. Each takes the same limit, which holds one token and gets another one each second.
func TestClients(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../../docs/service.md")
	if err != nil {
		t.Fatal(err)
	}
	found := client.FindAllStringSubmatch(string(text), -1)
	if len(found) != 3 {
		t.Fatalf("the page has %d clients", len(found))
	}
	limits := limitertest.New(t, limiter.PerSecond("rpm", 1))
	server := httptest.NewServer(handlerOf(limits, decide.Policy{}))
	defer server.Close()
	runs := map[string][2]string{"python": {"python3", "client.py"}, "ts": {"node", ""}, "java": {"java", "Client.java"}}
	for _, m := range found {
		run := func(program string) (string, error) {
			by, file := runs[m[1]][0], filepath.Join(t.TempDir(), runs[m[1]][1])
			if m[1] == "ts" {
				file = peers.CompileTypeScript(t, program)
			} else if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			c := exec.CommandContext(t.Context(), by, file)
			c.Env = append(os.Environ(), "LIMITS="+server.URL)
			out, err := c.CombinedOutput()
			return strings.TrimSpace(string(out)), err
		}
		for range 2 { // the second one waits
			if out, err := run(m[2]); err != nil || out != "0" {
				t.Errorf("%s: %v: %s", m[1], err, out)
			}
		}
		greedy := strings.NewReplacer("rpm=1", "rpm=2", "rpm: 1", "rpm: 2", `rpm\":1`, `rpm\":2`).Replace(m[2])
		if out, err := run(greedy); err == nil || !strings.Contains(out, "rate limit exceeded: rpm of key-1/gpt-4") {
			t.Errorf("%s: %v: %s", m[1], err, out)
		}
	}
}
