// Package virtual runs a part of a program in virtual time.
package virtual

import (
	"fmt"
	"runtime/debug"
	"testing"
	"testing/synctest"
)

// Run calls f in a bubble of [synctest], and returns its error. In the bubble a clock stands
// still while any goroutine runs, and jumps to the next timer when all of them wait: an hour
// of waiting takes as long as the work in it. f must end all goroutines that it starts. What it
// makes must not be used outside: channels and timers of a bubble belong to it. Within a bubble,
// Run calls f in that one: there are no bubbles in bubbles.
//
// The standard library opens a bubble only for a test. A program has none, and
// testing.RunTests does not make one there: without the flags of go test it runs nothing, and
// says so on standard error. So Run passes the zero value of [testing.T]. synctest.Test makes a
// test of its own below it, which takes from it only a name and a parent. f never sees the
// test: it must not fail, skip or log. No flag is registered, and nothing is printed.
//
// A panic of f would end the process from a goroutine of the test. Run carries it to the caller.
func Run(f func() error) (err error) {
	var broken any
	begun := false
	defer func() {
		if !begun && recover() != nil { // synctest refuses to open a bubble in a bubble
			err = f()
		}
	}()
	synctest.Test(new(testing.T), func(*testing.T) {
		begun = true
		defer func() {
			if broken = recover(); broken != nil {
				broken = fmt.Sprintf("%v\n%s", broken, debug.Stack())
			}
		}()
		err = f()
	})
	if broken != nil {
		panic(broken)
	}
	return err
}
