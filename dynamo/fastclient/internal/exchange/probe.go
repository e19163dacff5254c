//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package exchange

import "syscall"

// canProbe reports that this system can tell whether an idle connection is still open.
const canProbe = true

// A probe checks a socket without waiting and without consuming data.
type probe struct {
	quiet bool // there is nothing to read, and the peer has not closed the connection
	look  func(fd uintptr) bool
}

// init makes look once, because making it for each check would create garbage.
func (p *probe) init() {
	one := make([]byte, 1)
	p.look = func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), one, syscall.MSG_PEEK)
		p.quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	}
}
