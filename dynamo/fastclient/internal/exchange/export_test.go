package exchange

import "io"

// ReadAnswer reads an answer from a connection, and reports whether the connection is
// ready for the next exchange.
func ReadAnswer(from io.Reader) (a *Answer, reusable bool, err error) {
	a = &Answer{release: func() {}}
	err = a.read(from)
	return a, a.reusable, err
}

// ReadOddly reads the answer with package http from the beginning.
func ReadOddly(from io.Reader) (a *Answer, reusable bool, err error) {
	a = &Answer{release: func() {}}
	err = a.readOdd(from)
	return a, a.reusable, err
}

// IsOdd reports whether package http read the answer.
func (a *Answer) IsOdd() bool { return a.odd != nil }
