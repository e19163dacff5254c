package estimate_test

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
)

// What do 100 requests a second cost, if each cascades to a parent?
func Example() {
	load, err := estimate.New(estimate.Load{Rate: 100, Cascade: 1})
	if err != nil {
		panic(err)
	}
	prices, err := estimate.BuiltIn("us-east-1")
	if err != nil {
		panic(err)
	}
	bill := load.Bill(prices)
	fmt.Printf("%.0f write units a second\n", load.Sum.Writes)
	fmt.Printf("about %.0f00 dollars a month on demand\n", bill.OnDemand/100)
	fmt.Println("provisioned capacity costs less:", bill.Provisioned < bill.OnDemand)
	// Output:
	// 200 write units a second
	// about 300 dollars a month on demand
	// provisioned capacity costs less: true
}
