//go:build conformance

package envoy_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// A reload is what the folder of limits has from now on, beside the files of the steps before that keep their names.
type reload struct {
	name  string
	files map[string]string // "" removes a file
	// theirs and ours are the limits of the domains d and e then: a number, or none. ours is "" where both agree.
	theirs, ours string
	isBad        bool // nothing is to change, so it is given time
	why          string
}

// free is a domain without a limit.
const free = "none"

// of is a file with a limit of a domain.
func of(domain string, requests int) string {
	return fmt.Sprintf("domain: %s\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: %d}}]", domain, requests)
}

// reloads begin with one file, in which the limit of d is 100. After each bad file comes a good one.
var reloads = []reload{
	{name: "good", files: map[string]string{"d.yaml": of("d", 101)}, theirs: "101 none"},
	{name: "no YAML", files: map[string]string{"d.yaml": "domain: [d"}, theirs: "101 none", isBad: true},
	{name: "good after no YAML", files: map[string]string{"d.yaml": of("d", 102)}, theirs: "102 none"},
	{name: "unknown key", files: map[string]string{"d.yaml": strings.Replace(of("d", 1), "rate_limit", "ratelimit", 1)}, theirs: "102 none", isBad: true},
	{name: "good after an unknown key", files: map[string]string{"d.yaml": of("d", 103)}, theirs: "103 none"},
	{name: "bad unit", files: map[string]string{"d.yaml": strings.Replace(of("d", 1), "day", "fortnight", 1)}, theirs: "103 none", isBad: true},
	{name: "good after a bad unit", files: map[string]string{"d.yaml": of("d", 104)}, theirs: "104 none"},
	{name: "nothing in it", files: map[string]string{"d.yaml": "\n"}, theirs: "104 none", isBad: true},
	{name: "good after nothing", files: map[string]string{"d.yaml": of("d", 105)}, theirs: "105 none"},
	{name: "another domain", files: map[string]string{"e.yaml": of("e", 106)}, theirs: "105 106"},
	{name: "a domain twice", files: map[string]string{"e.yaml": of("d", 108)}, theirs: "105 106", isBad: true},
	{name: "good after a domain twice", files: map[string]string{"e.yaml": of("e", 109)}, theirs: "105 109"},
	{name: "one of two is bad", files: map[string]string{"e.yaml": "domain: [e"}, theirs: "105 109", isBad: true},
	{name: "a good one beside it", files: map[string]string{"d.yaml": of("d", 110)}, theirs: "105 109", isBad: true},
	{name: "the bad one is gone", files: map[string]string{"e.yaml": ""}, theirs: "110 none"},
	{
		name: "a file without .yaml", files: map[string]string{"e.txt": of("e", 111)}, theirs: "110 111", ours: "110 none",
		why: "files of other names do not count",
	},
	{
		name: "a bad one without .yaml", files: map[string]string{"e.txt": "domain: [e"}, theirs: "110 111", ours: "110 none", isBad: true,
		why: "files of other names do not count",
	},
	{
		name: "a good one beside that", files: map[string]string{"d.yaml": of("d", 112)}, theirs: "110 111", ours: "112 none", isBad: true,
		why: "files of other names do not count",
	},
	{name: "without it", files: map[string]string{"e.txt": ""}, theirs: "112 none"},
	{
		name: "no file", files: map[string]string{"d.yaml": ""}, theirs: free + " " + free, ours: "112 none",
		why: "an empty folder is an error: a mount may be missing",
	},
	{name: "the last one", files: map[string]string{"d.yaml": of("d", 114)}, theirs: "114 none"},
}

