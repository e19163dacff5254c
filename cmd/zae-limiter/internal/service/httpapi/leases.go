package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// leases is how the paths of calls about leases begin.
const leases = "/v1/leases/"

// A Settlement says what a lease has used.
type Settlement struct {
	// Lease is the lease, as an acquire returned it.
	Lease string `json:"lease"`
	// Consume has the tokens that were used of limits of the call's own resource. Limits that are not
	// there keep what the call took.
	Consume map[string]int64 `json:"consume,omitempty"`
	// Also has what was used of further resources of the call. Slots are not there: a settlement gives all back.
	Also []decide.Part `json:"also,omitempty"`
}

// A Release ends a lease that has used nothing.
type Release struct {
	// Lease is the lease, as an acquire returned it.
	Lease string `json:"lease"`
}

// An Extension gives a lease more time.
type Extension struct {
	// Lease is the lease, as an acquire returned it.
	Lease string `json:"lease"`
	// Within is in how many milliseconds from now the lease is expected to be settled.
	Within int64 `json:"lease_ms"`
}

// Settled says what a lease took in the end.
type Settled struct {
	// Consumed has the tokens by limit, of the call's own resource.
	Consumed map[string]int64 `json:"consumed"`
}

// Extended has a lease with a later deadline. One settlement settles it and the one before.
type Extended struct {
	// Lease is the lease.
	Lease string `json:"lease"`
}

func (h *handler) settle(w http.ResponseWriter, r *http.Request) {
	in := &Settlement{}
	if p := h.read(w, r, MaxBody, in); p != nil {
		WriteProblem(w, p)
		return
	}
	h.end(r.Context(), w, "settle", in.Lease, func(lease *limiter.Lease) error {
		if decide.HaveSlots(in.Also) {
			return &limiter.ValidationError{Field: "also: slots", Reason: "the settlement gives all slots back: leave them out"}
		}
		for limit, used := range in.Consume {
			if err := lease.Settle(limit, used); err != nil {
				return err
			}
		}
		for _, part := range in.Also {
			of, err := lease.Resource(part.Resource)
			if err != nil {
				return err
			}
			for limit, used := range part.Consume {
				if err := of.Settle(limit, used); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (h *handler) release(w http.ResponseWriter, r *http.Request) {
	in := &Release{}
	if p := h.read(w, r, MaxBody, in); p != nil {
		WriteProblem(w, p)
		return
	}
	h.end(r.Context(), w, "release", in.Lease, nil)
}

// end ends a lease. Without a function, it returns what the lease took.
func (h *handler) end(ctx context.Context, w http.ResponseWriter, call, token string, used func(*limiter.Lease) error) {
	consumed, err := h.ended(ctx, token, used)
	if err != nil {
		h.write(ctx, w, "", "", h.failed(ctx, call, err))
		return
	}
	send(w, http.StatusOK, "application/json", Settled{consumed})
}

func (h *handler) ended(ctx context.Context, token string, used func(*limiter.Lease) error) (consumed map[string]int64, err error) {
	lease, err := h.Limiter.Resume(token)
	if err != nil {
		return nil, err
	}
	if used != nil {
		if err := used(lease); err != nil {
			return nil, err
		}
		return lease.Consumed(), lease.Commit(ctx)
	}
	consumed = lease.Consumed()
	for limit := range consumed {
		consumed[limit] = 0
	}
	return consumed, lease.Rollback(ctx)
}

func (h *handler) extend(w http.ResponseWriter, r *http.Request) {
	in := &Extension{}
	if p := h.read(w, r, MaxBody, in); p != nil {
		WriteProblem(w, p)
		return
	}
	token, err := h.extended(r.Context(), in)
	if err != nil {
		h.write(r.Context(), w, "", "", h.failed(r.Context(), "extend", err))
		return
	}
	send(w, http.StatusOK, "application/json", Extended{token})
}

func (h *handler) extended(ctx context.Context, in *Extension) (string, error) {
	var within time.Duration
	lease, err := h.Limiter.Resume(in.Lease)
	if err == nil {
		within, err = decide.LeaseTime(in.Within, false)
	}
	if err != nil {
		return "", err
	}
	token, err := lease.Token(ctx, within)
	if invalid, ok := errors.AsType[*limiter.ValidationError](err); ok && invalid.Field == "within" { // it has slots
		_, err = decide.LeaseTime(in.Within, true)
	}
	return token, err
}
