//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package exchange

const canProbe = false

type probe struct {
	quiet bool
	look  func(fd uintptr) bool
}

func (*probe) init() {}
