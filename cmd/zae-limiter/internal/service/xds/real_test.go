package xds_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	managing "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/xds"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// A manager is the server of go-control-plane, which Envoy Gateway and the AI gateway use.
type manager struct {
	cache.SnapshotCache

	mu      sync.Mutex
	refused []string // what clients have said of versions that they refuse
}

func newManager() *manager {
	return &manager{SnapshotCache: cache.NewSnapshotCache(false, cache.IDHash{}, nil)}
}

func (m *manager) register(ctx context.Context) func(*grpc.Server) {
	return func(to *grpc.Server) {
		discovery.RegisterAggregatedDiscoveryServiceServer(to, managing.NewServer(ctx, m, managing.CallbackFuncs{
			StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
				if d := r.GetErrorDetail(); d != nil {
					m.mu.Lock()
					defer m.mu.Unlock()
					m.refused = append(m.refused, d.GetMessage())
				}
				return nil
			},
		}))
	}
}

// set makes resources the state of the world for a node, as the gateways do.
func (m *manager) set(node, version string, domains ...*ratelimit.RateLimitConfig) error {
	var all []types.Resource
	for _, d := range domains {
		all = append(all, d)
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: all})
	if err != nil {
		return err
	}
	return m.SetSnapshot(context.Background(), node, snapshot)
}

// clear leaves a node without resources and without a version, as Envoy Gateway does when its last
// policy is gone.
func (m *manager) clear(node string) error {
	snapshot, err := cache.NewSnapshot("9", nil)
	if err != nil {
		return err
	}
	return m.SetSnapshot(context.Background(), node, snapshot)
}

// The server of the gateways serves the client: changes, what is not valid and then is, nothing, and
// another process of the server after a break.
func TestTheServerOfTheGateways(t *testing.T) {
	inBubble(t, func(w *world) {
		m := newManager()
		end := w.serve(m.register(w.Context()))
		must := func(err error) {
			w.Helper()
			if err != nil {
				w.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		must(m.set("another", "1", domain("a", 1)))
		w.expect("of another node", "", "", 0)
		must(m.set("envoy-ratelimit", "1", domain("a", 1)))
		w.expect("the first", "1", "", 1, "a")
		must(m.set("envoy-ratelimit", "2", domain("a", 1), domain("b", 1)))
		w.expect("one more", "2", "", 2, "a", "b")
		bad := domain("b", 1)
		bad.Descriptors[0].Key = ""
		must(m.set("envoy-ratelimit", "3", domain("c", 1), bad))
		w.expect("not valid", "2", `resource "b", domain "b": descriptors[0]: key is missing`, 2, "a", "b")
		time.Sleep(10 * time.Minute) // the server sends it again as soon as it is refused
		if m.mu.Lock(); len(m.refused) < 20 || len(m.refused) > 46 || !strings.Contains(m.refused[0], `domain "b": descriptors[0]: key is missing`) {
			w.Errorf("refused %d times: %q", len(m.refused), m.refused[0])
		}
		m.mu.Unlock()
		if n := w.rules.State().Failures; n != 1 {
			w.Errorf("%d failures", n)
		}
		must(m.set("envoy-ratelimit", "4", domain("c", 1), domain("b", 1)))
		time.Sleep(30 * time.Second)
		w.expect("valid", "4", "", 3, "b", "c")
		must(m.clear("envoy-ratelimit"))
		w.expect("nothing", "", "", 4)
		must(m.set("envoy-ratelimit", "5", domain("a", 1)))
		w.expect("again", "5", "", 5, "a")
		end()
		w.expect("away", "5", "the management server", 5, "a")
		other := newManager()
		must(other.set("envoy-ratelimit", "1", domain("b", 1)))
		endOther := w.serve(other.register(w.Context()))
		defer endOther()
		time.Sleep(time.Minute)
		w.expect("another process", "1", "", 6, "b")
	})
}

func nameOf(version uint32) string { return strconv.FormatUint(uint64(version), 10) }

// callers is how many calls are under way at once.
const callers = 64

// Each call sees the rules of one version, whatever comes meanwhile, and no call fails.
func TestCallersWhileVersionsChange(t *testing.T) {
	const first, last = 1000, 1010 // odd versions are not valid
	inBubble(t, func(w *world) {
		m := newManager()
		end := w.serve(m.register(w.Context()))
		defer end()
		set := func(version uint32) {
			w.Helper()
			of, user := domain("a", version), domain("a", version).Descriptors[0]
			user.Key = "user"
			if version%2 == 1 {
				user.RateLimit.Unit = ratelimit.RateLimitUnit_UNKNOWN
			}
			of.Descriptors = append(of.Descriptors, user)
			if err := m.set("envoy-ratelimit", nameOf(version), of); err != nil {
				w.Error(err)
			}
		}
		set(first)
		<-w.rules.Ready()
		service := newService(w.T, w.rules)
		var all sync.WaitGroup
		var stop atomic.Bool
		var seen sync.Map
		for i := range callers {
			all.Go(func() {
				for !stop.Load() {
					out, err := call(w.Context(), service, "a", strconv.Itoa(i))
					if err != nil {
						w.Error(err)
						return
					}
					tenant, user := out.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit(), out.GetStatuses()[1].GetCurrentLimit().GetRequestsPerUnit()
					if tenant != user || tenant%2 == 1 {
						w.Errorf("limits of %d and %d", tenant, user)
					}
					seen.Store(tenant, true)
					time.Sleep(150 * time.Millisecond)
				}
			})
		}
		for version := uint32(first + 1); version <= last; version++ {
			set(version)
			time.Sleep(150 * time.Millisecond)
			for version%2 == 0 && w.rules.State().Version != nameOf(version) { // what was refused is refused again first
				time.Sleep(50 * time.Millisecond)
			}
		}
		time.Sleep(150 * time.Millisecond)
		stop.Store(true)
		all.Wait()
		for version := uint32(first); version <= last; version += 2 {
			if _, ok := seen.Load(version); !ok {
				w.Errorf("no call saw version %d", version)
			}
		}
	})
}

// newService answers Envoy by rules.
func newService(t *testing.T, rules *hot.Value[*mapping.Rules]) *envoy.Service {
	t.Helper()
	return envoy.New(envoy.Options{Limiter: limitertest.New(t), Rules: rules.Get, Logger: slog.New(slog.DiscardHandler), Now: time.Now}, prometheus.NewRegistry())
}

// call asks for a token of a tenant, and for one of a user.
func call(ctx context.Context, service *envoy.Service, domain, who string) (*rls.RateLimitResponse, error) {
	of := func(key string) *common.RateLimitDescriptor {
		return &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: who}}}
	}
	return service.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: domain, Descriptors: []*common.RateLimitDescriptor{of("tenant"), of("user")}})
}

