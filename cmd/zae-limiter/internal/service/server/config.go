package server

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
)

// ShowConfig registers metrics of the rules in use, and returns a handler that shows their state.
func ShowConfig(state func() hot.State, registry *prometheus.Registry) http.Handler {
	gauge := func(name, help string, value func(*hot.State) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "zae_limiter_service_config_" + name, Help: help}, func() float64 {
			now := state()
			return value(&now)
		}))
	}
	gauge("valid", "1 if the rules in use are those of the files or the server, 0 if those are not valid or not there.", func(s *hot.State) float64 {
		if s.Error != "" || s.Loads == 0 {
			return 0
		}
		return 1
	})
	gauge("loaded_timestamp_seconds", "When the rules in use came, 0 if there are none yet.", func(s *hot.State) float64 {
		if s.Loads == 0 {
			return 0
		}
		return float64(s.Loaded.UnixMilli()) / 1000
	})
	counter := func(name, help string, value func(*hot.State) int) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "zae_limiter_service_config_" + name, Help: help}, func() float64 {
			now := state()
			return float64(value(&now))
		}))
	}
	counter("loads_total", "How often rules came into use.", func(s *hot.State) int { return s.Loads })
	counter("failures_total", "How often rules were not valid, or not there.", func(s *hot.State) int { return s.Failures })
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(state()) // the client may have left
	})
}
