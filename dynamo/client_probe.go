//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package dynamo

import "syscall"

// canProbe says that there is a way to tell whether an idle connection stands.
const canProbe = true

// A probe looks at a socket without waiting and without taking anything from it.
type probe struct {
	quiet bool // nothing is there to be read, and the peer has not closed
	look  func(fd uintptr) bool
}

// init makes look, once: a function made for each look would be garbage.
func (p *probe) init() {
	one := make([]byte, 1)
	p.look = func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), one, syscall.MSG_PEEK)
		p.quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	}
}
