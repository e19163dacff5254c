// The program waits for 100 days in virtual time.
package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/virtual"
)

func main() {
	days, flags := 0, 0
	for range 100 {
		err := virtual.Run(func() error {
			began := time.Now()
			time.Sleep(24 * time.Hour)
			days += int(time.Since(began) / (24 * time.Hour))
			return nil
		})
		if err != nil {
			panic(err)
		}
	}
	flag.VisitAll(func(*flag.Flag) { flags++ })
	fmt.Printf("%d days, %d flags\n", days, flags)
}
