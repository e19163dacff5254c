package calls

// MaxIdle bounds the goroutines that wait for work.
const MaxIdle = maxIdle

// Idle is the number of goroutines that wait for work.
func (p *Workers) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}
