//go:build conformance

package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
)

// Moto starts a new moto, an empty account, on a free loopback port. It waits until moto
// answers, and kills it when the test ends. It returns the URL.
func Moto(tb testing.TB) (endpoint string) {
	tb.Helper()
	server := require(tb, "python", "bin", "moto_server")
	var err error
	for range 3 { // another process may take the free port before moto does
		_, err = launch(tb, "moto", func(port string) []string {
			return []string{Python(tb), server, "-H", "127.0.0.1", "-p", port}
		}, func(ctx context.Context, at string) error {
			endpoint = at
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/moto-api/data.json", http.NoBody)
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			if answer.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %s", answer.Status)
			}
			return errors.Join(err, answer.Body.Close())
		})
		if err == nil {
			return endpoint
		}
	}
	tb.Fatalf("peers: start moto: %v", err)
	return ""
}
