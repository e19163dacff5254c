package store_test

import (
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/store"
)

// CheckEntity says what is wrong with an entity's ID.
func ExampleCheckEntity() {
	err := store.CheckEntity("auth0|5f7c")
	fmt.Println(err, errors.Is(err, store.ErrInvalid))
	fmt.Println(store.CheckEntity("auth0Z_7C5f7c"))
	// Output:
	// invalid entity "auth0|5f7c": use letters, digits and "_.-:@" only true
	// <nil>
}

func ExampleLimit_Validate() {
	limit := store.Limit{Name: "rpm", Capacity: 100, Amount: 0, Period: 60e9}
	fmt.Println(limit.Validate())
	// Output: invalid limit rpm: refill amount "0": give a whole number of tokens from 1 to 1000000000000000
}

func ExampleLimit_String() {
	day, err := store.ParseRenewal("day at 06:30", "Europe/Berlin")
	fmt.Println(store.Limit{Name: "rpm", Capacity: 100, Amount: 100, Period: 60e9}, err)
	fmt.Println(store.Limit{Name: "tpm", Capacity: 500, Amount: 100, Period: 60e9})
	fmt.Println(store.Limit{Name: "rpd", Capacity: 1000, Renews: day})
	// Output:
	// rpm: 100 every 1m0s <nil>
	// tpm: 100 every 1m0s, at most 500 at once
	// rpd: 1000 each day at 06:30 in Europe/Berlin
}
