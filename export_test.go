package limiter

// Settle waits for work that goes on after calls have returned.
func (l *Limiter) Settle() { l.background.Wait() }
