//go:build conformance

package peers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A Service is a running rate limit service of gRPC.
type Service struct {
	Addr string // host:port
	PIDs []int  // of all its processes
	// Config is the folder with the files of limits, which it reads again when they change.
	Config string
}

// StartRatelimit starts envoyproxy/ratelimit with a Redis server of its own, and the texts of files of limits.
// Redis keeps nothing on disk. Both end with the test.
func StartRatelimit(tb testing.TB, limits ...string) Service {
	tb.Helper()
	folder := tb.TempDir()
	config := filepath.Join(folder, "config")
	err := os.Mkdir(config, 0o700)
	for i, text := range limits {
		err = errors.Join(err, os.WriteFile(filepath.Join(config, "limits-"+strconv.Itoa(i)+".yaml"), []byte(text), 0o600))
	}
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	var redisAt string
	redis, err := launch(tb, "redis", func(port string) []string {
		return []string{program(tb, "redis-server"), "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"}
	}, func(ctx context.Context, endpoint string) error {
		redisAt = strings.TrimPrefix(endpoint, "http://")
		return dial(ctx, redisAt)
	})
	if err != nil {
		tb.Fatalf("peers: start Redis: %v", err)
	}
	s := Service{Config: config}
	ports := make([]string, 2) // of HTTP and of the debugger
	for i := range ports {
		port, err := freePort(tb.Context())
		if err != nil {
			tb.Fatalf("peers: %v", err)
		}
		ports[i] = strconv.Itoa(port)
	}
	service, err := launch(tb, "ratelimit", func(port string) []string {
		return []string{
			"env", "RUNTIME_ROOT=" + folder, "RUNTIME_SUBDIRECTORY=", "RUNTIME_WATCH_ROOT=false", "RUNTIME_IGNOREDOTFILES=true", "USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error",
			"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redisAt, "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + port,
			"HOST=127.0.0.1", "PORT=" + ports[0], "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + ports[1], require(tb, "ratelimit", "ratelimit"),
		}
	}, func(ctx context.Context, endpoint string) error {
		s.Addr = strings.TrimPrefix(endpoint, "http://")
		return dial(ctx, s.Addr)
	})
	if err != nil {
		tb.Fatalf("peers: start envoyproxy/ratelimit: %v", err)
	}
	tb.Cleanup(func() { service.tell(tb) })
	s.PIDs = []int{redis.pid, service.pid}
	return s
}