// asServer makes this program a management server at an address, with the limit of a version.
const asServer = "MANAGEMENT_SERVER"

// TestMain runs the tests, or a management server for one of them.
func TestMain(m *testing.M) {
	if addr := os.Getenv(asServer); addr != "" {
		fmt.Fprintln(os.Stderr, manage(addr))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// manage serves a version that standard input names, until that ends.
func manage(addr string) error {
	in := bufio.NewReader(os.Stdin)
	var version uint32
	if _, err := fmt.Fscanln(in, &version); err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	m, s := newManager(), grpc.NewServer()
	m.register(context.Background())(s)
	if err := m.set("envoy-ratelimit", nameOf(version), domain("a", version)); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // the test has ended
		s.Stop()
	}()
	return s.Serve(l)
}

// startManager starts a management server in a process of its own.
func startManager(t *testing.T, addr string, version uint32) (at string, kill func()) {
	t.Helper()
	c := exec.Command(os.Args[0]) //nolint:noctx,gosec // the test kills it; it is this program
	c.Env = append(os.Environ(), asServer+"="+addr)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	t.Cleanup(kill)
	if _, err := fmt.Fprintln(in, version); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(out, &at); err != nil {
		t.Fatal(err)
	}
	return at, kill
}

// The management server is killed while calls go on. They are decided by what it had sent, and by what it
// sends once it is there again.
func TestTheManagementServerIsKilled(t *testing.T) {
	t.Parallel()
	at, kill := startManager(t, "127.0.0.1:0", 1000)
	rules := hot.Await[*mapping.Rules](time.Now)
	service := newService(t, rules)
	if _, err := call(t.Context(), service, "a", "early"); status.Code(err) != codes.Unavailable {
		t.Errorf("before the first version: %v", err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	client := xds.New(xds.Options{Server: at, Node: "envoy-ratelimit", Rules: rules, Logger: slog.New(slog.DiscardHandler)})
	all.Go(func() { client.Run(ctx) })
	<-rules.Ready()
	var decided, after atomic.Int64
	for i := range 8 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				out, err := call(ctx, service, "a", fmt.Sprintf("%d-%d", i, n))
				if ctx.Err() != nil {
					return
				}
				got := out.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()
				if err != nil || got != 1000 && got != 2000 {
					t.Errorf("%v %v", err, out)
					return
				}
				if decided.Add(1); got == 2000 {
					after.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for decided.Load() < 100 {
		time.Sleep(time.Millisecond)
	}
	kill()
	for rules.State().Error == "" {
		time.Sleep(time.Millisecond)
	}
	killed := decided.Load()
	for decided.Load() < killed+100 {
		time.Sleep(time.Millisecond)
	}
	if after.Load() != 0 {
		t.Error("the second version is there before its server")
	}
	startManager(t, at, 2000)
	for after.Load() < 100 {
		time.Sleep(time.Millisecond)
	}
	if s := rules.State(); s.Version != "2000" || s.Loads != 2 || s.Error != "" {
		t.Errorf("%+v", s)
	}
}
