package limiter

import "context"

// Return returns tokens that earlier requests took, whose leases are gone: of a process that has
// ended, or of a caller that has no leases. Consume says how many; a cascade returns them to the
// parent too. A balance does not get higher than its capacity. Tokens of a quota are returned to the
// period under way, so return none of an earlier one.
//
// Use [Lease.Rollback] or [Lease.Release] where there is a lease: Return believes its caller,
// and who returns what was not taken gives it away. A request must not name slots. Errors are
// those of [Limiter.Acquire] and [Lease.Commit], never a refusal: after [ErrUnavailable] the tokens
// may or may not have been returned.
func (l *Limiter) Return(ctx context.Context, req Request) error {
	if len(req.Slots) > 0 {
		return &ValidationError{Field: "slots", Reason: "slots end with their lease: leave them out"}
	}
	if err := req.Validate(); err != nil {
		return err
	}
	nothing := req.clone()
	nothing.OnUnavailable = Block // what the store does not hear of is not returned
	for part := range nothing.parts() {
		for name := range part.Consume {
			part.Consume[name] = 0
		}
	}
	lease, err := l.Acquire(ctx, nothing)
	if err != nil {
		return err
	}
	i := 0
	for part := range req.parts() {
		of := lease.part(i)
		of.mu.Lock()
		for _, side := range of.sides {
			side.Presume(part.Consume)
		}
		of.mu.Unlock()
		i++
	}
	return lease.Rollback(ctx)
}
