package calls

// MaxIdle bounds the goroutines that wait for work.
const MaxIdle = maxIdle

// IdleTime is how long an idle goroutine waits for work at least.
const IdleTime = idleTime

// Idle is the number of goroutines that wait for work.
func (p *Workers) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}
