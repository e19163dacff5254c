package acquire_test

import (
	"strings"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
)

// What an error says to do helps: each remedy is followed.
func TestRemediesHelp(t *testing.T) {
	inWorld(t, limiter.Options{ConfigTTL: -1}, func(w *world) {
		says := func(err error, remedy string) {
			w.Helper()
			if err == nil || !strings.Contains(err.Error(), remedy) {
				w.Errorf("%v, want the remedy %q", err, remedy)
			}
		}
		_, err := w.Acquire(w.Context(), ask("key", "tpm", 1))
		says(err, "configure some, or pass Fallback with the request")
		fallback := ask("new", "tpm", 1)
		fallback.Fallback = []limiter.Limit{limiter.PerMinute("tpm", 10)}
		_ = w.Lease(w.Limiter, fallback)
		w.System(limiter.PerMinute("tpm", 1000), limiter.PerMinute("rpm", 10))

		_, err = w.Acquire(w.Context(), ask("key", "wpm", 1))
		says(err, "are rpm, tpm: name one of them, or configure it")
		lease := w.Lease(w.Limiter, ask("key", "tpm", 900))
		_, err = w.Acquire(w.Context(), ask("key", "tpm", -500))
		says(err, "the lease that took tokens returns them, by Release or Adjust")
		w.Must(lease.Release(w.Context(), tokens{"tpm": 300}))
		w.Must(lease.Adjust("tpm", -200))
		says(lease.Adjust("tpm", -500), "keep what the lease takes, now 400, between 0 and")
		w.Must(lease.Adjust("tpm", -400))

		says(lease.Adjust("rpm", 1), "name it in Consume, with an amount of 0 if need be")
		w.Must(lease.Commit(w.Context()))
		w.stands("key", limiter.LevelSystem, "key/rpm 10 of 10, 0s, 0s", "key/tpm 1000 of 1000, 0s, 0s")
		declared := w.Lease(w.Limiter, askAll("key", tokens{"tpm": 1, "rpm": 0}))
		w.Must(declared.Adjust("rpm", 1))
		w.Must(declared.Commit(w.Context()))
	})
}