// write makes the files of a folder those of a step. Each is there as a whole, as in a mounted ConfigMap.
func (r *reload) write(t *testing.T, folder string) {
	t.Helper()
	for name, text := range r.files {
		at, whole := filepath.Join(folder, name), filepath.Join(t.TempDir(), name)
		if text == "" {
			if err := os.Remove(at); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(whole, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(whole, at); err != nil {
			t.Fatal(err)
		}
	}
}

// limitsOf are those of the domains d and e, as a service answers.
func limitsOf(ctx context.Context, ask func(context.Context, *rls.RateLimitRequest, ...grpc.CallOption) (*rls.RateLimitResponse, error)) string {
	var all []string
	for _, domain := range []string{"d", "e"} {
		in := &rls.RateLimitRequest{Domain: domain}
		in.Descriptors = append(in.Descriptors, descriptor("a", "b"))
		got, err := ask(ctx, in)
		switch {
		case err != nil:
			all = append(all, "error")
		case got.GetStatuses()[0].GetCurrentLimit() == nil:
			all = append(all, free)
		default:
			all = append(all, strconv.FormatUint(uint64(got.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()), 10))
		}
	}
	return strings.Join(all, " ")
}

// Both services get the same good files, bad ones and good ones again while they run. After each, they have the same
// limits, but for what "Instead of envoyproxy/ratelimit" of docs/envoy.md says.
func TestReloadsOfTheReference(t *testing.T) {
	const patience = 20 * time.Second
	theirs := peers.StartRatelimit(t, of("d", 100))
	if err := os.Rename(filepath.Join(theirs.Config, "limits-0.yaml"), filepath.Join(theirs.Config, "d.yaml")); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:"+theirs.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := rls.NewRateLimitServiceClient(conn).ShouldRateLimit
	for i := range reloads {
		r := &reloads[i]
		r.write(t, theirs.Config)
		if r.isBad {
			time.Sleep(2 * time.Second) // it says nothing of what it has refused
		}
		got := limitsOf(t.Context(), ask)
		for begun := time.Now(); got != r.theirs && time.Since(begun) < patience; got = limitsOf(t.Context(), ask) {
			time.Sleep(50 * time.Millisecond)
		}
		if got != r.theirs {
			t.Errorf("%s: envoyproxy/ratelimit has %s, not %s", r.name, got, r.theirs)
		}
	}
	folder := t.TempDir()
	first := reload{files: map[string]string{"d.yaml": of("d", 100)}}
	first.write(t, folder)
	synctest.Test(t, func(t *testing.T) {
		rules, err := hot.Open(hot.Source[*mapping.Rules]{Read: func() (hot.Files, error) { return hot.ReadYAML(folder) }, Parse: mapping.ParseReference}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { rules.Watch(ctx, slog.New(slog.DiscardHandler), "limits") })
		defer watching.Wait()
		defer stop()
		s := envoy.New(envoy.Options{Limiter: limitertest.New(t), Rules: rules.Get, Logger: slog.New(slog.DiscardHandler), Now: time.Now}, prometheus.NewRegistry())
		for i := range reloads {
			r := &reloads[i]
			r.write(t, folder)
			failures := rules.State().Failures
			time.Sleep(3 * hot.Every)
			want := r.theirs
			if r.ours != "" {
				want = r.ours
			}
			got := limitsOf(ctx, func(ctx context.Context, in *rls.RateLimitRequest, _ ...grpc.CallOption) (*rls.RateLimitResponse, error) {
				return s.ShouldRateLimit(ctx, in)
			})
			if got != want {
				t.Errorf("%s: this service has %s, not %s %s", r.name, got, want, r.why)
			}
			// A bad file is told in the state, in the log and in the metrics, until a good one comes.
			if is := rules.State(); (is.Error != "") != (is.Failures > failures) || r.isBad && r.ours == "" != (is.Error != "") {
				t.Errorf("%s: %+v", r.name, is)
			}
		}
	})
}

// The differences of reloads are on the page.
func TestThePageHasTheDifferencesOfReloads(t *testing.T) {
	text, err := os.ReadFile("../../../../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	whys := map[string]bool{}
	for i := range reloads {
		if r := &reloads[i]; (r.ours != "") != (r.why != "") {
			t.Errorf("%s: a difference needs a reason, and nothing else has one", r.name)
		} else if r.why != "" {
			whys[r.why] = true
		}
	}
	for why := range maps.Keys(whys) {
		if !strings.Contains(string(text), why) {
			t.Errorf("the page lacks: %s", why)
		}
	}
}
